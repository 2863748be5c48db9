"""The jobs of a sweep in several processes of this machine, which share out its cores and its GPUs.

A worker that is killed takes its own job with it and no other; it is replaced.
"""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from src.sweeps.desk import Desk
from src.sweeps.island import Outcome, WorkerKilled, record_ending
from src.sweeps.plan import Job
from src.sweeps.shares import Share, environment_of
from src.training.stop import STATUS_OF

POLL_S = 0.2
GRACE_S = 10.0


class Worker:
    """One process and the job that it runs now, if any. Its answers, and None at its end, come into `answers`."""

    def __init__(self, share: Share, folder: Path, answers: queue.Queue[tuple[Worker, str | None]]) -> None:
        self.share = share
        self.job: Job | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the worker
        self._process = subprocess.Popen(
            [sys.executable, "-m", "src.sweeps.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
            cwd=folder,
            env=environment_of(share),
            start_new_session=True,  # Ctrl-C is for the sweep, which then tells its workers
        )
        threading.Thread(target=self._listen, args=(answers,), daemon=True).start()

    def give(self, job: Job, launch_dir: Path) -> None:
        assert self._process.stdin is not None
        self.job = job
        task = {"config": job.config.model_dump(), "launch_dir": str(launch_dir)}
        with suppress(OSError):  # gone: its end is reported
            self._process.stdin.write(json.dumps(task) + "\n")
            self._process.stdin.flush()

    def tell(self, signal_number: int) -> None:
        self._process.send_signal(signal_number)

    def how_it_ended(self) -> str:
        """In words, of a worker that is gone."""
        code = self._process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        hint = " (out of memory?)" if code == -signal.SIGKILL else ""
        self._log.seek(0)
        last = self._log.read().decode(errors="replace").strip().splitlines()[-1:]
        return f"the worker {how}{hint}" + "".join(f"; it last said: {line}" for line in last)

    def close(self, at_once: bool) -> None:
        """Lets the process end; one that is asked to and does not, or `at_once`, is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if at_once:
            self._process.kill()
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _listen(self, answers: queue.Queue[tuple[Worker, str | None]]) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                answers.put((self, line))
        answers.put((self, None))


class Pool:
    """Runs jobs in one worker a share."""

    def __init__(self, desk: Desk, shares: Sequence[Share]) -> None:
        self._desk = desk
        self._free = deque(shares)
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        self._answers: queue.Queue[tuple[Worker, str | None]] = queue.Queue()
        self._told: int | None = None

    def run(self, jobs: Sequence[Job]) -> None:
        waiting = deque(jobs)
        is_over = False
        try:
            while self._busy or (waiting and not self._desk.is_stopping):
                self._pass_on_signal()
                while waiting and (self._idle or self._free) and not self._desk.is_stopping:
                    self._start(waiting.popleft())
                self._hear()
            is_over = True
        finally:
            for worker in [*self._idle, *self._busy]:
                worker.close(at_once=not is_over)

    def _start(self, job: Job) -> None:
        if not self._idle:
            self._idle.append(Worker(self._free.popleft(), self._desk.launch_dir, self._answers))
        worker = self._idle.pop()
        self._busy.add(worker)
        self._desk.begins(job)
        worker.give(job, self._desk.launch_dir)

    def _hear(self) -> None:
        try:
            worker, line = self._answers.get(timeout=POLL_S)
        except queue.Empty:
            return
        job, worker.job = worker.job, None
        if line is not None:
            assert job is not None
            self._busy.discard(worker)
            self._idle.append(worker)
            self._desk.ends(job, Outcome(**json.loads(line)))
            return
        self._busy.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        self._free.append(worker.share)
        if job is not None:
            self._bury(job, WorkerKilled(worker.how_it_ended()))
        worker.close(at_once=True)

    def _bury(self, job: Job, error: WorkerKilled) -> None:
        if self._told is not None:  # it was asked to stop before it could say so itself
            self._desk.ends(job, Outcome(STATUS_OF[self._told], str(error)))
            return
        record_ending(job.folder, job.config, job.geometry, "failed", error)
        self._desk.ends(job, Outcome("failed", str(error)))

    def _pass_on_signal(self) -> None:
        number = self._desk.stop.signal_number
        if number is not None and number != self._told:
            self._told = number
            for worker in self._busy:
                worker.tell(number)


def run_jobs(jobs: Sequence[Job], desk: Desk, shares: Sequence[Share]) -> None:
    """Runs the jobs at most one a share at a time, until all are over or the sweep is to stop."""
    Pool(desk, shares[: len(jobs)]).run(jobs)
