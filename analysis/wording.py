"""Words and digits of a sentence: an arm's name, and an amount with no more digits than its interval supports."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import Any

_NOUNS = {"heads": ("head", "heads"), "kv_heads": ("kv-head", "kv-heads"), "layers": ("layer", "layers")}
_MOST_DECIMALS = 12


@dataclass(frozen=True)
class Wording:
    """How a study's arms and amounts are spelled. `factor` None: the arms are labels. `unit` as in '0.02 nats'."""

    factor: str | None = "heads"
    unit: str = "nats"

    @property
    def more(self) -> str:
        """What there is more of: 'heads', 'latent_dim'.

        >>> Wording("kv_heads").more, Wording("latent_dim").more
        ('kv-heads', 'latent_dim')
        """
        return _NOUNS.get(self.factor or "", ("", self.factor or "arms"))[1]

    def arm(self, arm: Any) -> str:
        """One arm by name.

        >>> Wording("heads").arm(1), Wording("heads").arm(16), Wording("latent_dim").arm(8), Wording(None).arm("MHA")
        ('1 head', '16 heads', 'latent_dim 8', 'MHA')
        """
        if self.factor is None or isinstance(arm, str):
            return str(arm)
        if self.factor in _NOUNS:
            return f"{arm} {_NOUNS[self.factor][0 if arm == 1 else 1]}"
        return f"{self.factor} {arm}"

    def is_or_are(self, arm: Any) -> str:
        plural = self.factor in _NOUNS and not isinstance(arm, str) and arm != 1
        return "are" if plural else "is"

    def amount(self, value: float) -> str:
        """A given number, such as a margin, as it was given.

        >>> Wording(unit="nats").amount(0.01), Wording(unit="").amount(0.5)
        ('0.01 nats', '0.5')
        """
        return f"{value:.6g} {self.unit}".strip()

    def measured(self, mean: float, low: float, high: float, margin: float) -> str:
        """'0.021 nats (0.011 to 0.032)': two digits of the half-width, more where rounding would move an end
        across zero or across the margin."""
        decimals = decimals_for(low, high, margin)
        return f"{mean:.{decimals}f} {self.unit}".strip() + f" ({low:.{decimals}f} to {high:.{decimals}f})"


def decimals_for(low: float, high: float, margin: float) -> int:
    """Decimals that show two digits of an interval's half-width and keep each end on its side of 0 and +-margin.

    >>> decimals_for(0.0109, 0.0316, margin=0.01), decimals_for(0.0004, 0.0202, margin=0.0)
    (3, 4)
    """
    half = (high - low) / 2
    if not isfinite(half):
        return 4
    largest = max(abs(low), abs(high), 1e-300)
    digits = 1 - floor(log10(half)) if half > 0 else 3 - floor(log10(largest))
    bounds = (-margin, 0.0, margin)
    for decimals in range(max(0, min(digits, _MOST_DECIMALS)), _MOST_DECIMALS):
        if all(_side(round(end, decimals), bound) == _side(end, bound) for end in (low, high) for bound in bounds):
            return decimals
    return _MOST_DECIMALS


def _side(value: float, bound: float) -> int:
    near = 1e-9 * abs(bound)
    return (value > bound + near) - (value < bound - near)


def listed(names: list[str]) -> str:
    """
    >>> listed(["1 head", "2 heads", "4 heads"])
    '1 head, 2 heads and 4 heads'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
