"""Mirrors run folders to Weights & Biases, outside the training process.

    python -m src.training.sinks.wandb_process <run folder> [...] [--mode online]     after the fact
    python -m src.training.sinks.wandb_process --serve                                what `WandbSink` starts

Served commands, one JSON object a line on standard input; each is answered by the outcome on standard output:

    {"start": {"folder": ..., "logger": {...}}}        opens the run and follows its rows until
    {"end": {"status": ..., "summary": {...}}}         logs the rest and finishes it; the next start may come

The end of standard input means that training is gone: the run is finished as its record says, and the process ends.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from src.errors import UserError
from src.record import Record, decode
from src.training.sinks.wandb_run import WandbRun, first_line

POLL_S = 0.3
LAST_RESORT_S = 10.0


def lines_of(stream: IO[str]) -> queue.Queue[str | None]:
    """A queue that a thread fills with the lines of a stream, and with None at its end."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        with suppress(ValueError, OSError), stream:  # closed under our hands
            for line in stream:
                lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines


def serve() -> None:
    """Obeys the commands of a training process until it is gone."""
    commands, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    _send_output_to(os.devnull)
    for stop in {"SIGINT", "SIGTERM", "SIGHUP"} & set(signal.Signals.__members__):
        signal.signal(signal.Signals[stop], signal.SIG_IGN)  # training is asked to stop, and says what came of it
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
    _end_alone(run)
    sys.stdout.flush()
    os._exit(0)  # every run is finished; wandb's own farewell takes half a second more, for nothing


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


def _end_alone(run: WandbRun | None) -> None:
    """Finishes what a vanished training process left open, in bounded time."""
    last_resort = threading.Timer(LAST_RESORT_S, os._exit, args=(1,))
    last_resort.daemon = True
    last_resort.start()
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


def mirror(folder: Path, mode: str, timeout_s: float) -> dict[str, Any]:
    """Mirrors a run that is over and returns the outcome. Raises ConnectionError where the server cannot be used."""
    logger = Record.read(folder).config["logger"]
    run = WandbRun.start(folder, {**logger, "mode": mode, "timeout_s": timeout_s}, may_fall_back=False)
    run.end()
    return run.outcome


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m src.training.sinks.wandb_process",
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
