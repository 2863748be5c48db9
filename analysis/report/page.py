"""What a page is made of, whatever it is written as."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from analysis.plots.figures import Drawn

Tone = Literal["plain", "claim", "caution"]


@dataclass(frozen=True)
class Paragraph:
    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Bullets:
    items: list[str]
    tone: Tone = "plain"


@dataclass(frozen=True)
class Table:
    """Cells as people read them. The first column names the row; `note` stands below."""

    header: list[str]
    rows: list[list[str]]
    note: str = ""


@dataclass(frozen=True)
class Code:
    lines: list[str]


Block = Paragraph | Bullets | Table | Code | Drawn


@dataclass(frozen=True)
class Section:
    title: str
    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True)
class Page:
    """`sections[0]` opens with the claim and has no title of its own."""

    title: str
    source: str
    sections: list[Section]
