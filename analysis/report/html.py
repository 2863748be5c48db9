"""A page as one HTML file: styles and figures inside it, no script, no request to anywhere."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from matplotlib.figure import Figure

from analysis.plots.figures import Drawn
from analysis.plots.style import INK
from analysis.report.page import Block, Bullets, Code, Page, Paragraph, Section, Table

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
