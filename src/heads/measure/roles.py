"""Roles: the scores of random weights at the same geometry, and the heads that stand clear of them.

A head has a role where one of its scores is above all that any head of N random models reached, and takes at least
`LEAST` of its attention. An untrained model is one more draw of the same kind, so by exchangeability the chance that
any of its heads beats a score's N maxima is at most 1 / (N + 1), and for the five scores together 5 / (N + 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from src.heads.measure.patterns import SCORES, Probe, pattern_scores
from src.model.gpt import GPT
from src.model.init import initialise

NULLS = 99
"""Random models: five scores then name a role by chance in at most 5 of 100 untrained models."""
LEAST = 0.4
"""A head that gives a place less than this share of its attention isn't named after it, however surely it does."""
WORDS = {
    "previous_token": "previous",
    "first_token": "first",
    "same_token": "same",
    "duplicate_token": "duplicate",
    "induction": "induction",
}
LayerScores = dict[str, Float[Tensor, "L H"]]


@dataclass(frozen=True)
class Null:
    """What random weights score: of each score, the most that any head of each random model reached, and the mean."""

    highest: dict[str, Float[Tensor, " N"]]
    mean: dict[str, float]

    @property
    def models(self) -> int:
        return len(self.highest["induction"])

    @property
    def chance(self) -> float:
        """The chance that an untrained model gets any role, at most."""
        return min(1.0, len(SCORES) / (self.models + 1))

    def threshold(self, score: str) -> float:
        """What a head's score must be above."""
        return max(float(self.highest[score].max()), LEAST)


@torch.inference_mode()
def probe_scores(model: GPT, probe: Probe) -> LayerScores:
    """The five scores of every head on the probe."""
    tokens = probe.tokens.to(model.tokens.weight.device)
    layers = [pattern_scores(inside.weights, probe.period) for inside in model.look_inside(tokens)]
    return {score: torch.stack([layer[score] for layer in layers]).cpu() for score in SCORES}


def null_of(model: GPT, init: str, probe: Probe, models: int = NULLS, tick: Callable[[], None] = lambda: None) -> Null:
    """The scores of so many models of random weights, initialised as `init` says; their seeds are no run's.

    `model` has the geometry in question; its weights are drawn anew each time.
    """
    model.eval()
    highest: dict[str, list[Tensor]] = {score: [] for score in SCORES}
    mean: dict[str, float] = dict.fromkeys(SCORES, 0.0)
    for number in range(models):
        initialise(model, init, seed=-1 - number)  # a run's seed is never negative
        for score, values in probe_scores(model, probe).items():
            highest[score].append(values.max())
            mean[score] += float(values.mean()) / models
        tick()
    return Null({score: torch.stack(values) for score, values in highest.items()}, mean)


def role_of(scores: dict[str, float], null: Null) -> str | None:
    """The score that names this head's role: the greatest of those that stand clear of the null, or None."""
    clear = {score: value for score, value in scores.items() if value > null.threshold(score)}
    return max(clear, key=clear.__getitem__) if clear else None


def roles(scores: LayerScores, null: Null) -> list[list[str | None]]:
    """The role of every head, by layer and head."""
    layers, heads = scores["induction"].shape
    return [
        [
            role_of({score: float(values[layer, head]) for score, values in scores.items()}, null)
            for head in range(heads)
        ]
        for layer in range(layers)
    ]
