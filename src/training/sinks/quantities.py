"""How people read a stored number: 1,234,567, 256 KiB, 3.1 ms. Base units are stored, these are shown."""

from __future__ import annotations

from src.metrics import METRICS

MISSING = "–"  # noqa: RUF001


def shown(name: str, value: float | int | None) -> str:
    """A metric's value with its unit, as a table cell; a missing value is a dash, never 0.

    >>> shown("cache/bytes", 262144), shown("decode/ms_per_token", 3.14159), shown("cost/parameters", 804096)
    ('256 KiB', '3.1 ms/token', '804,096')
    >>> shown("val/loss", 1.88123), shown("train/tokens_per_second", 18300.4), shown("val/loss", None)
    ('1.8812', '18,300 tokens/s', '–')
    """
    unit = METRICS[name].unit
    if value is None:
        return MISSING
    if unit == "bytes":
        return bytes_shown(int(value))
    if unit == "tokens/s":
        return f"{value:,.0f} {unit}"
    if unit == "ms/token":
        return f"{value:,.1f} {unit}" if value >= 1 else f"{value:.2g} {unit}"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if name == "val/perplexity" else f"{value:,.4f}"


def bytes_shown(count: int) -> str:
    """Bytes in the largest unit of which there is at least one, exact where it comes out even.

    >>> bytes_shown(512), bytes_shown(65536), bytes_shown(1_000_000), bytes_shown(3 * 2**30 // 2)
    ('512 bytes', '64 KiB', '976.6 KiB', '1.5 GiB')
    """
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count // size:,} {unit}" if count % size == 0 else f"{count / size:,.1f} {unit}"
    return f"{count} bytes"


def duration_shown(seconds: float) -> str:
    """Whole seconds as m:ss or h:mm:ss.

    >>> duration_shown(98.2), duration_shown(3725)
    ('1:38', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
