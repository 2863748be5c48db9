"""Numbers as people read them, in tables, figures and sentences. Missing is a dash, never 0."""

from __future__ import annotations

from typing import Any

import pandas as pd

MISSING = "–"  # noqa: RUF001


def number(value: Any) -> str:
    """A metric to four decimals.

    >>> number(1.88123), number(float("nan"))
    ('1.8812', '–')
    """
    return MISSING if pd.isna(value) else f"{value:.4f}"


def signed(value: Any) -> str:
    return MISSING if pd.isna(value) else f"{value:+.4f}"


def interval(low: Any, high: Any, form: str = ".4f") -> str:
    """' [low, high]', or nothing where there is none."""
    return "" if pd.isna(low) else f" [{low:{form}}, {high:{form}}]"


def bytes_shown(value: float) -> str:
    """Bytes as people read them.

    >>> bytes_shown(512), bytes_shown(8192), bytes_shown(3 * 2**19), bytes_shown(768 * 2**20)
    ('512 B', '8 KiB', '1.5 MiB', '768 MiB')
    """
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} B"
