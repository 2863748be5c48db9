"""The W&B mirror as training sees it: a few lines to a child process, and one bounded wait at the end.

wandb is never imported here: its start-up, its network and its crashes stay out of the training process. The
child (`src.training.sinks.wandb_mirror`) follows metrics.jsonl by itself; it is kept for the next run of this
process, so a sweep pays its imports once.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from src import ROOT
from src.config import LoggerConfig
from src.record import encode
from src.training.events import Ended, Event, Logged, Started
from src.training.sinks.console import path_to_type
from src.training.sinks.wandb_mirror import lines_of, read_outcome, write_outcome

MIRROR = "src.training.sinks.wandb_mirror"


class WandbSink:
    """Mirrors one run. Costs training nothing while it runs and at most `logger.timeout_s` at its end.

    Made early, so that the child's imports run beside those of training. Troubles are one line to `say` and stand
    in `outcome`, never an exception:

        state      online, offline (also: fell back, with a reason), incomplete (the end was cut off), failed,
                   absent (wandb is not installed)
        reason     why it is not what was asked, or None
        later      the command that mirrors this run after the fact, where that is needed; or None
        id, url, directory, rows      where the run is in W&B, and how many rows went there
    """

    def __init__(self, logger: LoggerConfig, folder: Path, say: Callable[[str], None]) -> None:
        self._logger, self._folder, self._say = logger, folder, say
        self._has_begun = self._has_ended = False
        self._child: MirrorProcess | None = None
        self.outcome: dict[str, Any] = dict.fromkeys(("state", "reason", "later", "id", "url", "directory"))
        self.outcome["rows"] = 0
        if not _is_installed():
            self.outcome |= {"state": "absent", "reason": "wandb is not installed"}
            say("W&B: wandb is not installed; training goes on without it (logger=disabled says no more of it)")
            return
        variable = os.environ.get("WANDB_MODE")
        if variable not in (None, logger.mode):
            say(f"W&B: logger.mode={logger.mode} decides; WANDB_MODE={variable} is not read")
        try:
            self._child = take_process()
        except OSError as error:
            self._settle({"state": "failed", "reason": f"its process does not start: {error}"})

    def write(self, event: Event) -> None:
        if self._child is None:
            return
        match event:
            case Started():
                self._begin(self._child)
            case Logged():
                self._note(self._child.answer(0))
            case Ended():
                self._end(self._child, event.record.status, event.record.summary)

    def close(self) -> None:
        """Ends what no `Ended` has ended, as the record says, and gives the child back."""
        child = self._child
        if child is None:
            return
        if self._has_begun and not self._has_ended:
            self._end(child, None, None)
        self._child = None
        is_usable = not self._has_begun or self.outcome["state"] in ("online", "offline")
        give_back(child) if is_usable else child.kill()

    def _begin(self, child: MirrorProcess) -> None:
        self._has_begun = True
        child.send({"start": {"folder": str(self._folder.absolute()), "logger": self._logger.model_dump()}})

    def _end(self, child: MirrorProcess, status: str | None, summary: Mapping[str, Any] | None) -> None:
        if not self._has_begun:  # failed before its first step: W&B shows it as failed, not as absent
            self._begin(child)
        self._has_ended = True
        deadline = time.monotonic() + self._logger.timeout_s
        child.send({"end": {"status": status, "summary": encode(summary)}})
        while True:
            answer = child.answer(max(0.0, deadline - time.monotonic()))
            self._note(answer)
            if answer is None or answer["ended"]:
                break
        if answer is None:
            limit = f"it did not finish within logger.timeout_s={self._logger.timeout_s:g}"
            reason = limit if time.monotonic() >= deadline else "its process ended early; see wandb/mirror.log"
            child.kill()
            answer = {**read_outcome(self._folder), "state": "incomplete", "reason": reason}
        self._settle(answer)

    def _note(self, answer: Mapping[str, Any] | None) -> None:
        """Passes on, once and when it becomes known, that a run is not where it was asked to be."""
        reason = answer and answer.get("reason")
        if answer is not None and reason and reason != self.outcome["reason"]:
            self.outcome |= {"state": answer["state"], "reason": reason}
            self._say(f"W&B: {answer['state']}, {reason}")

    def _settle(self, outcome: Mapping[str, Any]) -> None:
        is_asked_for = outcome["state"] == self._logger.mode
        said = self.outcome["reason"]
        self.outcome |= {name: value for name, value in outcome.items() if name != "ended"}
        if is_asked_for:
            self._say(f"W&B: {outcome['url']}" if outcome["url"] else f"W&B: {outcome['state']}, {self._sync()}")
            return
        self.outcome["later"] = f"python -m {MIRROR} {shlex.quote(str(self._folder))} --mode {self._logger.mode}"
        if outcome["reason"] != said:
            self._say(f"W&B: {outcome['state']}, {outcome['reason']}")
        self._say(f"W&B: to mirror this run later: {self.outcome['later']}")
        with suppress(OSError):
            write_outcome(self._folder, self.outcome)

    def _sync(self) -> str:
        return f"to send it: wandb sync {path_to_type(self._folder / self.outcome['directory'])}"


class MirrorProcess:
    """The child, and the two pipes to it. Neither call blocks longer than asked, nor raises when it is gone."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", MIRROR, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=child_environment(),
            start_new_session=True,  # Ctrl-C is for training, which then tells the child how it ended
        )
        assert self._process.stdout is not None
        self._answers = lines_of(self._process.stdout)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, command: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # gone: `answer` says so
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()

    def answer(self, timeout_s: float) -> dict[str, Any] | None:
        """The next answer; None if none came in time or none can come any more."""
        try:
            line = self._answers.get(timeout=timeout_s) if timeout_s > 0 else self._answers.get_nowait()
        except queue.Empty:
            return None
        if line is None:
            self._answers.put(None)
            return None
        return json.loads(line)

    def dismiss(self) -> None:
        """Lets the child end by itself; it has nothing open."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5.0)

    def kill(self) -> None:
        """Ends the child and all that it started, which includes wandb's own service."""
        import psutil

        with suppress(psutil.NoSuchProcess):
            for descendant in psutil.Process(self._process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    descendant.kill()
        self._process.kill()
        self.dismiss()


_idle: list[MirrorProcess] = []


def take_process() -> MirrorProcess:
    """The idle child of this process, or a new one. Raises OSError where none can be started."""
    while _idle:
        child = _idle.pop()
        if child.owner == os.getpid() and child.is_alive:
            return child
    return MirrorProcess()


def give_back(child: MirrorProcess) -> None:
    """Keeps a child for the next run; a second one is let go."""
    if _idle:
        child.dismiss()
    else:
        _idle.append(child)


@atexit.register
def dismiss_idle() -> None:
    """Lets the idle child end."""
    while _idle:
        child = _idle.pop()
        if child.owner == os.getpid():
            child.dismiss()


def _is_installed() -> bool:
    spec = find_spec("wandb")
    return spec is not None and spec.origin is not None  # a folder wandb/ with run files is no package


def child_environment() -> dict[str, str]:
    """The user's environment (address, key, proxies), without what would mix this run with another.

    logger.mode decides whether anything leaves the machine, not WANDB_MODE; a run id is only taken from a
    W&B agent.
    """
    foreign = {"WANDB_MODE", "WANDB_RESUME", "WANDB_SERVICE", "WANDB_DIR"}
    if "WANDB_SWEEP_ID" not in os.environ:
        foreign.add("WANDB_RUN_ID")
    kept = {name: value for name, value in os.environ.items() if name not in foreign}
    kept.setdefault("WANDB_ERROR_REPORTING", "false")
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return kept
