"""A figure inside a page: text as text, in the page's own colour, its ids apart from those of other figures."""

from __future__ import annotations

import html
import io
import re

from matplotlib.figure import Figure

from analysis.plots.style import INK

_ID = re.compile(r'\bid="([^"]+)"')
_POINTS_TO = re.compile(r'(url\(#|xlink:href="#)([^")]+)')


def inline_svg(figure: Figure, name: str, label: str) -> str:
    """The figure as an <svg> element that scales to its place; `label` is what a screen reader says."""
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
        lambda m: f'<svg role="img" aria-label="{html.escape(label)}" {"".join(part or "" for part in m.groups())}',
        text,
        count=1,
    )
