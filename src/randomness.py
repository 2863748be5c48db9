"""Named random streams. A stream is a pure function of the seed and a name, never of what ran before."""

from __future__ import annotations

import hashlib

import numpy as np
from jaxtyping import UInt64

STREAMS = ("init", "data", "dropout", "evaluation", "sample", "bootstrap")


def stream_seed(seed: int, stream: str, *names: int | str) -> int:
    """63 bits for one named stream (and, say, one step or one parameter of it), alike on every machine.

    >>> stream_seed(0, "data") != stream_seed(0, "init") != stream_seed(1, "init")
    True
    """
    if stream not in STREAMS:
        raise ValueError(f"unknown random stream {stream!r}; known: {', '.join(STREAMS)}")
    text = ":".join([str(seed), stream, *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


# Raw output of a counter-based generator, from any place of its stream on.
WORDS_A_COUNT = 4  # of Philox-4x64


def random_words(key: int, first: int, count: int) -> UInt64[np.ndarray, " W"]:
    """Words `first` to `first + count - 1` of the stream that `key` names, without making those before.

    Raw words are alike on every machine, and unlike the methods of numpy's Generator they never change.
    Source: Salmon et al. 2011 (Philox).

    >>> whole = random_words(7, 0, 100)
    >>> bool((whole[17:40] == random_words(7, 17, 23)).all())
    True
    """
    counter, skipped = divmod(first, WORDS_A_COUNT)
    return np.random.Philox(key=key, counter=counter).random_raw(skipped + count)[skipped:]
