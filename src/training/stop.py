"""Being asked to stop: a signal raises a flag, the run looks at it between two pieces of work."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from src.errors import Stopped
from src.record import Status

STATUS_OF: dict[int, Status] = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "preempted",
    # Clusters announce a preemption or the end of the time with one of these.
    **({signal.SIGUSR1: "preempted", signal.SIGUSR2: "preempted"} if hasattr(signal, "SIGUSR1") else {}),
}


class StopFlag:
    """Set by the first signal; a second one of the same kind does what it always did.

    Handlers are installed while used as a context, in the main thread only, and are put back afterwards.
    """

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopFlag:
        if threading.current_thread() is threading.main_thread():
            for number in STATUS_OF:
                self._before[number] = signal.signal(number, self._raise_flag)
        return self

    def __exit__(self, *error: object) -> None:
        self._restore()

    def check(self) -> None:
        """Raises Stopped once a signal came."""
        if self.signal_number is not None:
            raise Stopped(self.signal_number)

    def _raise_flag(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = number
        self._restore()

    def _restore(self) -> None:
        while self._before:
            signal.signal(*self._before.popitem())
