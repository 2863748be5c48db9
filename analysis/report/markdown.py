"""A page as Markdown; its figures are files beside it."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.plots.figures import Drawn
from analysis.report.html import anchor
from analysis.report.page import Block, Bullets, Code, Page, Paragraph, Table

FIGURES = "figures"


def markdown_of(page: Page) -> str:
    """The whole file."""
    parts = [f"# {page.title}"]
    for section in page.sections:
        if section.title:
            parts.append(f"## {section.title}")
        parts += [_block(block, anchor(section.title)) for block in section.blocks]
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


def _block(block: Block, place: str) -> str:
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
