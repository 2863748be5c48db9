"""What a token means. Four kinds answer the same calls:

characters  one token a character, of those that a text has
bytes       one token a byte, for any file
bpe         byte-level byte-pair encoding, learnt from a text
ids         numbers without a text: tokens of tasks, and of shards whose vocabulary is not known
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from jaxtyping import Integer, UInt, UInt8

from src.data.bpe import BpeVocabulary
from src.data.tokens import known_tokens
from src.errors import DataError

__all__ = ["BpeVocabulary", "ByteVocabulary", "CharacterVocabulary", "IdVocabulary", "Vocabulary", "vocabulary_of"]

_SHOWN = 120  # characters that an error lists before it only counts them
_ID = re.compile(r"[0-9]{1,18}")


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
        """UTF-8 bytes of the text that tokens stand for; None where there is no such text."""
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


@dataclass(frozen=True)
class CharacterVocabulary:
    r"""Characters in code-point order; a token is a character's place among them.

    >>> vocabulary = CharacterVocabulary.of("to be")
    >>> vocabulary.encode("bet").tolist(), vocabulary.decode([1, 2, 4])
    ([1, 2, 4], 'bet')
    """

    characters: str

    def __post_init__(self) -> None:
        points = _code_points(self.characters).astype(np.int64)
        if not len(points) or (np.diff(points) <= 0).any():
            raise DataError(
                f"{self.characters[:20]!r} is no vocabulary: it must hold each character once, in code-point order; "
                "build one with CharacterVocabulary.of(text)"
            )

    @classmethod
    def of(cls, text: str) -> CharacterVocabulary:
        """The vocabulary of exactly the characters that occur. Raises DataError for an empty text."""
        points = _code_points(text)
        seen = np.zeros(int(points.max(initial=0)) + 1, dtype=bool)
        seen[points] = True
        return cls(_text(np.flatnonzero(seen)))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CharacterVocabulary:
        """The reverse of `to_dict`. Raises DataError for values that `to_dict` never gave."""
        characters = values.get("characters")
        if values.get("kind") != "characters" or not isinstance(characters, str):
            raise DataError(f"not a character vocabulary: kind={values.get('kind')!r}; was it written by this project?")
        return cls(characters)

    def to_dict(self) -> dict[str, str]:
        return {"kind": "characters", "characters": self.characters}

    @property
    def facts(self) -> dict[str, str]:
        return self.to_dict()

    @property
    def start(self) -> str:
        return "\n" if "\n" in self.characters else self.characters[0]

    @property
    def size(self) -> int:
        return len(self.characters)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned type that holds every token."""
        return np.min_scalar_type(self.size - 1)

    @property
    def hash(self) -> str:
        """SHA-256 of the characters: vocabularies of one size but of other characters differ here."""
        return hashlib.sha256(_code_points(self.characters).tobytes()).hexdigest()

    def encode(self, text: str) -> UInt[np.ndarray, " T"]:
        """Tokens of a text, in `dtype`; none for an empty text.

        Raises DataError that names the first character without a token, and its position.
        """
        points = _code_points(text)
        if not self._known[np.minimum(points, len(self._known) - 1)].all():
            raise DataError(self._unseen(text))
        return self._token_of[points]

    def decode(self, tokens: Integer[np.ndarray, " T"] | Sequence[int]) -> str:
        return _text(_code_points(self.characters)[known_tokens(tokens, self.size)])

    def bytes_of(self, tokens: Integer[np.ndarray, " T"]) -> int:
        widths = np.array([len(character.encode("utf-8", "surrogatepass")) for character in self.characters])
        return int(np.bincount(tokens, minlength=self.size) @ widths)

    @cached_property
    def _token_of(self) -> UInt[np.ndarray, " N"]:
        points = _code_points(self.characters)
        table = np.zeros(int(points[-1]) + 1, dtype=self.dtype)
        table[points] = np.arange(self.size)
        return table

    @cached_property
    def _known(self) -> np.ndarray:
        points = _code_points(self.characters)
        table = np.zeros(int(points[-1]) + 2, dtype=bool)  # the last place stands for every higher code point
        table[points] = True
        return table

    def _unseen(self, text: str) -> str:
        known = set(self.characters)
        position, character = next((i, c) for i, c in enumerate(text) if c not in known)
        listed = repr(self.characters) if self.size <= _SHOWN else f"{self.characters[:_SHOWN]!r} and more"
        return (
            f"the character {character!r} (U+{ord(character):04X}) at position {position} is not among "
            f"the {self.size} of this vocabulary, {listed}; leave it out, or train on a text that has it"
        )


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


def _code_points(text: str) -> UInt[np.ndarray, " T"]:
    # A command line in the C locale may carry lone surrogates; they must reach the error that names them.
    return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype="<u4")


def _text(points: Integer[np.ndarray, " T"]) -> str:
    return points.astype("<u4").tobytes().decode("utf-32-le", errors="surrogatepass")
