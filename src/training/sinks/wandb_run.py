"""Is a W&B server there at all? Asked before wandb is, which takes 13 s and more to give up on a silent one."""

from __future__ import annotations

import hashlib
import html
import json
import os
import queue
import re
import shutil
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from glob import escape
from http.client import HTTPException
from pathlib import Path
from typing import Any

from src.metrics import METRICS
from src.record import METRICS as METRICS_FILE
from src.record import SAMPLE, Record, decode, write_atomically
from src.run_status import EXIT_CODES


def silence(address: str, seconds: float) -> str | None:
    """Why a W&B server cannot be used, or None where it answers anything at all within `seconds`."""
    answers: queue.Queue[str | None] = queue.Queue()

    def ask() -> None:
        try:
            request = urllib.request.Request(
                f"{address}/graphql",
                data=b'{"query": "{ __typename }"}',
                headers={"Content-Type": "application/json"},
            )
            urllib.request.urlopen(request, timeout=seconds).close()
            answers.put(None)
        except urllib.error.HTTPError as error:
            error.close()
            answers.put(None)
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            # wandb trusts certificates of its own choice; let it judge.
            answers.put(None if isinstance(reason, ssl.SSLError) else f"{address}: {reason}")

    threading.Thread(target=ask, daemon=True).start()  # looking up a name knows no timeout
    try:
        return answers.get(timeout=seconds + 0.5)
    except queue.Empty:
        return f"{address} did not answer within {seconds:g} s"


# A run folder as one run of Weights & Biases. The folder is the truth: this reads it, and writes wandb/ alone.
PATIENCE_S = 3.0
"""Seconds in which a server must answer at all, or half of logger.timeout_s; else the run is mirrored offline."""


class WandbRun:
    """An open W&B run that follows the rows of a run folder.

    Each row is logged in one call with its own step, so what the server is told never depends on when. `outcome`
    says how the mirror fares, as plain values: `state` (online, offline, incomplete), `reason`, `id`, `url`,
    `directory` (within the run folder), `rows`.
    """

    def __init__(self, folder: Path, record: Record, run: Any, mode: str, reason: str | None) -> None:
        self._folder, self._run = folder, run
        self._offset = 0
        # What a resumed run's server already holds; lower steps would be dropped there, with a warning each.
        self._next_step = run.starting_step if run.resumed else 0
        self._time: dict[str, float] = {}
        self.outcome: dict[str, Any] = {
            "state": mode,
            "reason": reason,
            "id": run.id,
            "url": run.url,
            "directory": os.path.relpath(run.settings.sync_dir, folder),
            "rows": 0,
        }
        self._note()

    @classmethod
    def start(cls, folder: Path, logger: Mapping[str, Any], may_fall_back: bool = True) -> WandbRun:
        """Opens the W&B run of a folder, with the `logger` settings of its configuration.

        Online without a key, a network or an answer becomes offline, with the reason in the outcome;
        without `may_fall_back` it raises ConnectionError.
        """
        record = Record.read(folder)
        arguments = _arguments(folder, record, logger)
        reason = None
        if logger["mode"] == "online":
            run, reason = _online(arguments, patience_s=min(PATIENCE_S, float(logger["timeout_s"]) / 2))
            if run is not None:
                return cls(folder, record, run, "online", None)
            if not may_fall_back:
                raise ConnectionError(reason)
        return cls(folder, record, _init("offline", arguments), "offline", reason)

    def follow(self) -> None:
        """Logs the rows that were written since the last call."""
        for row in self._new_rows():
            step = row["step"]
            if step < self._next_step:
                continue
            numbers = {name: value for name, value in row.items() if name in METRICS and value is not None}
            self._next_step, self._time = step, {"_timestamp": row["time"]}
            self._run.log(numbers | self._time, step=step)
            self.outcome["rows"] += 1

    def end(self, status: str | None = None, summary: Mapping[str, Any] | None = None) -> None:
        """Logs what is left and finishes the run with the exit code of `status`; by default the record says all.

        A record that still says `running` was left by a process that was killed.
        """
        self.follow()
        if status is None or summary is None:
            record = Record.read(self._folder)
            status, summary = ("killed" if record.status == "running" else record.status), record.summary
        self._complete_last_step()
        self._run.summary.update({name: value for name, value in summary.items() if value is not None})
        self._run.summary["status"] = status
        if status == "preempted" and self.outcome["state"] == "online":
            self._run.mark_preempting()
        try:
            self._run.finish(exit_code=EXIT_CODES.get(status, 1))
        except TimeoutError:
            self.outcome |= {"state": "incomplete", "reason": "the server took too long at the end"}
        else:
            self._remove_superseded()
        self._note()

    def _new_rows(self) -> Iterator[dict[str, Any]]:
        path = self._folder / METRICS_FILE
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._offset)
            whole = file.read().rpartition(b"\n")[0]
        if whole:
            self._offset += len(whole) + 1
            yield from (decode(json.loads(line)) for line in whole.splitlines() if line.strip())

    def _complete_last_step(self) -> None:
        """Closes the last step, with the sample; else its numbers would reach the summary after the record's."""
        import wandb

        ending: dict[str, Any] = dict(self._time)
        path = self._folder / SAMPLE
        if path.exists():
            page = f"<pre>{html.escape(path.read_text(encoding='utf-8'))}</pre>"
            ending["sample"] = wandb.Html(page, inject=False, data_is_not_path=True)
        if ending:
            self._run.log(ending, step=self._next_step, commit=True)

    def _remove_superseded(self) -> None:
        # This run replayed every row that counts, so earlier segments are parts of it, and `wandb sync` of one
        # of them, done last, would put the part in the place of the whole.
        for other in _directories(self._folder, self.outcome["id"]):
            if other != self._folder / self.outcome["directory"]:
                shutil.rmtree(other, ignore_errors=True)

    def _note(self) -> None:
        write_outcome(self._folder, self.outcome)


