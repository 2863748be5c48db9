"""The jobs of a sweep in several processes of this machine, which share out its cores and its GPUs.

Each worker is a `python -m src.sweeps.launchers.processes` that runs jobs one after another, a JSON line a job:

    in   {"config": {...}, "launch_dir": ...}
    out  {"state": ..., "error": ..., "seconds": ...}

It stops as by SIGTERM, saving what it has, when its parent goes away.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from src.config import Config
from src.sweeps.job import Outcome, WorkerKilled, record_ending, run_job
from src.sweeps.plan import Job, keep_data
from src.sweeps.progress import Progress, open_job_sinks
from src.training.environment import JOB_ID_VARIABLE, LAUNCHER_VARIABLE, SUBMITTED_CODE_VARIABLE, code_identity
from src.training.stop import STATUS_OF, StopFlag

POLL_S = 0.2
GRACE_S = 10.0
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Share:
    """The part of a machine that one worker has. `gpu`: the only one it sees; None: as this process."""

    worker: int
    threads: int
    gpu: str | None


def shares(n_jobs: int | None, gpus: Sequence[str], cores: int) -> list[Share]:
    """One share a job at once: as many as asked, but no more than GPUs where there are any; None: one a GPU or core.

    >>> [(share.threads, share.gpu) for share in shares(4, ["0", "1"], cores=8)]
    [(4, '0'), (4, '1')]
    >>> [(share.threads, share.gpu) for share in shares(3, [], cores=8)]
    [(2, None), (2, None), (2, None)]
    """
    asked = n_jobs if n_jobs is not None and n_jobs > 0 else len(gpus) or cores
    count = max(1, min(asked, len(gpus)) if gpus else asked)
    return [Share(k, max(1, cores // count), gpus[k] if gpus else None) for k in range(count)]


def core_count() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def visible_gpus(environment: Mapping[str, str] | None = None) -> list[str]:
    """The ids of the GPUs that jobs may have: those of CUDA_VISIBLE_DEVICES, else those that the driver lists."""
    given = (os.environ if environment is None else environment).get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name.strip() for name in given.split(",") if name.strip() not in ("", "-1")]
    if shutil.which("nvidia-smi") is None:
        return []
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return listed.stdout.split()


def environment_of(share: Share) -> dict[str, str]:
    """The environment of a worker with this share."""
    variables: dict[str, str] = {name: str(share.threads) for name in _THREAD_VARIABLES}
    if share.gpu is not None:
        variables["CUDA_VISIBLE_DEVICES"] = share.gpu
    variables |= {LAUNCHER_VARIABLE: "processes", JOB_ID_VARIABLE: str(share.worker)}
    return os.environ | variables | {SUBMITTED_CODE_VARIABLE: json.dumps(code_identity())}


class Processes:
    """At most one job a share at a time."""

    def __init__(self, shares: Sequence[Share]) -> None:
        self._shares = shares

    @property
    def workers(self) -> int:
        return len(self._shares)

    def run_jobs(self, jobs: Sequence[Job], progress: Progress) -> None:
        """Runs the jobs until all are over or the sweep is to stop."""
        Pool(progress, self._shares[: len(jobs)]).run(jobs)


class Worker:
    """One process and the job that it runs now, if any. Its answers, and None at its end, come into `answers`."""

    def __init__(self, share: Share, folder: Path, answers: queue.Queue[tuple[Worker, str | None]]) -> None:
        self.share = share
        self.job: Job | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the worker
        self._process = subprocess.Popen(
            [sys.executable, "-m", "src.sweeps.launchers.processes"],
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
        config = job.config
        task = {"config": config.model_dump(), "origins": config.origins, "launch_dir": str(launch_dir)}
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

    def __init__(self, progress: Progress, shares: Sequence[Share]) -> None:
        self._progress = progress
        self._free = deque(shares)
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        self._answers: queue.Queue[tuple[Worker, str | None]] = queue.Queue()
        self._told: int | None = None

    def run(self, jobs: Sequence[Job]) -> None:
        waiting = deque(jobs)
        is_over = False
        try:
            while self._busy or (waiting and not self._progress.is_stopping):
                self._pass_on_signal()
                while waiting and (self._idle or self._free) and not self._progress.is_stopping:
                    self._start(waiting.popleft())
                self._hear()
            is_over = True
        finally:
            for worker in [*self._idle, *self._busy]:
                worker.close(at_once=not is_over)

    def _start(self, job: Job) -> None:
        if not self._idle:
            self._idle.append(Worker(self._free.popleft(), self._progress.launch_dir, self._answers))
        worker = self._idle.pop()
        self._busy.add(worker)
        self._progress.begins(job)
        worker.give(job, self._progress.launch_dir)

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
            self._progress.ends(job, Outcome(**json.loads(line)))
            return
        self._busy.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        self._free.append(worker.share)
        if job is not None:
            self._end_killed(job, WorkerKilled(worker.how_it_ended()))
        worker.close(at_once=True)

    def _end_killed(self, job: Job, error: WorkerKilled) -> None:
        if self._told is not None:  # it was asked to stop before it could say so itself
            self._progress.ends(job, Outcome(STATUS_OF[self._told], str(error)))
            return
        record_ending(job.folder, job.config, job.geometry, "failed", error)
        self._progress.ends(job, Outcome("failed", str(error)))

    def _pass_on_signal(self) -> None:
        number = self._progress.stop.signal_number
        if number is not None and number != self._told:
            self._told = number
            for worker in self._busy:
                worker.tell(number)


def serve() -> None:
    """A worker: serves until standard input ends or a signal comes."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a job prints is no answer
    stop, load = StopFlag(), keep_data()
    with stop:
        inbox = _read_in_background(stop)
        import src.training.run  # noqa: F401  # torch, paid once and before the first job's clock

        while stop.signal_number is None:
            try:
                line = inbox.get(timeout=POLL_S)
            except queue.Empty:
                continue
            if line is None:
                break
            task = json.loads(line)
            config = Config.of(task["config"]).came_from(task["origins"])
            outcome = run_job(config, Path(task["launch_dir"]), stop, load, open_job_sinks)
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
    serve()
