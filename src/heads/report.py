"""Everything that is measured of a run's heads: `python -m src.heads roles RUN`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from src.geometry import Geometry
from src.heads.measure.ablation import Change, HeldOut, change
from src.heads.measure.patterns import SCORES, repeated_tokens
from src.heads.measure.roles import Null, null_of, role_of
from src.heads.measure.summary import Seen, look_at_heads
from src.heads.trained import TrainedRun
from src.metrics import unit_of
from src.model.gpt import GPT
from src.record import encode
from src.training.build import make_model

PROBES = 16
"""Sequences of repeated random tokens."""
Tick = Callable[[str], None]
Named = dict[str, Any]


@dataclass(frozen=True)
class HeadsReport:
    """The heads of one run. Ablations are by layer and head; `null` is None where no score was taken."""

    name: str
    geometry: Geometry
    unit: str
    loss: float
    sequences: int
    probes: int
    seen: Seen
    null: Null | None
    zero: list[list[Change]]
    mean: list[list[Change]]
    notes: list[str]

    def rows(self, layer: int | None = None) -> list[Named]:
        """One row a head, of all layers or of one: its place, its role, its numbers; what is not there is None."""
        layers = range(self.geometry.layers) if layer is None else [layer]
        return [self._row(layer, head) for layer in layers for head in range(self.geometry.heads)]

    def free(self) -> list[tuple[int, int]]:
        """Layer and head of those that can be ablated, one at a time, for next to nothing."""
        return [
            (layer, head) for layer, heads in enumerate(self.zero) for head, cost in enumerate(heads) if cost.is_free
        ]

    def as_dict(self, layer: int | None = None) -> Named:
        g, null = self.geometry, self.null
        return {
            "run": self.name,
            "layers": g.layers,
            "heads": g.heads,
            "kv_heads": g.kv_heads,
            "loss": self.loss,
            "unit": self.unit,
            "held_out_sequences": self.sequences,
            "probe_sequences": self.probes,
            "null": None
            if null is None
            else {
                "models": null.models,
                "false_role_chance": null.chance,
                "highest": {score: float(null.highest[score].max()) for score in SCORES},
                "threshold": {score: null.threshold(score) for score in SCORES},
                "mean": null.mean,
            },
            "notes": self.notes,
            "ablatable": [{"layer": at, "head": head} for at, head in self.free()],
            "per_head": [encode(row) for row in self.rows(layer)],
        }

    def _row(self, layer: int, head: int) -> Named:
        g, seen = self.geometry, self.seen
        numbers = {name: _there(values[layer, head]) for name, values in seen.numbers.items()}
        scores: dict[str, Any] = dict.fromkeys(SCORES)
        if seen.scores is not None:
            scores = {score: float(seen.scores[score][layer, head]) for score in SCORES}
        role = role_of(scores, self.null) if self.null is not None else None
        zero, mean = self.zero[layer][head], self.mean[layer][head]
        return {
            "layer": layer,
            "head": head,
            "kv_head": head // (g.heads // g.kv_heads),
            "role": role,
            **scores,
            **{"distance": None, **numbers},
            "pattern_nearest": seen.nearest_pattern[layer][head],
            "output_nearest": seen.nearest_output[layer][head],
            "zero_ablation": zero.mean,
            "zero_ablation_margin": zero.margin,
            "mean_ablation": mean.mean,
            "mean_ablation_margin": mean.margin,
        }


def report_of(run: TrainedRun, sequences: int, nulls: int, tick: Tick = lambda what: None) -> HeadsReport:
    """Measures every head of a run, on so many held-out sequences and against so many random models."""
    g, model, spec = run.loaded.geometry, run.loaded.model, run.loaded.spec
    inputs, targets = run.held_out(sequences)
    notes: list[str] = []
    probe = null = None
    if isinstance(model, GPT):
        probe = repeated_tokens(model.vocabulary_size, g.context_length, PROBES)
        if probe is None:
            notes.append(
                f"no scores and no roles: a context of {g.context_length} and a vocabulary of {model.vocabulary_size} "
                "hold no text of 3 tokens said twice"
            )
    else:
        notes.append(f"no scores and no roles: they are of tokens, and data={run.data.name} holds vectors")
    if g.positions == "rotary":
        notes.append("QK ranks are of two tokens at one place: rotary positions turn them with distance")
    if probe is not None:
        blank = make_model(run.loaded.config, g, spec)
        assert isinstance(blank, GPT), "a probe is of tokens"
        null = null_of(blank, run.loaded.config.model.init, probe, nulls, lambda: tick("random models"))
    tick("patterns")
    seen = look_at_heads(model, inputs, probe)
    loss, zero, mean = _ablations(HeldOut(model, inputs, targets), tick)
    unit = unit_of("val/loss", of_vectors=not isinstance(model, GPT))
    return HeadsReport(run.name, g, unit, loss, len(inputs), PROBES, seen, null, zero, mean, notes)


def _ablations(held: HeldOut, tick: Tick) -> tuple[float, list[list[Change]], list[list[Change]]]:
    g = held.model.geometry
    held.keep()
    whole, means = held.losses(), held.mean_outputs()
    zero: list[list[Change]] = []
    mean: list[list[Change]] = []
    for layer in range(g.layers):
        for kind, found in ((None, zero), (means, mean)):
            found.append([change(held.losses({layer: [head]}, kind), whole) for head in range(g.heads)])
        tick("ablation")
    return whole.mean, zero, mean


def _there(value: Any) -> float | None:
    return None if np.isnan(float(value)) else float(value)
