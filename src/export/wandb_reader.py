"""A project on a W&B server as a source: the full history, asked for again, and marked where it stays partial."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from src.errors import RunError
from src.export.source import LeftOut, ReadRun, Source
from src.export.wandb_records import record_of, rows_of

ATTEMPTS = 5
FIRST_WAIT_S = 1.0
Result = TypeVar("Result")
Sleep = Callable[[float], None]


class Api(Protocol):
    """The part of wandb.Api that is used."""

    def runs(self, path: str, filters: dict[str, Any] | None = None) -> Any: ...


def read_project(path: str, group: str | None = None, api: Api | None = None, sleep: Sleep = time.sleep) -> Source:
    """Every run of `<entity>/<project>`, of one group if named.

    A run that stays unreadable after ATTEMPTS is left out, and the source says that it is partial. Raises
    RunError where the server cannot be asked or the project holds no run.
    """
    found = api if api is not None else _api()
    filters = {"group": group} if group else None
    partial: list[str] = []
    try:
        listed = retried(lambda: list(found.runs(path, filters=filters)), sleep)
    except Exception as error:
        raise RunError(f"W&B's server does not list the runs of {path}: {_line(error)}") from None
    if not listed:
        raise RunError(f"the W&B project {path} has no runs" + (f" in group {group}" if group else ""))
    runs: dict[str, ReadRun] = {}
    left_out = []
    for run in listed:
        try:
            read = retried(lambda run=run: _read(run), sleep)
        except RunError as error:
            left_out.append(LeftOut(str(run.id), str(error)))
        except Exception as error:
            left_out.append(LeftOut(str(run.id), f"not read after {ATTEMPTS} attempts: {_line(error)}"))
            partial.append(str(run.id))
        else:
            if read.record.run_id in runs:
                left_out.append(LeftOut(str(run.id), f"a second W&B run of {read.record.run_id}"))
            else:
                runs[read.record.run_id] = read
                partial.extend([str(run.id)] if read.notes else [])
    reason = f"{len(partial)} of {len(listed)} runs could not be read whole: {', '.join(partial)}" if partial else None
    return Source("wandb server", f"{path}/{group}" if group else path, list(runs.values()), left_out, None, reason)


def retried(call: Callable[[], Result], sleep: Sleep, attempts: int = ATTEMPTS) -> Result:
    """The call's result; tried again after 1, 2, 4, ... seconds. A RunError is no trouble of the server: not again."""
    for attempt in range(attempts - 1):
        try:
            return call()
        except RunError:
            raise
        except Exception:
            sleep(FIRST_WAIT_S * 2**attempt)
    return call()


def _read(run: Any) -> ReadRun:
    # `run.history()` draws about 500 rows, others at each call; `scan_history` gives all of them.
    rows = rows_of(run.scan_history())
    record = record_of(dict(run.config), run.summary, run.state, str(run.created_at))
    last = getattr(run, "lastHistoryStep", None)
    seen = max((row["step"] for row in rows), default=-1)
    cut = isinstance(last, int) and last > seen
    return ReadRun(record, rows, str(run.id), (f"history ends at step {seen} of {last}",) if cut else ())


def _api() -> Api:
    try:
        import wandb
    except ImportError:
        raise RunError("wandb is not installed; it is needed to read from its server") from None
    try:
        return wandb.Api(timeout=30)
    except Exception as error:
        raise RunError(f"W&B's server cannot be asked: {_line(error)}; log in with `wandb login`") from None


def _line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
