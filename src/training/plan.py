"""What a run is, before anything is made: enough to name it, to find it and to refuse it. No torch.

Its learning rate may be one that an earlier sweep chose, arm by arm, on seeds of its own (`src.sweeps.tuning` writes
these files).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from src.config import Config, DataConfig, config_hash
from src.data.load import Data, load_data
from src.errors import ConfigError
from src.geometry import Geometry
from src.io_spec import check_spec
from src.record import RECORD, Record
from src.training.folder import run_id

SCHEMA_VERSION = 1
"""Of a file of learning rates."""
LoadData = Callable[[DataConfig, Path], Data]


@dataclass(frozen=True)
class Start:
    """What a run begins with that is made of another: weights by name, and for the record which run and how.

    Its weights are judged before the first of `steps` steps, of which there may be none; its batches go on after the
    `batches_seen` that made the weights.
    """

    weights: Mapping[str, Any]
    parent: dict[str, Any]
    steps: int
    batches_seen: int


@dataclass(frozen=True)
class RunPlan:
    """A configuration with its integers, its data and the folder of its group."""

    config: Config
    geometry: Geometry
    data: Data
    parent: Path
    start: Start | None = None

    @property
    def config_hash(self) -> str:
        """Names what decides the result: settings, corpus, and the run that its weights are made of."""
        made_of = {} if self.start is None else {"parent": self.start.parent, "steps": self.start.steps}
        return config_hash({**self.config.identity, **made_of}, self.data.hash)

    @property
    def run_id(self) -> str:
        return run_id(self.config, self.geometry, self.config_hash)

    @property
    def folder(self) -> Path:
        return self.parent / self.run_id

    def finished_record(self) -> Record | None:
        """The record of this run where it is finished and may count as done; None otherwise."""
        if self.config.resume == "never" or not (self.folder / RECORD).exists():
            return None
        record = Record.read(self.folder)
        return record if record.status == "finished" else None


@dataclass(frozen=True)
class Result:
    """How a run stands when its command ends. `was_done` says that it had been finished before."""

    record: Record
    folder: Path
    was_done: bool = False
    error: BaseException | None = None


def plan_run(config: Config, launch_dir: Path, load: LoadData = load_data) -> RunPlan:
    """The plan of one run; relative paths start at `launch_dir`, and `load` may keep what it loaded before.

    Raises UserError for settings, texts and lengths that do not fit together.
    """
    config = with_tuned_rate(config, launch_dir)
    geometry = Geometry.of(config)
    data = load(config.data, launch_dir)
    check_spec(geometry, data.io_spec, data.name)
    data.check_length(config.context_length)
    parent = launch_dir / config.runs_dir / config.group
    return RunPlan(config, geometry, data, parent)


def with_tuned_rate(config: Config, launch_dir: Path) -> Config:
    """The configuration with the learning rate that was chosen for its arm, where it names a file of such rates.

    Raises ConfigError where the file cannot be read, has no rate for this arm, was made for another model or corpus,
    or was chosen on this very seed: a seed that chooses must not judge.
    """
    if config.training.learning_rate_from is None:
        return config
    path = launch_dir / config.training.learning_rate_from
    content = _read(path)
    if config.seed in content["seeds"]:
        raise ConfigError(
            f"seed={config.seed} chose the learning rates of {path}, so it must not judge by them; take seeds other "
            f"than {', '.join(map(str, content['seeds']))}"
        )
    entry = next((rate for rate in content["rates"] if _is_arm(config, rate["arm"])), None)
    if entry is None:
        arms = "; ".join(_written(rate["arm"]) for rate in content["rates"])
        raise ConfigError(f"{path} has no learning rate for this arm; it has those of {arms}. Tune this one too")
    _check_same(config, content, path)
    training = config.training.model_copy(update={"learning_rate": float(entry["learning_rate"])})
    return config.model_copy(update={"training": training})


def what_must_agree(config: Config, factors: list[str]) -> dict[str, Any]:
    """The settings in which tuning and judging must agree: all that decide a result but the training's, the seed, the
    device and the factors."""
    apart = {"training", "seed", "device", "attention_kernel", *factors}
    flat = dict(_flat(config.identity))
    return {
        name: value for name, value in flat.items() if name not in apart and name.partition(".")[0] not in apart
    }  # fmt: skip


def setting(config: Config, name: str) -> Any:
    """The value of a dotted setting; of a section, its name: what the group's option is called."""
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return getattr(value, "name", value)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"training.learning_rate_from={path} cannot be read: {error}; `-m sweeps=learning_rate` makes such a file"
        ) from None
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise ConfigError(f"{path} has schema_version {version}; this code reads {SCHEMA_VERSION}")
    return content


def _is_arm(config: Config, arm: Mapping[str, Any]) -> bool:
    return all(setting(config, name) == value for name, value in arm.items())


def _check_same(config: Config, content: Mapping[str, Any], path: Path) -> None:
    here = what_must_agree(config, content["factors"])
    for name, value in content["same"].items():
        if here.get(name) != value:
            raise ConfigError(f"{path} was tuned with {name}={value}, but here it is {here.get(name)}; tune for it too")


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _written(arm: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in arm.items()) or "the only arm"