def read_outcome(folder: Path) -> dict[str, Any]:
    """What mirror.json says; empty where there is none."""
    try:
        return json.loads((folder / "wandb" / "mirror.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}


def write_outcome(folder: Path, outcome: Mapping[str, Any]) -> None:
    (folder / "wandb").mkdir(exist_ok=True)
    write_atomically(folder / "wandb" / "mirror.json", json.dumps(dict(outcome), indent=2) + "\n")


def first_line(error: BaseException) -> str:
    """An error in one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _arguments(folder: Path, record: Record, logger: Mapping[str, Any]) -> dict[str, Any]:
    import wandb

    timeout_s = float(logger["timeout_s"])
    heads, kv_heads = (record.geometry.get(name) for name in ("heads", "kv_heads"))
    identity = {
        "run_id": record.run_id,
        "config_hash": record.config_hash,
        "code": record.code,
        "corpus": record.data,
        "started_at": record.started_at,
    }
    arguments = {
        "name": folder.name,
        "group": record.config.get("group"),
        "tags": [*logger["tags"], f"heads={heads}", f"kv_heads={kv_heads}"],
        "notes": logger["notes"],
        "job_type": logger["job_type"],
        "dir": str(folder),
        "reinit": "finish_previous",
        "config": {
            **record.config,
            "geometry": record.geometry,
            "costs": record.costs,
            "environment": record.environment,
            "identity": identity,
        },
        "settings": wandb.Settings(
            init_timeout=max(timeout_s / 2, 1),
            finish_timeout=max(timeout_s - 2, 1),
            finish_timeout_raises=True,
            console="off",
            disable_code=True,
            disable_git=True,
            symlink=False,
            x_disable_machine_info=True,
            x_disable_stats=True,
            x_save_requirements=False,
        ),
    }
    if "WANDB_SWEEP_ID" not in os.environ:  # an agent says by the environment which run of its sweep this is
        arguments |= {"id": _run_id(folder, record), "project": logger["project"], "entity": logger["entity"]}
    return arguments


def _run_id(folder: Path, record: Record) -> str:
    """The id under which W&B knows this folder: one for all its segments, another for any other folder."""
    known = read_outcome(folder).get("id")
    if known:
        return known
    digest = hashlib.sha256(f"{record.config.get('group')}/{folder.name}/{record.started_at}".encode()).hexdigest()
    return re.sub(r"[^\w.-]", "-", record.run_id, flags=re.ASCII)[:100] + f"-{digest[:8]}"


def _online(arguments: Mapping[str, Any], patience_s: float) -> tuple[Any | None, str | None]:
    """The run at the server, or None and the reason why there is none."""
    import wandb

    reason = silence(wandb.setup().settings.base_url, patience_s)
    if reason is not None:
        return None, reason
    folder, run_id = Path(arguments["dir"]), arguments.get("id", os.environ.get("WANDB_RUN_ID", ""))
    before = _directories(folder, run_id)
    try:
        return _init("online", {**arguments, "resume": "allow"}), None
    except Exception as error:  # whatever wandb makes of a server, training does not care
        for left_over in _directories(folder, run_id) - before:
            shutil.rmtree(left_over, ignore_errors=True)
        return None, first_line(error)


def _init(mode: str, arguments: Mapping[str, Any]) -> Any:
    import wandb

    return wandb.init(mode=mode, **arguments)  # type: ignore[arg-type]


def _directories(folder: Path, run_id: str) -> set[Path]:
    return set((folder / "wandb").glob(f"*run-*-{escape(run_id)}*"))
