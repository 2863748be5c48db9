"""A process that runs jobs one after another for `src.sweeps.launchers.processes`: one JSON line in, one out, for each.

    in   {"config": {...}, "launch_dir": ...}
    out  {"state": ..., "error": ..., "seconds": ...}

It stops as by SIGTERM, saving what it has, when its parent goes away.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from src.config import Config
from src.sweeps.job import run_job
from src.sweeps.plan import keep_data
from src.sweeps.progress import open_job_sinks
from src.training.stop import StopFlag


def main() -> None:
    """Serves until standard input ends or a signal comes."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a job prints is no answer
    stop, load = StopFlag(), keep_data()
    with stop:
        inbox = _read_in_background(stop)
        import src.training.run  # noqa: F401  # torch, paid once and before the first job's clock

        while stop.signal_number is None:
            try:
                line = inbox.get(timeout=0.2)
            except queue.Empty:
                continue
            if line is None:
                break
            task = json.loads(line)
            outcome = run_job(Config.of(task["config"]), Path(task["launch_dir"]), stop, load, open_job_sinks)
            print(json.dumps(asdict(outcome)), file=answers, flush=True)


def _read_in_background(stop: StopFlag) -> queue.Queue[str | None]:
    inbox: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            inbox.put(line)
        inbox.put(None)
        stop.signal_number = stop.signal_number or signal.SIGTERM

    threading.Thread(target=read, daemon=True).start()
    return inbox


if __name__ == "__main__":
    main()
