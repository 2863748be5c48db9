"""A page: what it is made of, as one HTML file (styles and figures inside, no script, no request), and as Markdown."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Literal

from matplotlib.figure import Figure

from analysis.plots.figures import Drawn
from analysis.plots.style import INK

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


# A page as one HTML file: styles and figures inside it, no script, no request to anywhere.
STYLE = Path(__file__).with_name("page.css")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_LONG = 45
"""A cell of more letters than this may break into lines."""
_ID = re.compile(r'\bid="([^"]+)"')
_POINTS_TO = re.compile(r'(url\(#|xlink:href="#)([^")]+)')
_SHOWN = re.compile(r"^(better|worse|alike|open)\b")


def html_of(page: Page) -> str:
    """The whole file. The policy in its head forbids what it does not need anyway."""
    body = "\n".join(part for section in page.sections for part in _section(section))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(page.title)}</title>
<style>
{STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<main>
<h1>{escape(page.title)}</h1>
{body}
</main>
<footer>{escape(page.source)}</footer>
</body>
</html>
"""


def _section(section: Section) -> Iterator[str]:
    name = anchor(section.title)
    yield f'<section id="{name}">' if section.title else "<section>"
    if section.title:
        yield f"<h2>{escape(section.title)}</h2>"
    for block in section.blocks:
        yield _block(block, name)
    yield "</section>"


def _block(block: Block, place: str) -> str:
    match block:
        case Paragraph(text, "claim"):
            return f'<p class="claim">{escape(text)}</p>'
        case Paragraph(text, _):
            return f"<p>{escape(text)}</p>"
        case Bullets(items, tone):
            return f'<ul class="{tone}">' + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"
        case Code(lines):
            return "<pre><code>" + escape("\n".join(lines)) + "</code></pre>"
        case Table():
            return _table(block)
        case Drawn(name, title, caption, figure):
            drawing = inline_svg(figure, f"{place}-{name}", title)
            return f"<figure><h3>{escape(title)}</h3>\n{drawing}\n<figcaption>{escape(caption)}</figcaption></figure>"


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(first)}</th>' + "".join(map(_cell, rest)) + "</tr>" for first, *rest in table.rows
    )
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    inside = f"<table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table>"
    return f'<div class="scroll" tabindex="0">{inside}</div>{note}'


def _cell(text: str) -> str:
    words = ' class="words"' if len(text) > _LONG else ""
    return f"<td{words}>{_labelled(text)}</td>"


def _labelled(text: str) -> str:
    """Escaped text; a cell that says what is shown has the colour of its first word."""
    return _SHOWN.sub(lambda match: f'<span class="shown {match[1]}">{match[1]}</span>', escape(text))


def anchor(title: str) -> str:
    """A section's id.

    >>> anchor("Figures (1 of 2: d_model=128)")
    'figures-1-of-2-d_model-128'
    """
    return re.sub(r"[^\w]+", "-", title.lower()).strip("-") or "top"


def inline_svg(figure: Figure, name: str, label: str) -> str:
    """The figure as an <svg> element that scales to its place; `label` is what a screen reader says.

    Text stays text, in the page's own colour; ids are kept apart from those of other figures by `name`.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = _ID.sub(lambda match: f'id="{name}-{match[1]}"', text)
    text = _POINTS_TO.sub(lambda match: f"{match[1]}{name}-{match[2]}", text)
    text = text.replace(INK, "currentColor")
    return re.sub(
        r'<svg ([^>]*?)width="[^"]*"([^>]*?)height="[^"]*"|<svg ([^>]*?)height="[^"]*"([^>]*?)width="[^"]*"',
        lambda m: f'<svg role="img" aria-label="{escape(label)}" {"".join(part or "" for part in m.groups())}',
        text,
        count=1,
    )


# A page as Markdown; its figures are files beside it.
FIGURES = "figures"


def markdown_of(page: Page) -> str:
    """The whole file."""
    parts = [f"# {page.title}"]
    for section in page.sections:
        if section.title:
            parts.append(f"## {section.title}")
        parts += [_markdown_block(block, anchor(section.title)) for block in section.blocks]
    return "\n\n".join([*parts, f"*{page.source}*"]) + "\n"


def figure_files(page: Page) -> Iterator[tuple[str, Drawn]]:
    """Each figure with the name of its file, without an ending."""
    for section in page.sections:
        for block in section.blocks:
            if isinstance(block, Drawn):
                yield _file_name(anchor(section.title), block), block


def _file_name(place: str, drawn: Drawn) -> str:
    alone = place in ("top", "figures", "across-experiments")
    return drawn.name if alone else f"{place.removeprefix('figures-')}-{drawn.name}"


def _markdown_block(block: Block, place: str) -> str:
    match block:
        case Paragraph(text, "claim"):
            return f"**{_escaped(text)}**"
        case Paragraph(text, _):
            return _escaped(text)
        case Bullets(items, _):
            return "\n".join(f"- {_escaped(item)}" for item in items)
        case Code(lines):
            return "\n".join(["```bash", *lines, "```"])
        case Table():
            return table_text(block)
        case Drawn(_, title, caption, _):
            return f"![{title}]({FIGURES}/{_file_name(place, block)}.svg)\n\n*{_escaped(caption)}*"


def table_text(table: Table) -> str:
    """A table with its note."""
    lines = [table.header, ["---"] * len(table.header), *table.rows]
    text = "\n".join(f"| {' | '.join(_escaped(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in lines)
    return f"{text}\n\n{table.note}" if table.note else text


def _escaped(text: str) -> str:
    """One line, with what Markdown or HTML would read as its own escaped."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
