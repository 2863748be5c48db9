"""A random order of n things at constant memory: where does the i-th stand? Computed, never stored."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64, UInt64

from src.randomness import random_words, stream_seed

ROUNDS = 8
BLOCK = 1 << 14  # places computed at once; one batch alone would pay numpy's fixed price for each operation


class Permutation:
    """One of the orders of range(n), named by `key` (64 bits): a bijection, whatever n.

    A balanced Feistel network shuffles the smallest domain of 4^k numbers that holds n; a place that lands
    outside n walks on through the network until it lands inside, which keeps the mapping one to one.
    Source: Luby and Rackoff 1988; Black and Rogaway 2002, section 4 (cycle walking).

    >>> sorted(Permutation(10, key=1).places(0, 10).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(self, n: int, key: int) -> None:
        if n < 1:
            raise ValueError(f"n={n}; a permutation needs at least one thing")
        self.n = n
        self._half_bits = np.uint64(max(1, ((n - 1).bit_length() + 1) // 2))
        self._mask = np.uint64((1 << int(self._half_bits)) - 1)
        self._keys = random_words(key, 0, ROUNDS)
        self._block: tuple[int, Int64[np.ndarray, " W"]] = (-1, np.empty(0, dtype=np.int64))

    def places(self, first: int, end: int) -> Int64[np.ndarray, " W"]:
        """Where the things `first` to `end - 1` of the order stand."""
        pieces = []
        while first < end:
            block, offset = divmod(first, BLOCK)
            pieces.append(self._places_of(block)[offset : offset + end - first])
            first += len(pieces[-1])
        return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)

    def _places_of(self, block: int) -> Int64[np.ndarray, " W"]:
        if self._block[0] != block:
            first = block * BLOCK
            self._block = (block, self._walk(np.arange(first, min(first + BLOCK, self.n), dtype=np.uint64)))
        return self._block[1]

    def _walk(self, numbers: UInt64[np.ndarray, " W"]) -> Int64[np.ndarray, " W"]:
        places = self._shuffle(numbers)
        while (outside := np.flatnonzero(places >= np.uint64(self.n))).size:
            places[outside] = self._shuffle(places[outside])
        return places.astype(np.int64)

    def _shuffle(self, numbers: UInt64[np.ndarray, " W"]) -> UInt64[np.ndarray, " W"]:
        left, right = numbers >> self._half_bits, numbers & self._mask
        for key in self._keys:
            left, right = right, left ^ (_mixed(right ^ key) & self._mask)
        return left << self._half_bits | right


class ShuffledEpochs:
    """An endless stream over range(n): each epoch once over all of it, in a new random order."""

    def __init__(self, n: int, seed: int) -> None:
        self.n = n
        self._seed = seed
        self._epoch: tuple[int, Permutation] = (0, self._order(0))

    def pieces(self, first: int, count: int) -> list[tuple[int, Int64[np.ndarray, " W"]]]:
        """Members `first` to `first + count - 1` of the stream, as (epoch, places) a piece of one epoch."""
        pieces = []
        while count:
            epoch, offset = divmod(first, self.n)
            here = min(count, self.n - offset)
            pieces.append((epoch, self._order_of(epoch).places(offset, offset + here)))
            first, count = first + here, count - here
        return pieces

    def _order_of(self, epoch: int) -> Permutation:
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self._order(epoch))
        return self._epoch[1]

    def _order(self, epoch: int) -> Permutation:
        return Permutation(self.n, stream_seed(self._seed, "data", "order", epoch))


def _mixed(x: UInt64[np.ndarray, " W"]) -> UInt64[np.ndarray, " W"]:
    """Every bit of the result depends on every bit of x. Source: Steele, Lea and Flood 2014 (SplitMix64)."""
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)
