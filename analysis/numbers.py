"""Numbers as people read them, in tables, figures and sentences. Missing is a dash, never 0."""

from __future__ import annotations

import pandas as pd

from analysis.wording import decimals_for

MISSING = "–"  # noqa: RUF001


def difference(value: float, low: float, high: float, margin: float) -> str:
    """A difference with the digits that its interval supports.

    >>> difference(0.021251, 0.0109, 0.0316, 0.01)
    '+0.021 [+0.011, +0.032]'
    """
    if pd.isna(value) or pd.isna(low):
        return MISSING
    digits = decimals_for(float(low), float(high), margin)
    return f"{value:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


def mean_shown(value: float, low: float, high: float) -> str:
    """A mean with the digits that its interval supports; four decimals where it has none.

    >>> mean_shown(1.88123, 1.8781, 1.8843)
    '1.8812 [1.8781, 1.8843]'
    """
    if pd.isna(value):
        return MISSING
    if pd.isna(low):
        return f"{value:.4f}"
    digits = decimals_for(float(low), float(high), 0.0)
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def p_shown(p: float) -> str:
    """A p value with two digits.

    >>> p_shown(0.03125), p_shown(0.00004), p_shown(1.0)
    ('0.031', '< 0.0001', '1')
    """
    if pd.isna(p):
        return MISSING
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"
