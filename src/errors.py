"""What can go wrong through no fault of the code: each error says what was got, the rule and the way out."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """A mistake that its user can mend; shown as one line, without a traceback."""

    exit_code = 2


class ConfigError(UserError):
    """A setting that is unknown, ill-typed, out of range or at odds with another."""


class DataError(UserError):
    """A corpus, vocabulary or prompt that cannot be used as asked."""


class RunError(UserError):
    """A run folder, checkpoint or record that cannot be used as asked."""


class RunHeld(RunError):
    """A run folder that another living process holds."""


class Diverged(ArithmeticError):
    """The loss or the gradient stopped being a finite number."""


class Stopped(BaseException):
    """The run was asked to stop (a signal); not an error, so it passes `except Exception`."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by signal {signal_number}")
        self.signal_number = signal_number


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The tail of an error about an unknown name: a near name, or nothing.

    >>> did_you_mean("head", ["heads", "seed"])
    "; did you mean 'heads'?"
    >>> did_you_mean("zebra", ["heads", "seed"])
    ''
    """
    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
