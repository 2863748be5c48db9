"""What a job may touch in the process that it shares with others is put back after it."""

from __future__ import annotations

import gc
import logging
import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from src.training.stop import StopFlag


@contextmanager
def guard(stop: StopFlag) -> Iterator[None]:
    """Restores environment, working folder, signal handlers, log handlers, global random states and torch's modes.

    Memory that the job left in reference cycles, as a traceback does, is freed too. Signal handlers stay as they are
    once `stop` was raised: it has then put back those from before the sweep.
    """
    environment, folder = dict(os.environ), os.getcwd()
    handlers = _signal_handlers()
    logs = {logger: (logger.level, list(logger.handlers)) for logger in (logging.root, logging.getLogger("headcount"))}
    states = _RandomStates()
    modes = _torch_modes()
    try:
        yield
    finally:
        _restore_environment(environment)
        with suppress(OSError):
            os.chdir(folder)
        if stop.signal_number is None:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        for logger, (level, kept) in logs.items():
            _close_handlers(logger, kept)
            logger.setLevel(level)
        states.restore()
        _set_torch_modes(modes)
        _free_memory()


def _restore_environment(before: dict[str, str]) -> None:
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)


def _signal_handlers() -> dict[int, Any]:
    if threading.current_thread() is not threading.main_thread():
        return {}
    names = {"SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGHUP"} & set(signal.Signals.__members__)
    found = {signal.Signals[name]: signal.getsignal(signal.Signals[name]) for name in names}
    return {number: handler for number, handler in found.items() if handler is not None}


def _close_handlers(logger: logging.Logger, kept: list[logging.Handler]) -> None:
    for handler in list(logger.handlers):
        if handler not in kept:
            logger.removeHandler(handler)
            handler.close()


class _RandomStates:
    """The global generators that somebody else's code may draw from; our own streams are all named."""

    def __init__(self) -> None:
        self._python = random.getstate()
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        self._numpy = numpy.random.get_state() if numpy else None
        self._torch = torch.get_rng_state() if torch else None

    def restore(self) -> None:
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        if self._torch is not None:
            sys.modules["torch"].set_rng_state(self._torch)


def _torch_modes() -> tuple[Any, ...] | None:
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    return torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()


def _set_torch_modes(modes: tuple[Any, ...] | None) -> None:
    if modes is None:
        return
    torch = sys.modules["torch"]
    threads, dtype, gradient = modes
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    torch.set_default_dtype(dtype)
    torch.set_grad_enabled(gradient)


def _free_memory() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
