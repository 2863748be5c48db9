"""A run that begins with weights made of another run's: its settings, its folder, and its true record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from src.config import Config, decides_result
from src.errors import RunError
from src.geometry import Geometry
from src.heads.trained import TrainedRun
from src.record import RECORD, Record, read_rows
from src.training.plan import Result, RunPlan, Start
from src.training.run import run
from src.training.sinks.jsonl import JsonlSink
from src.training.stop import StopFlag


@dataclass(frozen=True)
class Derived:
    """How a derived run came out. Losses are over the whole held-out data, before and after its steps."""

    folder: Path
    record: Record
    before: float
    after: float

    @property
    def cache_bytes(self) -> int | None:
        """As allocated and measured."""
        found = self.record.summary.get("cache/bytes")
        return None if found is None else int(found)


def settings_of(parent: TrainedRun, steps: int, group: str, **shape: Any) -> Config:
    """The parent's settings in another shape, trained for `steps` more; of none, as long as the parent's.

    Under a regime that solves for a width, the parent's widths are written down: the weights are already there.
    Raises ConfigError for a shape that cannot be.
    """
    config, g = parent.loaded.config, parent.loaded.geometry
    values = config.model_dump()
    if g.regime not in ("fixed_width", "fixed_head_dim"):
        values |= {"regime": "fixed_head_dim", "head_dim": g.head_dim}
        values["model"] = {**values["model"], "ffn_ratio": g.ffn_width / g.d_model}
    if steps:
        warmup = min(config.training.warmup_steps, steps // 10)
        values["training"] = {**values["training"], "max_steps": steps, "epochs": None, "warmup_steps": warmup}
    values["logger"] = {**values["logger"], "mode": "disabled"}
    values["diagnostics"] = {"interval": None}
    return Config.of({**values, **shape, "resume": "auto", "group": group})


def derive(
    parent: TrainedRun, config: Config, weights: Mapping[str, Any], how: Mapping[str, Any], steps: int
) -> Derived:
    """Judges the weights, trains them for so many steps with a fresh optimiser and the schedule anew, and measures.

    The folder lies beside the parent's group. The same call again finds it finished, or goes on.
    Raises RunError where the run did not finish.
    """
    made_of = {"run_id": parent.record.run_id, "config_hash": parent.record.config_hash, **how}
    start = Start(weights, made_of, steps, batches_seen=parent.loaded.step)
    plan = RunPlan(config, Geometry.of(config), parent.data, parent.folder.parent.parent / config.group, start)
    with StopFlag() as stop:
        result: Result = run(plan, lambda config, folder, segment: [JsonlSink(folder, segment)], stop)
    if result.error is not None and not isinstance(result.error, Exception):
        raise result.error
    if result.record.status != "finished":
        raise RunError(f"{result.folder} ended as {result.record.status}: {result.record.error_line}")
    first = next(row["val/loss"] for row in read_rows(result.folder) if "val/loss" in row)
    after = result.record.summary["val/loss"]
    assert after is not None, "a finished run was evaluated"
    return Derived(result.folder, result.record, float(first), float(after))


def siblings(parent: TrainedRun, *, factors: set[str], **wanted: Any) -> Iterator[Record]:
    """Finished runs of the parent's group, on its data, that have the `wanted` settings and differ from the parent in
    `factors` alone; dotted names."""
    own = _flat(parent.record.config)
    for path in sorted(parent.folder.parent.glob(f"*/{RECORD}")):
        try:
            record = Record.read(path.parent)
        except (RunError, json.JSONDecodeError):
            continue
        if record.status != "finished" or record.parent or record.data.get("hash") != parent.record.data.get("hash"):
            continue
        theirs = _flat(record.config)
        apart = {name for name in own.keys() | theirs.keys() if own.get(name) != theirs.get(name)}
        allowed = factors | wanted.keys()
        if set(filter(decides_result, apart)) <= allowed and all(theirs.get(k) == v for k, v in wanted.items()):
            yield record


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return found
