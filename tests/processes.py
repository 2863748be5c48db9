"""Processes for tests, forked from one that has imported torch already: to start anew takes seconds each time."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing.context import TimeoutError as TooLate
from pathlib import Path

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["src.training.run", "torch._dynamo", "src.sweeps.run", "src.sweeps.status"])


class Forked:
    """A function in a process and a process group of its own; its output goes to a file. As `subprocess.Popen`."""

    def __init__(
        self,
        function: Callable[..., None],
        *arguments: object,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        descriptor, self._output = tempfile.mkstemp(suffix=".txt")
        os.close(descriptor)
        environment = dict(os.environ if env is None else env)
        self._process = _forks.Process(
            target=_inside, args=(function, arguments, self._output, str(cwd or Path.cwd()), environment)
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        self._process.join(0)
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TooLate(f"still running after {timeout} s:\n{self.output}")
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    @property
    def output(self) -> str:
        """What it has printed so far, errors included."""
        return Path(self._output).read_text(encoding="utf-8")


def run_module(name: str, *words: str) -> None:
    """`python -m name words...`"""
    sys.argv[1:] = words
    sys.modules.pop(name, None)
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _inside(
    function: Callable[..., None], arguments: tuple[object, ...], output: str, cwd: str, environment: Mapping[str, str]
) -> None:
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    file = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    try:
        function(*arguments)
    finally:
        sys.stdout.flush()
