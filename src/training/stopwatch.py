"""Training speed: tokens over seconds, with warm-up, evaluation and saving left out of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

WARMUP_STEPS = 10
"""Steps after each start (first use of memory, kernel choice, compilation) that are not timed."""


def rate(count: float, seconds: float) -> float | None:
    """So many a second; null where no time passed (a clock may be coarse, or jump)."""
    return count / seconds if seconds > 0 else None


@dataclass
class Tally:
    """What was timed so far."""

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float | None:
        return rate(self.tokens, self.seconds)


class Stopwatch:
    """Counts tokens while it runs. The device is synchronised where time is read, and nowhere else."""

    def __init__(
        self,
        clock: Callable[[], float],
        synchronise: Callable[[], None],
        total: Tally | None = None,
        warmup_steps: int = WARMUP_STEPS,
    ) -> None:
        self._clock, self._synchronise = clock, synchronise
        self._warmup_left = warmup_steps
        self._since: float | None = None
        self._steps = self._tokens = 0
        self.total, self.interval = total if total is not None else Tally(), Tally()

    def start(self) -> None:
        """Time counts from now."""
        self._synchronise()
        self._since = self._clock()

    def step(self, tokens: int) -> None:
        """One step of so many tokens was asked of the device."""
        if self._warmup_left:
            self._warmup_left -= 1
            if not self._warmup_left:
                self.start()
            return
        self._steps += 1
        self._tokens += tokens

    def lap(self) -> None:
        """Adds what ran since the last reading to the tallies."""
        if self._since is None or not self._steps:
            return
        self._synchronise()
        now = self._clock()
        for tally in (self.total, self.interval):
            tally.steps += self._steps
            tally.tokens += self._tokens
            tally.seconds += now - self._since
        self._since, self._steps, self._tokens = now, 0, 0

    def stop(self) -> None:
        """Time does not count until the next start."""
        self.lap()
        self._since = None

    def take_interval(self) -> Tally:
        """The tally since the last call."""
        self.lap()
        taken, self.interval = self.interval, Tally()
        return taken
