"""One token a byte."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Integer, UInt8

from src.data.vocabulary.checks import known_tokens
from src.errors import DataError


@dataclass(frozen=True)
class ByteVocabulary:
    """The 256 bytes, for any file; text goes through UTF-8. What is not UTF-8 reads as U+FFFD.

    >>> ByteVocabulary().encode("né").tolist(), ByteVocabulary().decode([110, 195, 169, 255])
    ([110, 195, 169], 'né�')
    """

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ByteVocabulary:
        if values.get("kind") != "bytes":
            raise DataError(f"not a byte vocabulary: kind={values.get('kind')!r}; was it written by this project?")
        return cls()

    def to_dict(self) -> dict[str, str]:
        return {"kind": "bytes"}

    @property
    def facts(self) -> dict[str, str]:
        return self.to_dict()

    @property
    def size(self) -> int:
        return 256

    @property
    def start(self) -> str:
        return "\n"

    @property
    def hash(self) -> str:
        return hashlib.sha256(bytes(range(256))).hexdigest()

    def encode(self, text: str) -> UInt8[np.ndarray, " T"]:
        return np.frombuffer(text.encode("utf-8", "surrogateescape"), dtype=np.uint8)

    def decode(self, tokens: Integer[np.ndarray, " T"] | Sequence[int]) -> str:
        return known_tokens(tokens, self.size).astype(np.uint8).tobytes().decode("utf-8", "replace")

    def bytes_of(self, tokens: Integer[np.ndarray, " T"]) -> int:
        return len(tokens)
