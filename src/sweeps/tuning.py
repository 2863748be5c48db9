"""The learning rate that each arm is best at, chosen from a finished sweep over rates and tuning seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from src.config import Config
from src.errors import RunError
from src.record import RECORD, Record, write_atomically
from src.sweep_file import read_plans
from src.training.plan import SCHEMA_VERSION, what_must_agree

RATE = "training.learning_rate"
CHOSEN = "learning_rates.json"


@dataclass(frozen=True)
class Chosen:
    """The best rate of an arm. `tried`: rate -> mean validation loss over the seeds, None where one did not finish."""

    arm: dict[str, Any]
    learning_rate: float
    tried: dict[float, float | None]

    @property
    def is_at_edge(self) -> bool:
        """Whether a better rate may lie outside those that were tried."""
        return self.learning_rate in (min(self.tried), max(self.tried))


def choose_rates(group: Path) -> list[Chosen]:
    """The rate of each arm with the lowest mean validation loss, of those at which all seeds finished.

    Writes them to learning_rates.json in the group. Raises RunError where an arm has no such rate.
    """
    plans = read_plans(group)
    if not plans or not any(RATE in job["values"] for job in plans[-1]["jobs"]):
        raise RunError(f"{group} holds no sweep over {RATE}; make one with -m {RATE}=0.0005,0.001,0.002 heads=...")
    jobs = plans[-1]["jobs"]
    chosen = [_choose(arm, members, group) for arm, members in _arms(jobs)]
    factors = [name for name in plans[-1]["factors"] if name != RATE]
    content = {
        "schema_version": SCHEMA_VERSION,
        "seeds": plans[-1]["seeds"],
        "factors": factors,
        "same": _same(group, jobs, factors),
        "rates": [
            {
                "arm": each.arm,
                "learning_rate": each.learning_rate,
                "is_at_edge": each.is_at_edge,
                "tried": [{"learning_rate": rate, "mean_loss": loss} for rate, loss in each.tried.items()],
            }
            for each in chosen
        ],
    }
    write_atomically(group / CHOSEN, json.dumps(content, indent=2) + "\n")
    return chosen


def _arms(jobs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[dict[str, Any], list[Mapping[str, Any]]]]:
    members: dict[str, list[Mapping[str, Any]]] = {}
    arms: dict[str, dict[str, Any]] = {}
    for job in jobs:
        arm = {name: value for name, value in job["values"].items() if name not in ("seed", RATE)}
        key = json.dumps(arm, sort_keys=True)
        arms[key] = arm
        members.setdefault(key, []).append(job)
    for key, arm in arms.items():
        yield arm, members[key]


def _choose(arm: dict[str, Any], jobs: Sequence[Mapping[str, Any]], group: Path) -> Chosen:
    losses: dict[float, list[float | None]] = {}
    for job in jobs:
        losses.setdefault(float(job["values"][RATE]), []).append(_loss(group / job["run_id"]))
    tried = {rate: _mean(of_seeds) for rate, of_seeds in sorted(losses.items())}
    complete = {rate: loss for rate, loss in tried.items() if loss is not None}
    if not complete:
        raise RunError(f"no learning rate finished on all seeds for {arm or 'the only arm'} in {group}")
    return Chosen(arm, min(complete, key=lambda rate: complete[rate]), tried)


def _mean(losses: Sequence[float | None]) -> float | None:
    known = [loss for loss in losses if loss is not None]
    return mean(known) if len(known) == len(losses) else None


def _loss(folder: Path) -> float | None:
    if not (folder / RECORD).exists():
        return None
    record = Record.read(folder)
    return record.summary.get("val/loss") if record.status == "finished" else None


def _same(group: Path, jobs: Sequence[Mapping[str, Any]], factors: list[str]) -> dict[str, Any]:
    """What all tuned runs have in common, and later ones must have too."""
    all_of = [what_must_agree(Config.of(record.config), factors) for record in _records(group, jobs)]
    return {name: value for name, value in all_of[0].items() if all(other.get(name) == value for other in all_of)}


def _records(group: Path, jobs: Sequence[Mapping[str, Any]]) -> Iterator[Record]:
    yield from (Record.read(group / job["run_id"]) for job in jobs if (group / job["run_id"] / RECORD).exists())
