"""Tokens that are numbers and nothing more."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Integer, UInt

from src.data.vocabulary.checks import known_tokens
from src.errors import DataError

_ID = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class IdVocabulary:
    """Numbers from 0 to size - 1, written with blanks between them.

    >>> IdVocabulary(10).encode("3 0 7").tolist(), IdVocabulary(10).decode([3, 0, 7])
    ([3, 0, 7], '3 0 7')
    """

    size: int

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> IdVocabulary:
        size = values.get("size")
        if values.get("kind") != "ids" or not isinstance(size, int) or size < 1:
            raise DataError(f"not a vocabulary of ids: {dict(values)!r}; was it written by this project?")
        return cls(size)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "ids", "size": self.size}

    @property
    def facts(self) -> dict[str, Any]:
        return self.to_dict()

    @property
    def start(self) -> str:
        return "0"

    @property
    def hash(self) -> str:
        return hashlib.sha256(f"ids {self.size}".encode()).hexdigest()

    def encode(self, text: str) -> UInt[np.ndarray, " T"]:
        """Raises DataError for what is not a number of this vocabulary."""
        words = text.split()
        if strange := [word for word in words if not _ID.fullmatch(word)]:
            raise DataError(f"{strange[0]!r} is no token id; write numbers with blanks between them, such as '3 0 7'")
        return known_tokens([int(word) for word in words], self.size).astype(np.min_scalar_type(self.size - 1))

    def decode(self, tokens: Integer[np.ndarray, " T"] | Sequence[int]) -> str:
        return " ".join(map(str, known_tokens(tokens, self.size)))

    def bytes_of(self, tokens: Integer[np.ndarray, " T"]) -> None:
        return None
