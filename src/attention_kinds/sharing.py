"""Widths and heads are whole numbers: what divides what, and the error that names what would."""

from __future__ import annotations

from src.errors import ConfigError


def check_sharing(heads: int, kv_heads: int, prefix: str = "") -> None:
    """Raises ConfigError where the kv-heads cannot be shared out evenly; `prefix` names whose they are."""
    if heads % kv_heads:
        options = ", ".join(map(str, divisors(heads)))
        raise ConfigError(f"{prefix}kv_heads={kv_heads} does not divide {prefix}heads={heads}; choose one of {options}")


def reference_head_dim(d_model: int, reference_heads: int) -> int:
    """Width of one of the reference's heads. Raises ConfigError where it is not whole."""
    if d_model % reference_heads:
        raise ConfigError(
            f"reference_heads={reference_heads} does not divide d_model={d_model}; "
            f"choose one of {head_options(d_model, reference_heads)}"
        )
    return d_model // reference_heads


def head_options(d_model: int, heads: int) -> str:
    """The head counts that divide a width, for an error about one that does not."""
    return ", ".join(str(d) for d in divisors(d_model) if d <= max(16, heads))


def divisors(number: int) -> list[int]:
    """Every divisor, ascending.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    return [d for d in range(1, number + 1) if number % d == 0]
