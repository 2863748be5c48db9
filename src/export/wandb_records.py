"""A W&B run as a record. The mirror (`src.training.sinks.wandb_run`) says what it holds; this reads it back.

It does not hold when a run ended, its error, its segments, and the kernels found while it ran: those stay null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from src.errors import RunError
from src.metrics import METRICS
from src.record import SCHEMA_VERSION, STATUSES, Record, Status, decode

Values = Mapping[str, Any]
_OF_STEPS = {"train/loss", "train/learning_rate", "train/grad_norm"}
"""W&B copies the last step's numbers into its summary; a record's summary has none of these."""
_NOT_SETTINGS = ("geometry", "costs", "environment", "identity", "_wandb")
_STATE_STATUS = {"finished": "finished", "running": "running", "preempted": "preempted", "preempting": "preempted"}


def record_of(config: Values, summary: Values, state: str, started_at: str) -> Record:
    """The record of one W&B run. Its own word on how it ended counts; without one, W&B's `state` does.

    Raises RunError where the run was not logged by headcount.
    """
    identity = config.get("identity")
    if not isinstance(identity, Mapping) or "geometry" not in config:
        raise RunError("it was not logged by headcount: its W&B config has no identity and geometry")
    status = summary.get("status")
    if status not in STATUSES:  # cut off: its record has no summary either, and W&B's is the last step's numbers
        status, summary = _STATE_STATUS.get(state, "failed"), {}
    return Record(
        run_id=str(identity.get("run_id")),
        status=cast(Status, status),
        config={name: value for name, value in config.items() if name not in _NOT_SETTINGS},
        config_hash=str(identity.get("config_hash")),
        code=dict(identity.get("code") or {}),
        data=dict(identity.get("corpus") or {}),
        environment=dict(config.get("environment") or {}),
        geometry=dict(config["geometry"]),
        costs=dict(config.get("costs") or {}),
        started_at=str(identity.get("started_at") or started_at),
        summary={name: decode(summary[name]) for name in sorted(METRICS.keys() - _OF_STEPS) if has(summary, name)},
        schema_version=SCHEMA_VERSION,
    )


def rows_of(history: Iterable[Values]) -> list[dict[str, Any]]:
    """Rows as metrics.jsonl has them; rows without a declared metric, such as a text sample's, are none."""
    rows = []
    for logged in history:
        numbers = {name: decode(logged[name]) for name in METRICS if has(logged, name)}
        if numbers:
            rows.append({"step": logged.get("_step"), "time": logged.get("_timestamp"), **numbers})
    return rows


def has(values: Values, name: str) -> bool:
    return values.get(name) is not None
