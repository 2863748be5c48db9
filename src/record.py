"""What happened in a run: the one file that export and resume read. W&B is a mirror of it.

    runs/<group>/<run_id>/record.json    written before the first step, replaced whole at every change
                          metrics.jsonl  one row a logged step, appended and flushed

Both are readable after a kill at any moment: the record is replaced by rename, and of the metrics a torn
last line is left out by the reader.
"""

from __future__ import annotations

import json
import math
import os
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from src.errors import RunError, one_line

SCHEMA_VERSION = 1

Status = Literal[
    "running", "finished", "failed", "oom", "diverged", "interrupted", "preempted", "killed", "skipped", "not_run"
]
"""How a run stands or ended. No file says `killed`: it is what a record that says `running` means without a process
(`src.run_status`)."""
STATUSES: tuple[str, ...] = get_args(Status)
RECORD, METRICS, CONFIG, LOG, CHECKPOINT, SAMPLE, LOCK = (
    "record.json",
    "metrics.jsonl",
    "config.yaml",
    "log.txt",
    "checkpoint.pt",
    "sample.txt",
    ".lock",
)


@dataclass(frozen=True)
class Record:
    """The whole truth about one run, as plain values."""

    run_id: str
    status: Status
    config: dict[str, Any]
    config_hash: str
    code: dict[str, Any]
    data: dict[str, Any]
    environment: dict[str, Any]
    geometry: dict[str, Any]
    costs: dict[str, Any]
    started_at: str
    summary: dict[str, float | int | None] = field(default_factory=dict)
    ended_at: str | None = None
    error: dict[str, str] | None = None
    segments: list[dict[str, Any]] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)
    """Where each setting's value came from: a file, or the command line."""
    parent: dict[str, Any] | None = None
    """Of a run whose first weights were made of another run's: which one, and how. None of all others."""
    schema_version: int = SCHEMA_VERSION

    @property
    def error_line(self) -> str | None:
        """Its error in one line; None where it has none."""
        return None if self.error is None else one_line(self.error["type"], self.error["message"])

    def begun(self, from_step: int, host: str) -> Record:
        """This record with a segment for one more attempt, which starts now."""
        number = self.segments[-1]["segment"] + 1 if self.segments else 1
        segment = {"segment": number, "from_step": from_step, "started_at": now(), "host": host}
        return replace(self, segments=[*self.segments, segment])

    def ended(self, status: Status, summary: Mapping[str, float | int | None], error: BaseException | None) -> Record:
        """This record with its ending, which its last segment keeps too: one that has none was killed."""
        ending = {"status": status, "ended_at": now()}
        return replace(
            self,
            **ending,
            summary=dict(summary),
            error=error_dict(error) if error else None,
            segments=[*self.segments[:-1], *({**segment, **ending} for segment in self.segments[-1:])],
        )

    def write(self, folder: Path) -> None:
        """Replaces record.json at once: a reader sees the old one or the new one, never half of one."""
        first = ("schema_version", "run_id", "status")
        values = asdict(self)
        if self.parent is None:  # so that older code reads it
            del values["parent"]
        ordered = {name: values[name] for name in first} | values
        write_atomically(folder / RECORD, json.dumps(encode(ordered), indent=2, allow_nan=False) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Record:
        """The record of a run folder. Raises RunError where there is none or it is of a newer schema."""
        path = folder / RECORD
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(f"{folder} holds no {RECORD}; is it a run's folder (runs/<group>/<run_id>)?") from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise RunError(f"{path} is not readable as JSON: {error}") from None
        version = values.get("schema_version") if isinstance(values, dict) else None
        if version != SCHEMA_VERSION:
            raise RunError(f"{path} has schema_version {version}; this code reads {SCHEMA_VERSION}")
        try:
            values["summary"] = dict(decode(values["summary"]))
            return cls(**values)
        except (TypeError, KeyError) as error:
            raise RunError(f"{path} is not a record: {error}") from None


def settings_text(values: Mapping[str, Any], origins: Mapping[str, str], above: str = "", indent: str = "") -> str:
    """Settings as YAML, with where each value came from as a comment beside it.

    >>> print(settings_text({"heads": 8, "data": {"path": None}}, {"heads": "command line"}), end="")
    heads: 8  # command line
    data:
      path: null
    """
    written = ""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            written += f"{indent}{name}:\n" + settings_text(value, origins, f"{above}{name}.", indent + "  ")
            continue
        first, *rest = yaml.safe_dump({name: value}, sort_keys=False, allow_unicode=True).splitlines()
        origin = origins.get(above + name)
        is_whole = not rest and not first.endswith(("|", ">", "|-", ">-", "|+"))
        if origin and is_whole:
            first = f"{first}  # {origin}"
        elif origin:
            written += f"{indent}# {origin}\n"
        written += "".join(f"{indent}{line}\n" for line in (first, *rest))
    return written


def now() -> str:
    """The time in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def error_dict(error: BaseException) -> dict[str, str]:
    return {
        "type": type(error).__name__,
        "message": str(error),
        "traceback": "".join(traceback.format_exception(error)),
    }


def write_atomically(path: Path, text: str) -> None:
    """Writes under a temporary name in the same folder, then renames."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_stale_temporaries(folder: Path) -> None:
    """Deletes what a killed save left behind."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)


def encode(value: Any) -> Any:
    """Plain JSON of any record value: a number that is not finite becomes 'NaN', 'Infinity' or '-Infinity'."""
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def decode(value: Any) -> Any:
    """The reverse of `encode`."""
    if isinstance(value, dict):
        return {key: decode(item) for key, item in value.items()}
    if isinstance(value, list):
        return [decode(item) for item in value]
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


def encode_row(row: Mapping[str, Any]) -> str:
    return json.dumps(encode(row), allow_nan=False)


def read_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """The rows of metrics.jsonl in order; a torn last line is left out.

    Raises RunError, with the line's number, where a line before the last is broken.
    """
    path = folder / METRICS
    if not path.exists():
        return
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            if number == len(lines):
                return
            raise RunError(f"{path}, line {number} is not JSON: {line[:80]!r}") from None
        yield decode(row)


def keep_rows_until(folder: Path, step: int) -> None:
    """Drops the rows beyond `step` and a torn last line, at once; for a run that goes on after `step`.

    The dropped steps are trained and logged again, so each step stands in the file once.
    Raises RunError where a line before the last is broken.
    """
    path = folder / METRICS
    if path.exists():
        kept = [row for row in read_rows(folder) if row["step"] <= step]
        write_atomically(path, "".join(encode_row(row) + "\n" for row in kept))
