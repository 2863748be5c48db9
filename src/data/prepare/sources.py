"""What text comes in: pieces, in numbered parts that can each be read again without the others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

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
