"""What can go wrong through no fault of the code: each error says what was got, the rule and the way out.

How a command ends: 0 finished, 1 failed, 2 something is wrong with what was asked, 130 interrupted, 143 preempted.
"""

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from typing import NoReturn

EXIT_CODES = {"finished": 0, "interrupted": 130, "preempted": 143}
"""By the status of a run; every status that is not named here has 1."""


def exit_code(status: str) -> int:
    """What a command ends with whose run ended like this.

    >>> exit_code("finished"), exit_code("preempted"), exit_code("oom")
    (0, 143, 1)
    """
    return EXIT_CODES.get(status, 1)


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


def fail(error: UserError) -> NoReturn:
    """Ends the program with `error: ...` on standard error instead of a traceback, and the exit code of the error."""
    print(f"error: {error}", file=sys.stderr)
    raise SystemExit(error.exit_code)


def one_line(kind: str, message: str) -> str:
    r"""An error's type and the first line of its message.

    >>> one_line("ValueError", "no luck\nat all"), one_line("MemoryError", "")
    ('ValueError: no luck', 'MemoryError')
    """
    first = message.strip().splitlines()
    return f"{kind}: {first[0]}" if first else kind


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type where it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The tail of an error about an unknown name: a near name, or nothing.

    >>> did_you_mean("head", ["heads", "seed"])
    "; did you mean 'heads'?"
    >>> did_you_mean("zebra", ["heads", "seed"])
    ''
    """
    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
