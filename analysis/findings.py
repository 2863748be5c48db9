"""What the analysis has to say beside its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from src.errors import UserError


class AnalysisError(UserError):
    """A table that cannot answer what was asked: what is missing, and what can still be said."""


@dataclass(frozen=True)
class Finding:
    """One sentence for the reader. A `caution` changes how far the numbers carry; a `note` only informs."""

    about: str
    text: str
    level: Literal["note", "caution"] = "note"

    def __str__(self) -> str:
        return self.text


def caution(about: str, text: str) -> Finding:
    return Finding(about, text, "caution")


def some(items: list[str], shown: int = 6) -> str:
    """The items with commas; past `shown` of them, how many more.

    >>> some(["a", "b", "c"], shown=2)
    'a, b and 1 more'
    """
    if len(items) <= shown:
        return ", ".join(items)
    return f"{', '.join(items[:shown])} and {len(items) - shown} more"
