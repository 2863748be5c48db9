"""What text comes in: pieces, in numbered parts that can each be read again without the others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, Protocol

from src.errors import DataError

Split = Literal["train", "validation"]


@dataclass(frozen=True)
class Piece:
    """Some text of one document; `is_end` says that the document ends with it, `read` how much reading it took."""

    split: Split
    text: str
    is_end: bool
    read: int


class Source(Protocol):
    """Where text comes from. The same part always gives the same pieces."""

    @property
    def total(self) -> int | None:
        """What the `read` of all pieces adds up to, about; null where nobody knows beforehand."""
        ...

    def facts(self) -> list[dict[str, Any]]:
        """Names and hashes of what is read, for the manifest."""
        ...

    def state(self) -> list[dict[str, Any]]:
        """What must not change while a preparation is interrupted; cheap to ask for."""
        ...

    def part(self, number: int) -> Iterator[Piece] | None:
        """The pieces of a part; null past the last."""
        ...


def split_of(document: str, validation_fraction: float) -> Split:
    """Decided by the text itself: a document that comes twice never lies on both sides."""
    digest = hashlib.sha256(document.encode("utf-8", "replace")).digest()
    return "validation" if int.from_bytes(digest[:8], "big") < validation_fraction * 2**64 else "train"


# A Hugging Face data set, streamed: never more than a part of it is in memory, and nothing else is downloaded.
_MISSING = "--dataset needs the library datasets; install it with: pip install 'datasets>=4,<5'"


class HuggingFace:
    """The rows of one split of a data set, in its order, `part_rows` a part.

    The share `validation_fraction` of the documents is for validation, by `split_of`.
    Raises DataError where the library or the data set is missing.
    """

    def __init__(
        self,
        name: str,
        config: str | None,
        split: str,
        revision: str | None,
        column: str,
        validation_fraction: float,
        part_rows: int,
    ) -> None:
        self.name, self.config, self.split, self.revision = name, config, split, revision
        self.column, self.validation_fraction, self.part_rows = column, validation_fraction, part_rows
        self._rows: tuple[int, Iterator[dict[str, Any]]] | None = None

    @property
    def total(self) -> None:
        return None

    def facts(self) -> list[dict[str, Any]]:
        return self.state()

    def state(self) -> list[dict[str, Any]]:
        """Without a revision the data set's owner may change it at any time."""
        return [{"dataset": self.name, "config": self.config, "split": self.split, "revision": self.revision}]

    def part(self, number: int) -> Iterator[Piece] | None:
        rows = self._from(number * self.part_rows)
        first = next(rows, None)
        return None if first is None else self._pieces(first, rows, number)

    def _pieces(self, row: dict[str, Any] | None, rows: Iterator[dict[str, Any]], number: int) -> Iterator[Piece]:
        end = (number + 1) * self.part_rows
        for place in range(number * self.part_rows, end):
            if row is None:
                break
            text = self._text(row, place)
            yield Piece(split_of(text, self.validation_fraction), text, True, 1)
            row = next(rows, None) if place + 1 < end else None
        self._rows = (end, rows)

    def _from(self, place: int) -> Iterator[dict[str, Any]]:
        """The rows from a place on; those that the part before left are gone on with, not skipped again."""
        if self._rows is not None and self._rows[0] == place:
            return self._rows[1]
        # The library's own skip() begins again where it should end: datasets 4.8 gives rows past the last.
        return islice(open_stream(self.name, self.config, self.split, self.revision), place, None)

    def _text(self, row: dict[str, Any], place: int) -> str:
        value = row.get(self.column)
        if not isinstance(value, str):
            found = ", ".join(f"{name} ({type(of).__name__})" for name, of in row.items())
            raise DataError(
                f"{self.name}, row {place}: there is no text in {self.column!r} (there: {found}); say where with "
                "--column"
            )
        return value


def open_stream(name: str, config: str | None, split: str, revision: str | None) -> Iterable[dict[str, Any]]:
    """The rows of a data set as a stream. Raises DataError where it cannot be had."""
    try:
        from datasets import load_dataset  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise DataError(_MISSING) from None
    try:
        return load_dataset(name, config, split=split, revision=revision, streaming=True)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"the data set {name} (config {config}, split {split}) cannot be had: {error}") from None
