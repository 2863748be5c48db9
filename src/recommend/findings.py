"""What our own studies measured, and the rule of thumb that it speaks to. A test holds the numbers to the exports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Mean validation losses (nats a character) by head count in one committed study, one arm of it."""

    study: str
    setting: str
    init: str
    d_model: int
    losses: Mapping[int, float]
    rule: str
    contradicts: bool
    says: str

    @property
    def path(self) -> str:
        return f"analysis/results/{self.study}"


FINDINGS = (
    Finding(
        "tutorial_heads",
        "0.11M parameters, Tiny Shakespeare, context 32, six seeds, init torch",
        "torch",
        64,
        {2: 1.85548, 4: 1.82224},
        "head_width_floor",
        True,
        "4 heads of 16 reached 1.822, 2 of 32 only 1.855: narrower than 32 did not suffer",
    ),
    Finding(
        "tutorial_heads",
        "0.11M parameters, Tiny Shakespeare, context 32, six seeds, init fan_in",
        "fan_in",
        64,
        {2: 1.84954, 16: 1.87258},
        "head_width_floor",
        False,
        "16 heads of 4 reached 1.873, 2 of 32 1.850: here narrow heads did suffer",
    ),
    Finding(
        "head_count",
        "0.8M parameters, Shakespeare, context 64, learned positions, six seeds",
        "gpt2",
        128,
        {1: 1.88464, 2: 1.8975, 16: 1.90589},
        "head_width_preferred",
        True,
        "one head of 128 had the lowest mean, 1.885, before 2 of 64 (1.897) and 16 of 8 (1.906)",
    ),
)
