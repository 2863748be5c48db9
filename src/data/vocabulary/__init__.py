"""What a token means. Four kinds answer the same calls:

characters  one token a character, of those that a text has
bytes       one token a byte, for any file
bpe         byte-level byte-pair encoding, learnt from a text
ids         numbers without a text: tokens of tasks, and of shards whose vocabulary is not known
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from jaxtyping import Integer, UInt

from src.data.vocabulary.bpe import BpeVocabulary
from src.data.vocabulary.simple import ByteVocabulary, CharacterVocabulary, IdVocabulary
from src.errors import DataError

__all__ = ["BpeVocabulary", "ByteVocabulary", "CharacterVocabulary", "IdVocabulary", "Vocabulary", "vocabulary_of"]


class Vocabulary(Protocol):
    """Text to tokens and back. Tokens run from 0 to size - 1."""

    @property
    def size(self) -> int: ...

    @property
    def hash(self) -> str:
        """SHA-256 of what the tokens mean: vocabularies of one size that differ in meaning differ here."""
        ...

    @property
    def start(self) -> str:
        """What a continuation begins from where no prompt is given; at least one token."""
        ...

    @property
    def facts(self) -> dict[str, Any]:
        """What a record says of it, as plain values."""
        ...

    def encode(self, text: str) -> UInt[np.ndarray, " T"]:
        """Raises DataError where the text has no tokens in this vocabulary."""
        ...

    def decode(self, tokens: Integer[np.ndarray, " T"] | Sequence[int]) -> str:
        """Raises DataError for a token that the vocabulary does not have."""
        ...

    def bytes_of(self, tokens: Integer[np.ndarray, " T"]) -> int | None:
        """UTF-8 bytes of the text that tokens stand for; null where there is no such text."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, for checkpoints; `vocabulary_of` reads them."""
        ...


def vocabulary_of(values: Mapping[str, Any]) -> Vocabulary:
    """The vocabulary that `to_dict` gave. Raises DataError for values that it never gave."""
    kinds = {
        "characters": CharacterVocabulary,
        "bytes": ByteVocabulary,
        "bpe": BpeVocabulary,
        "ids": IdVocabulary,
    }
    kind = kinds.get(str(values.get("kind")))
    if kind is None:
        raise DataError(
            f"not a vocabulary: kind={values.get('kind')!r}, and only {', '.join(kinds)} are known; "
            "was it written by a newer version?"
        )
    return kind.from_dict(values)
