from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from src.errors import RunError
from src.export.read import read_group
from src.export.wandb_runs import ATTEMPTS, read_project
from src.export.write import write_export
from src.record import Record, encode
from tests.export.conftest import MakeRun, read

NOT_MIRRORED = ["ended_at", "segments", "error"]


@dataclass
class FakeRun:
    """A run as wandb.Api gives it; it fails so often before it answers."""

    id: str
    config: dict[str, Any]
    summary: dict[str, Any]
    rows: list[dict[str, Any]]
    state: str = "finished"
    failures: int = 0
    created_at: str = "2026-01-01T00:00:00Z"
    lastHistoryStep: int | None = None  # noqa: N815  (wandb's name)
    scans: int = field(default=0)

    def history(self, **_: Any) -> None:
        raise AssertionError("history() draws a sample; scan_history() gives all rows")

    def scan_history(self) -> Iterator[dict[str, Any]]:
        self.scans += 1
        yield from self.rows[:3]
        if self.failures:
            self.failures -= 1
            raise ConnectionError("429 rate limit exceeded")
        yield from self.rows[3:]

    @classmethod
    def mirrored(cls, record: Record, rows: list[dict[str, Any]], **changes: Any) -> "FakeRun":
        identity = {
            "run_id": record.run_id,
            "config_hash": record.config_hash,
            "code": record.code,
            "corpus": record.data,
            "started_at": record.started_at,
        }
        parts = {"geometry": record.geometry, "costs": record.costs, "environment": record.environment}
        summary = {name: value for name, value in encode(record.summary).items() if value is not None}
        history = [encode({"_step": row["step"], "_timestamp": row["time"], **row}) for row in rows]
        return cls(
            id=record.run_id,
            config={**record.config, **parts, "identity": identity},
            summary={**summary, "status": record.status, "train/loss": 9.0},
            rows=history,
            **changes,
        )


class FakeApi:
    def __init__(self, runs: list[FakeRun], failures: int = 0) -> None:
        self.listed, self.failures, self.filters = runs, failures, None

    def runs(self, path: str, filters: dict[str, Any] | None = None) -> list[FakeRun]:
        self.filters = filters
        if self.failures:
            self.failures -= 1
            raise ConnectionError("502")
        return self.listed


def fake_runs(make_run: MakeRun, count: int, steps: int = 4) -> list[FakeRun]:
    made = []
    for seed in range(count):
        rows = [{"step": s, "time": float(s), "train/loss": 3.0 - s / 1000} for s in range(1, steps + 1)]
        made.append(FakeRun.mirrored(make_run("heads=8", seed=seed, rows=rows), rows))
    return made


def no_sleep(_: float) -> None:
    """Waits for nothing."""


def test_the_full_history_is_read_and_the_same_at_every_reading(make_run: MakeRun) -> None:
    (run,) = fake_runs(make_run, 1, steps=2000)
    first, second = (read_project("me/p", api=FakeApi([run]), sleep=no_sleep).runs[0].rows for _ in range(2))
    assert [row["step"] for row in first] == list(range(1, 2001))
    assert first == second


def test_the_tables_are_those_of_the_local_records(make_run: MakeRun, group: Path, tmp_path: Path) -> None:
    rows = [{"step": 1, "time": 2.0, "train/loss": float("nan")}, {"step": 2, "time": 3.0, "val/loss": 2.0}]
    fakes = [
        FakeRun.mirrored(make_run("heads=8", "kv_heads=2", rows=rows), rows),
        FakeRun.mirrored(make_run("heads=4", rows=rows, status="diverged"), rows, state="crashed"),
    ]
    write_export(read_group(group), tmp_path / "local")
    write_export(read_project("me/p", api=FakeApi(fakes), sleep=no_sleep), tmp_path / "online")
    for name, but in (("runs", NOT_MIRRORED), ("steps", ["segment"])):
        local, online = (read(tmp_path / place, name).drop(columns=but) for place in ("local", "online"))
        pd.testing.assert_frame_equal(local, online)


def test_a_run_that_fails_is_read_again_and_the_rest_goes_on(make_run: MakeRun) -> None:
    runs = fake_runs(make_run, 10)
    runs[6].failures = 2
    waited: list[float] = []
    source = read_project("me/p", api=FakeApi(runs, failures=1), sleep=waited.append)
    assert len(source.runs) == 10
    assert [len(run.rows) for run in source.runs] == [4] * 10
    assert (source.partial, runs[6].scans, waited) == (None, 3, [1.0, 1.0, 2.0])


def test_an_export_that_stays_partial_says_so(make_run: MakeRun, tmp_path: Path) -> None:
    runs = fake_runs(make_run, 10)
    runs[6].failures = 99
    runs[8].lastHistoryStep = 400
    source = read_project("me/p", api=FakeApi(runs), sleep=no_sleep)
    manifest = write_export(source, tmp_path / "out")
    assert manifest["counts"]["exported"] == 9
    assert runs[6].scans == ATTEMPTS
    assert manifest["partial"].startswith("2 of 10 runs could not be read whole: h8-kv8-s6, h8-kv8-s8")
    assert "429" in manifest["left_out"][0]["reason"]


def test_a_run_of_another_program_is_left_out_and_makes_nothing_partial(make_run: MakeRun) -> None:
    runs = [*fake_runs(make_run, 1), FakeRun("other", {"lr": 1}, {}, [])]
    source = read_project("me/p", group="some", api=(api := FakeApi(runs)), sleep=no_sleep)
    assert (len(source.runs), source.partial, api.filters) == (1, None, {"group": "some"})
    assert "not logged by headcount" in source.left_out[0].reason


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("crashed", "killed"),
        ("killed", "killed"),
        ("running", "running"),
        ("finished", "finished"),
        ("failed", "failed"),
    ],
)
def test_without_its_own_word_a_run_ended_as_the_server_says(make_run: MakeRun, state: str, status: str) -> None:
    (run,) = fake_runs(make_run, 1)
    del run.summary["status"]
    run.state = state
    assert read_project("me/p", api=FakeApi([run]), sleep=no_sleep).runs[0].record.status == status


def test_a_server_that_does_not_answer_is_one_sentence() -> None:
    with pytest.raises(RunError, match="does not list the runs of me/p: 502"):
        read_project("me/p", api=FakeApi([], failures=99), sleep=no_sleep)
    with pytest.raises(RunError, match="has no runs in group x"):
        read_project("me/p", group="x", api=FakeApi([]), sleep=no_sleep)
