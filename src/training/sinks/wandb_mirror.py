"""Mirrors run folders to Weights & Biases, outside the training process; the folder is the truth, and only its wandb/
is written.

    python -m src.training.sinks.wandb_mirror <run folder> [...] [--mode online]     after the fact
    python -m src.training.sinks.wandb_mirror --serve                                what `WandbSink` starts

Served commands, one JSON object a line on standard input; each is answered by the outcome on standard output:

    {"start": {"folder": ..., "logger": {...}}}        opens the run and follows its rows until
    {"end": {"status": ..., "summary": {...}}}         logs the rest and finishes it; the next start may come

The end of standard input means that training is gone: the run is finished as its record says, and the process ends.
"""

from __future__ import annotations

import argparse
import hashlib
import html
import json
import os
import queue
import re
import shutil
import signal
import ssl
import sys
import threading
import traceback
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from glob import escape
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any

from src.errors import UserError, exit_code, first_line
from src.metrics import declared
from src.record import METRICS as METRICS_FILE
from src.record import SAMPLE, Record, decode, write_atomically

POLL_S = 0.3
GIVE_UP_S = 10.0
"""Seconds for finishing a run whose training process is gone."""
PATIENCE_S = 3.0
"""Seconds in which a server must answer at all, or half of logger.timeout_s; else the run is mirrored offline."""


def serve() -> None:
    """Obeys the commands of a training process until it is gone."""
    commands, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    _send_output_to(os.devnull)
    for stop in {"SIGINT", "SIGTERM", "SIGHUP"} & set(signal.Signals.__members__):
        signal.signal(signal.Signals[stop], signal.SIG_IGN)  # meant for training, which then tells how it ended
    inbox = lines_of(commands)
    with suppress(ImportError):
        import wandb  # noqa: F401  # paid while training starts
    run: WandbRun | None = None
    outcome: dict[str, Any] = {}
    while True:
        try:
            line = inbox.get(timeout=POLL_S if run else None)
        except queue.Empty:
            line = "{}"
        if line is None:
            break
        command = json.loads(line)
        try:
            run = _obey(command, run)
            outcome = run.outcome if run else outcome
        except Exception as error:
            traceback.print_exc()
            run, outcome = None, {"state": "failed", "reason": first_line(error)}
        if command:
            has_ended = "end" in command
            with suppress(OSError):
                print(json.dumps(outcome | {"ended": has_ended}), file=answers, flush=True)
            run = None if has_ended else run
    _end_without_training(run)
    sys.stdout.flush()
    os._exit(0)  # every run is finished; wandb's own exit handlers would take half a second more


def _obey(command: dict[str, Any], run: WandbRun | None) -> WandbRun | None:
    if "start" in command:
        folder = Path(command["start"]["folder"])
        (folder / "wandb").mkdir(exist_ok=True)
        _send_output_to(folder / "wandb" / "mirror.log")
        return WandbRun.start(folder, command["start"]["logger"])
    if run is not None and "end" in command:
        run.end(command["end"]["status"], decode(command["end"]["summary"]))
    elif run is not None:
        run.follow()
    return run


def _end_without_training(run: WandbRun | None) -> None:
    """Finishes what a vanished training process left open, in bounded time."""
    give_up = threading.Timer(GIVE_UP_S, os._exit, args=(1,))
    give_up.daemon = True
    give_up.start()
    if run is not None:
        try:
            run.end()
        except Exception:
            traceback.print_exc()


def _send_output_to(path: Path | str) -> None:
    """Sends what this process (and what it starts) prints to a file, and leaves it nothing to read."""
    sys.stdout.flush()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(source, target)
    os.close(file)
    os.close(nothing)


def lines_of(stream: IO[str]) -> queue.Queue[str | None]:
    """A queue that a thread fills with the lines of a stream, and with None at its end."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        with suppress(ValueError, OSError), stream:  # closed meanwhile
            for line in stream:
                lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines


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
        import wandb

        record = Record.read(folder)
        arguments = _arguments(folder, record, logger)
        reason = None
        if logger["mode"] == "online":
            run, reason = _online(arguments, patience_s=min(PATIENCE_S, float(logger["timeout_s"]) / 2))
            if run is not None:
                return cls(folder, record, run, "online", None)
            if not may_fall_back:
                raise ConnectionError(reason)
        return cls(folder, record, wandb.init(mode="offline", **arguments), "offline", reason)

    def follow(self) -> None:
        """Logs the rows that were written since the last call."""
        for row in self._new_rows():
            step = row["step"]
            if step < self._next_step:
                continue
            numbers = {name: value for name, value in row.items() if declared(name) and value is not None}
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
            self._run.finish(exit_code=exit_code(status))
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


def silence(address: str, seconds: float) -> str | None:
    """Why a W&B server cannot be used, or None where it answers anything at all within `seconds`.

    Asked before wandb is, which takes 13 s and more to give up on a silent one.
    """
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


def _online(arguments: Mapping[str, Any], patience_s: float) -> tuple[Any | None, str | None]:
    """The run at the server, or None and the reason why there is none."""
    import wandb

    reason = silence(wandb.setup().settings.base_url, patience_s)
    if reason is not None:
        return None, reason
    folder, run_id = Path(arguments["dir"]), arguments.get("id", os.environ.get("WANDB_RUN_ID", ""))
    before = _directories(folder, run_id)
    try:
        return wandb.init(mode="online", **arguments, resume="allow"), None
    except Exception as error:  # whatever wandb makes of a server, training does not care
        for left_over in _directories(folder, run_id) - before:
            shutil.rmtree(left_over, ignore_errors=True)
        return None, first_line(error)


def _directories(folder: Path, run_id: str) -> set[Path]:
    return set((folder / "wandb").glob(f"*run-*-{escape(run_id)}*"))


def mirror(folder: Path, mode: str, timeout_s: float) -> dict[str, Any]:
    """Mirrors a run that is over and returns the outcome. Raises ConnectionError where the server cannot be used."""
    logger = Record.read(folder).config["logger"]
    run = WandbRun.start(folder, {**logger, "mode": mode, "timeout_s": timeout_s}, may_fall_back=False)
    run.end()
    return run.outcome


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m src.training.sinks.wandb_mirror",
        description="Mirrors the records of runs to Weights & Biases.",
    )
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="a run's folder")
    parser.add_argument("--mode", choices=("online", "offline"), default="online")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds that a server may take (default: 60)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return
    if not arguments.folders:
        parser.error("name at least one run folder")
    failures = 0
    for folder in arguments.folders:
        try:
            outcome = mirror(folder.resolve(), arguments.mode, arguments.timeout)
        except (UserError, OSError) as error:
            outcome = {"state": "failed", "reason": first_line(error)}
        failures += outcome["state"] != arguments.mode
        where = outcome.get("reason") or outcome.get("url") or outcome.get("directory")
        print(f"{folder}: {outcome['state']}: {where}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
