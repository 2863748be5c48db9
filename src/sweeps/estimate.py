"""How long a sweep may take and how much it may write, judged by runs that are finished."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

from src.config import Config
from src.errors import ConfigError
from src.record import RECORD
from src.run_status import RunStatus
from src.sweeps.plan import Job

MOST_RECORDS = 400
"""Records looked at, so that a plan over many old runs stays quick."""


@dataclass(frozen=True)
class Estimate:
    """Of the jobs given: seconds one after another and bytes written. `runs`: how many finished runs it stands on."""

    seconds: float
    bytes: float
    runs: int


@dataclass(frozen=True)
class _Past:
    kind: tuple[object, ...]
    heads: tuple[object, ...]
    tokens: float
    seconds: float
    folder: Path


def estimate(jobs: Sequence[Job], runs_dir: Path) -> Estimate | None:
    """What these jobs may cost; None where no finished run is like each of them."""
    past = list(islice(_finished(runs_dir), MOST_RECORDS))
    seconds = size = 0.0
    used: set[Path] = set()
    for job in jobs:
        like = [run for run in past if run.kind == _kind(job.config)]
        like = [run for run in like if run.heads == _heads(job.config)] or like
        if not like:
            return None
        tokens = _tokens(job)
        if tokens is None:
            return None
        seconds += median(run.seconds / run.tokens for run in like) * tokens
        size += _folder_bytes(like[0].folder)
        used |= {run.folder for run in like}
    return Estimate(seconds, size, len(used))


def _finished(runs_dir: Path) -> Iterator[_Past]:
    for path in runs_dir.glob(f"*/*/{RECORD}"):
        status = RunStatus.of(path.parent)
        tokens, seconds = status.summary.get("train/tokens"), status.seconds
        if status.record is None or seconds is None or not tokens:
            continue
        try:
            config = Config.of(status.record.config)
        except ConfigError:
            continue  # of another version
        yield _Past(_kind(config), _heads(config), tokens, seconds, path.parent)


def _kind(config: Config) -> tuple[object, ...]:
    model, training = config.model, config.training
    return model.d_model, model.layers, config.context_length, training.batch_size, config.attention, config.data.name


def _heads(config: Config) -> tuple[object, ...]:
    return config.heads, config.kv_heads, config.head_dim


def _tokens(job: Job) -> float | None:
    training, context = job.config.training, job.config.context_length
    if training.max_steps is not None:
        return training.max_steps * training.batch_size * context
    return None if job.epoch_tokens is None else (training.epochs or 1) * job.epoch_tokens


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
