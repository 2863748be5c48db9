"""Raw output of a counter-based generator, from any place of its stream on."""

from __future__ import annotations

import numpy as np
from jaxtyping import UInt64

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
