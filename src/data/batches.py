"""Which tokens does step s see? A pure function of the seed, the order and s, so that any step can be asked for.

A window is `context_length` inputs and the token after each. Windows form one endless stream that depends
neither on the model nor on the batch size: a batch only cuts the next piece from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int, Int64

from src.config import Order
from src.data.permutation import ShuffledEpochs
from src.data.tokens import Tokens
from src.errors import ConfigError, DataError
from src.randomness import random_words, stream_seed

if TYPE_CHECKING:
    from torch import Tensor


class TrainingBatches:
    """Batches of the training split, by step number, with no state that a resume would have to restore.

    The order of the windows:

        shuffled    each epoch goes once over a grid of windows, `stride` tokens apart, in a new random order;
                    the grid starts at a random phase below `stride`, so epochs cut the text at different places
        random      window starts drawn with replacement; an epoch is as many draws as `shuffled` has windows
        sequential  windows in file order, `stride` apart; the last batch of an epoch may be smaller

    With `shuffled` and `random` every batch is full: one that reaches the end of an epoch goes on into the
    next. A stride of None is `context_length`: no token is predicted twice in an epoch.
    """

    def __init__(
        self,
        tokens: Tokens,
        context_length: int,
        batch_size: int,
        order: Order,
        stride: int | None,
        seed: int,
    ) -> None:
        self._windows = _Windows(tokens, context_length)
        self._batch_size = batch_size
        self._order: Order = order
        self._stride = context_length if stride is None else stride
        self._seed = seed
        possible = self._windows.possible
        if order == "sequential":
            self._per_epoch = -(-possible // self._stride)
        else:  # as many as fit at every phase of the grid, so that all epochs are equally long
            self._per_epoch = max(1, possible // self._stride)
        self._shuffled = ShuffledEpochs(self._per_epoch, seed)

    @property
    def steps_per_epoch(self) -> int:
        """Steps that show at least one whole epoch."""
        return -(-self._per_epoch // self._batch_size)

    def batch(self, step: int) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
        """Inputs and targets of the step that follows `step` finished steps; int64, on the CPU.

        The targets are the inputs one token later.
        """
        return self._windows.read(self.starts(step))

    def starts(self, step: int) -> Int64[np.ndarray, " B"]:
        """Where the windows of that batch begin, as places in the training tokens."""
        if step < 0:
            raise ValueError(f"step={step}; steps count from 0")
        if self._order == "sequential":  # never mixes two epochs
            first = step % self.steps_per_epoch * self._batch_size
            return self._stride * np.arange(first, min(first + self._batch_size, self._per_epoch))
        first = step * self._batch_size
        if self._order == "random":
            words = random_words(stream_seed(self._seed, "data", "starts"), first, self._batch_size)
            return (words % np.uint64(self._windows.possible)).astype(np.int64)
        pieces = self._shuffled.pieces(first, self._batch_size)
        return np.concatenate([self._phase(epoch) + self._stride * places for epoch, places in pieces])

    def _phase(self, epoch: int) -> int:
        """Where the grid of an epoch begins."""
        return stream_seed(self._seed, "data", "phase", epoch) % min(self._stride, self._windows.possible)


class EvaluationWindows:
    """All of a split in file order: an iterable of (inputs, targets), the same for every model and seed.

    With a stride of None each prediction is made exactly once. A shorter stride lets windows overlap: their
    predictions are counted as often as they are made. What no full window reaches, at the end of the split,
    comes as one short window in a batch of its own, so that the whole split counts and its mean does not
    depend on the batch size. `drop_partial_batch` leaves out the short window and a last batch that is not full.

    Raises ConfigError for a stride that leaves gaps, DataError where nothing is left to evaluate.
    """

    def __init__(
        self,
        tokens: Tokens,
        context_length: int,
        batch_size: int,
        stride: int | None,
        drop_partial_batch: bool,
    ) -> None:
        if stride is not None and stride > context_length:
            raise ConfigError(
                f"training.eval_stride={stride} is more than context_length={context_length}, so tokens between the "
                f"windows would never be evaluated; choose at most {context_length}, or null"
            )
        self._windows = _Windows(tokens, context_length)
        self._batch_size = batch_size
        self._stride = context_length if stride is None else stride
        self._count = -(-self._windows.possible // self._stride)
        self._tail_start = (self._count - 1) * self._stride + context_length
        self._has_tail = not drop_partial_batch and self._tail_start < self._windows.last_target
        if drop_partial_batch:
            full = self._count // batch_size * batch_size
            if not full:
                raise DataError(
                    f"the validation split holds {self._count} windows, fewer than one batch of {batch_size}; "
                    "choose a smaller training.eval_batch_size, or training.eval_drop_partial_batch=false"
                )
            self._count = full

    def __len__(self) -> int:
        return -(-self._count // self._batch_size) + self._has_tail

    def some(self, count: int) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
        """So many of the full windows, or all where there are fewer, evenly spread over the split."""
        windows = np.unique(np.linspace(0, self._count - 1, count).astype(np.int64))
        return self._windows.read(self._stride * windows)

    def loss_floor(self) -> None:
        """Nobody knows the least loss that a model of a text can have."""

    def __iter__(self) -> Iterator[tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]]:
        for first in range(0, self._count, self._batch_size):
            yield self._windows.read(self._stride * np.arange(first, min(first + self._batch_size, self._count)))
        if self._has_tail:
            yield self._windows.read_from(self._tail_start)


class _Windows:
    """Windows of a token sequence by their start."""

    def __init__(self, tokens: Tokens, context_length: int) -> None:
        if len(tokens) <= context_length:
            raise DataError(
                f"{len(tokens):,} tokens are too few for context_length={context_length}: a window needs "
                f"{context_length + 1:,}; use a longer text or a smaller context_length"
            )
        self.context_length = context_length
        self.possible = len(tokens) - context_length  # starts run from 0 to possible - 1
        self.last_target = len(tokens) - 1
        self._tokens = tokens

    def read(self, starts: Int64[np.ndarray, " B"]) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
        width = self.context_length + 1
        rows = np.empty((len(starts), width), dtype=np.int64)
        for row, start in zip(rows, starts.tolist(), strict=True):
            row[:] = self._tokens[start : start + width]
        return _shifted(rows)

    def read_from(self, start: int) -> tuple[Int[Tensor, "1 T"], Int[Tensor, "1 T"]]:
        """The one window from `start` to the end of the sequence."""
        return _shifted(self._tokens[start:].astype(np.int64)[None])


def _shifted(rows: Int64[np.ndarray, "B W"]) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    import torch  # here, not above: counting steps needs no torch

    inputs = torch.from_numpy(rows[:, :-1].copy())
    targets = torch.from_numpy(rows[:, 1:].copy())
    return inputs, targets
