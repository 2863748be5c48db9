"""What every vocabulary asks of tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64, Integer

from src.errors import DataError


def known_tokens(tokens: Integer[np.ndarray, " T"] | Sequence[int], size: int) -> Int64[np.ndarray, " T"]:
    """The tokens as numbers. Raises DataError for one outside 0 to size - 1."""
    ids = np.asarray(tokens, dtype=np.int64)
    outside = (ids < 0) | (ids >= size)
    if outside.any():
        raise DataError(
            f"token {ids[outside][0]} is none of the vocabulary's {size} (0 to {size - 1}); "
            "were the tokens made with another vocabulary?"
        )
    return ids
