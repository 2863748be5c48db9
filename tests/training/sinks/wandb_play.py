"""Plays runs to the truth and the mirror, and reads what wandb kept of them."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from src.config import LoggerConfig
from src.record import Record, Status
from src.training.events import Ended, Event, Logged, Sink, Started
from src.training.sinks.jsonl import JsonlSink
from src.training.sinks.wandb_sink import WandbSink

MakeLogger = Callable[..., LoggerConfig]


def rows_of(steps: Sequence[int], start: float = 5.0) -> list[Logged]:
    return [
        Logged(step, {"train/loss": start - step / 100, "val/loss": 4.0 if step % 20 == 0 else None}) for step in steps
    ]


def play(
    logger: LoggerConfig,
    run: tuple[Record, Path],
    steps: Sequence[int],
    status: Status = "finished",
    start: float = 5.0,
    segment: int = 1,
    **ending: Any,
) -> tuple[dict[str, Any], list[str]]:
    """Plays one segment of a run to the truth and the mirror; returns the mirror's outcome and what it said."""
    record, folder = run
    said: list[str] = []
    mirror = WandbSink(logger, folder, said.append)
    sinks: list[Sink] = [JsonlSink(folder, segment, clock=lambda: 1.8e9), mirror]
    record.write(folder)
    ended = replace(record, status=status, **ending)
    events: list[Event] = [Started(steps[0] - 1, 100, segment), *rows_of(steps, start)]
    for event in events:
        for sink in sinks:
            sink.write(event)
    ended.write(folder)
    for sink in sinks:
        sink.write(Ended(ended, folder))
        sink.close()
    return mirror.outcome, said


def offline_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("wandb/offline-run-*/*.wandb"))


def inspect(folder: Path) -> dict[str, Any]:
    """What wandb's own reader finds in the one offline run of a folder."""
    (file,) = offline_files(folder)
    command = [Path(sys.executable).with_name("wandb"), "leet", "inspect", "--json", str(file)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    records = [json.loads(line) for line in output.splitlines()]
    found: dict[str, Any] = {"history": [], "summary": {}}
    for record in records:
        match record["type"]:
            case "run":
                found |= record["run"]
                found["config"] = record["run"]["config"]["update"]
            case "history":
                found["history"].append(record["history"]["item"])
            case "summary":
                found["summary"] |= record["summary"].get("update", {})
            case "exit":
                found["exit_code"] = record["exit"].get("exit_code", 0)
    return found


def children_of(process_id: int) -> list[psutil.Process]:
    children = psutil.Process(process_id).children(recursive=True)
    return [child for child in children if "src.training.sinks.wandb_mirror" in _words(child)]


def _words(process: psutil.Process) -> list[str]:
    """Its command line, which is empty for a moment while it starts."""
    while not (words := process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    return words


PARENT = """
import sys, time
from pathlib import Path
from src.record import Record
from src.compose import compose
from src.training.events import Logged, Started
from src.training.sinks import open_sinks
folder = Path(sys.argv[1])
sinks = open_sinks(compose([f"logger.mode={sys.argv[2]}"]), folder, 1)
for event in [Started(0, 100, 1), *(Logged(step, {"train/loss": step / 10}) for step in range(1, 51))]:
    for sink in sinks:
        sink.write(event)
print("logged", flush=True)
time.sleep(60)
"""
"""A process that trains: it logs fifty rows and then waits to be killed."""
