"""Train fewer heads, or prune to fewer? `python -m src.heads prune RUN --keep 4,2,1`.

Heads are chosen on training sequences and judged on held-out ones, so no choice flatters its own loss. Every layer
keeps as many heads; what shares a kv-head goes or stays together, unless all heads share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from scipy import stats

from src.attention_kinds.sharing import divisors
from src.convert.derived import Derived, derive, settings_of, siblings
from src.convert.weights import prune
from src.errors import ConfigError
from src.geometry import Geometry
from src.heads.measure.ablation import Change, HeldOut, change
from src.heads.trained import TrainedRun, open_run
from src.metrics import unit_of
from src.model.gpt import GPT
from src.randomness import stream_seed

By = Literal["ablation", "gradient", "random"]
DRAWS = 10
"""Random choices of heads that a choice is compared with."""
Kept = list[list[int]]
"""The heads of each layer that stay."""
Tick = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    """One number of kept heads a layer: what it costs untrained, beside chance, trained on, and trained from the start.

    `cost` is against the whole model and `random` the mean cost of random choices with half its 95% interval, both on
    the same held-out sequences; losses are over the whole held-out data. `against` compares, sequence by sequence, the
    pruned run with one trained with that many heads from the start.
    """

    keep: int
    kept: Kept
    cost: Change
    random: tuple[float, float]
    made: Derived
    trained: list[dict[str, Any]]
    against: Change | None
    against_seed: int | None


@dataclass(frozen=True)
class Curve:
    """Loss against kept heads of one run."""

    name: str
    heads: int
    by: By
    steps: int
    unit: str
    loss: float
    sequences: int
    cache_bytes: int | None
    points: list[Point]


def check_keep(g: Geometry, keeps: Sequence[int]) -> None:
    """Raises ConfigError for numbers of heads that this model cannot keep."""
    group = g.heads // g.kv_heads
    for keep in keeps:
        if keep > g.heads:
            raise ConfigError(f"--keep {keep}: the model has {g.heads} heads in each layer; keep fewer")
        if keep == g.heads:
            raise ConfigError(f"--keep {keep}: those are all heads, and nothing would be pruned; keep fewer")
        if g.kv_heads > 1 and keep % group:
            ways = ", ".join(str(group * k) for k in range(1, g.kv_heads))
            raise ConfigError(
                f"--keep {keep}: {group} query heads share each kv-head and stay together; choose one of {ways}"
            )
    if not keeps:
        raise ConfigError(f"--keep names no number of heads; choose some of {', '.join(map(str, divisors(g.heads)))}")


def prune_run(
    run: TrainedRun, keeps: Sequence[int], by: By, steps: int, sequences: int, tick: Tick = lambda what: None
) -> Curve:
    """Prunes a run to each of these numbers of heads, trains each on for so many steps, and measures.

    Raises ConfigError for a run of vectors and for numbers of heads that it cannot keep.
    """
    model, g = run.loaded.model, run.loaded.geometry
    if not isinstance(model, GPT):
        raise ConfigError(f"{run.name} reads vectors: it has no cache to shrink; name a run of tokens")
    check_keep(g, keeps)
    judged = HeldOut(model, *run.held_out(sequences))
    judged.keep()
    whole = judged.losses()
    chosen = dict(_orders(model, run, by, sequences, tick))
    points = []
    for keep in sorted(set(keeps), reverse=True):
        kept = chosen[keep]
        cost = change(judged.losses(_gone(kept, g.heads)), whole)
        chance = _chance(judged, whole.mean, keep)
        made = _made(run, model, kept, keep, by, steps)
        tick(f"{keep} heads")
        points.append(_beside_trained(run, judged, Point(keep, kept, cost, chance, made, [], None, None)))
    cache = run.record.summary.get("cache/bytes")
    loss = run.record.summary["val/loss"]
    assert loss is not None, "a finished run was evaluated"
    unit = unit_of("val/loss", of_vectors=False)
    return Curve(run.name, g.heads, by, steps, unit, float(loss), len(whole.sums), _whole(cache), points)


def _orders(model: GPT, run: TrainedRun, by: By, sequences: int, tick: Tick) -> Iterator[tuple[int, Kept]]:
    """For each number of heads that can be kept, from most to fewest, the heads that are; each set within the last."""
    g = model.geometry
    units = _units(g)
    left = [list(range(len(units))) for _ in range(g.layers)]
    chooser = _Chooser(HeldOut(model, *_training_sequences(run, sequences)), units, by)
    while len(left[0]) > 1:
        for layer in range(g.layers):
            left[layer].remove(chooser.least(left, layer))
            tick("choosing")
        kept = [sorted(head for unit in layer for head in units[unit]) for layer in left]
        yield len(kept[0]), kept


class _Chooser:
    """Names the next unit of heads to go from a layer."""

    def __init__(self, data: HeldOut, units: list[list[int]], by: By) -> None:
        self.data, self.units, self.by = data, units, by
        self.draws = np.random.default_rng(stream_seed(0, "evaluation", "pruned heads"))
        self.importance = data.gradient_importance() if by == "gradient" else None
        data.keep()

    def least(self, left: Sequence[Sequence[int]], layer: int) -> int:
        """The unit of this layer whose going costs least, those that went before being gone."""
        if self.by == "random":
            return int(self.draws.choice(left[layer]))
        if self.importance is not None:
            importance = self.importance[layer]
            return min(left[layer], key=lambda unit: float(importance[self.units[unit]].sum()))
        heads = sum(len(unit) for unit in self.units)
        kept = [[head for unit in units for head in self.units[unit]] for units in left]

        def loss(unit: int) -> float:
            without = [head for head in kept[layer] if head not in self.units[unit]]
            return self.data.losses(_gone([*kept[:layer], without, *kept[layer + 1 :]], heads)).mean

        return min(left[layer], key=loss)


def _units(g: Geometry) -> list[list[int]]:
    """Heads that go together: those of a kv-head, or each alone where every head has its own or all share one."""
    group = g.heads // g.kv_heads if g.kv_heads > 1 else 1
    return [list(range(first, first + group)) for first in range(0, g.heads, group)]


def _gone(kept: Sequence[Sequence[int]], heads: int) -> dict[int, list[int]]:
    return {layer: sorted(set(range(heads)) - set(those)) for layer, those in enumerate(kept)}


def _training_sequences(run: TrainedRun, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    config = run.loaded.config
    batches = run.data.training_batches(config.context_length, config.training, config.seed)
    inputs, targets = [], []
    step = 0
    while sum(map(len, inputs)) < count:
        one, other = batches.batch(step)
        inputs.append(one)
        targets.append(other)
        step += 1
    return torch.cat(inputs)[:count], torch.cat(targets)[:count]


def _chance(judged: HeldOut, whole: float, keep: int) -> tuple[float, float]:
    """Mean cost of random choices of so many heads a layer, and half of its 95% interval over the choices."""
    g = judged.model.geometry
    units = _units(g)
    draws = np.random.default_rng(stream_seed(0, "evaluation", "random heads", keep))
    stay = keep // len(units[0])
    costs = []
    for _ in range(DRAWS):
        kept = [
            [head for unit in draws.choice(len(units), stay, replace=False) for head in units[unit]]
            for _ in range(g.layers)
        ]
        costs.append(judged.losses(_gone(kept, g.heads)).mean - whole)
    margin = stats.t.ppf(0.975, DRAWS - 1) * np.std(costs, ddof=1) / np.sqrt(DRAWS)
    return float(np.mean(costs)), float(margin)


def _made(run: TrainedRun, model: GPT, kept: Kept, keep: int, by: By, steps: int) -> Derived:
    g = run.loaded.geometry
    shape: dict[str, Any] = {"heads": keep, "head_dim": g.head_dim, "regime": "fixed_head_dim"}
    if g.attention != "grouped":
        shape |= {"latent_dim": g.latent_dim, "rope_dim": g.rope_dim}
    elif g.kv_heads != g.heads:
        shape["kv_heads"] = max(1, keep * g.kv_heads // g.heads)
    config = settings_of(run, steps, f"{run.folder.resolve().parent.name}-pruned", **shape)
    return derive(run, config, prune(model, kept), {"how": "pruned", "by": by, "kept": kept}, steps)


def _beside_trained(run: TrainedRun, judged: HeldOut, point: Point) -> Point:
    """The point with the runs of its group that were trained with so many heads at the same width; the comparison is
    with the one of the same seed, or else with the first."""
    records = list(siblings(run, factors={"seed"}, heads=point.keep))
    if not records:
        return point
    seed = run.loaded.config.seed
    nearest = next((record for record in records if record.config["seed"] == seed), records[0])
    trained = open_run(run.folder.parent / nearest.run_id).loaded.model
    pruned = open_run(point.made.folder).loaded.model
    ours, theirs = (HeldOut(model, judged.inputs, judged.targets).losses() for model in (pruned, trained))
    found = [{"run_id": r.run_id, "seed": r.config["seed"], "loss": r.summary["val/loss"]} for r in records]
    return replace(point, trained=found, against=change(ours, theirs), against_seed=nearest.config["seed"])


def _whole(number: float | int | None) -> int | None:
    return None if number is None else int(number)
