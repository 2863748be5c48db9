"""The journey of a run: its record and its endings."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch

from src.errors import ConfigError, DataError
from src.record import Record, read_rows
from src.run_status import is_held
from src.training import loop, measure
from src.training.events import Ended, Event, Phase, Progress, Saved
from src.training.plan import plan_run
from src.training.run import run
from src.training.stop import StopFlag
from tests.training.conftest import Recorder, RunIt, Tiny, Trained, assert_same_run, runtime_of


def test_a_finished_run_leaves_a_complete_record(trained: Trained) -> None:
    result = trained()
    record = Record.read(result.folder)
    assert record.status == "finished"
    assert record.error is None
    assert record.ended_at is not None
    assert record.geometry["heads"] == 4
    assert record.geometry["kv_heads"] == 2
    assert record.geometry["head_dim"] == 4
    assert record.summary["cache/bytes"] == 2 * 2 * 4 * 2 * 16 * 4 == record.costs["cache_bytes"]
    assert record.summary["train/tokens"] == 12 * 4 * 16
    assert (record.summary["decode/ms_per_token"] or 0) > 0
    assert (record.summary["memory/peak_bytes"] or 0) > 1_000_000
    assert record.summary["train/mfu"] is None
    assert {"commit", "uncommitted_hash", "source_hash"} <= record.code.keys()
    assert record.environment["dtype"] == "float32"
    assert record.environment["threads"] == 1
    assert record.environment["attention_kernel"].startswith("fused:")
    assert record.environment["decode_attention_kernel"] == "folded"
    names = {path.name for path in result.folder.iterdir()}
    assert {"record.json", "config.yaml", "metrics.jsonl", "log.txt", "checkpoint.pt", "sample.txt"} <= names
    raw = json.loads((result.folder / "record.json").read_text())
    assert set(raw) == {
        *("schema_version", "run_id", "status", "config", "config_hash", "code", "data", "environment", "geometry"),
        *("costs", "summary", "started_at", "ended_at", "error", "segments", "origins"),
    }  # fmt: skip


def test_steps_are_logged_exactly_when_they_are_due_and_once(tiny: Tiny, run_it: RunIt) -> None:
    result = run_it(tiny("training.log_interval=4", "training.eval_interval=7", "training.max_steps=15"))
    rows = list(read_rows(result.folder))
    assert [row["step"] for row in rows if "train/loss" in row] == [4, 8, 12, 15]
    assert [row["step"] for row in rows if "val/loss" in row] == [7, 14, 15]
    assert [row["step"] for row in rows] == sorted({row["step"] for row in rows})


def test_best_and_last_validation_losses_come_with_their_steps(
    tiny: Tiny, run_it: RunIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([2.0, 1.0, 3.0])

    def fake(*_: object):
        yield Phase("evaluating", 0, 1)
        return loop.Evaluation(next(losses), 10, 0)

    monkeypatch.setattr(loop, "evaluate", fake)
    summary = run_it(tiny()).record.summary  # evaluated at 5, 10 and 12
    assert (summary["val/loss"], summary["val/loss_best"], summary["val/loss_best_step"]) == (3.0, 1.0, 10)


def test_the_record_says_running_before_the_first_step(tiny: Tiny, run_it: RunIt, tmp_path: Path) -> None:
    seen = []

    class Look(Recorder):
        def write(self, event: Event) -> None:
            if isinstance(event, Progress) and event.step == 1:
                (folder,) = (tmp_path / "runs" / "single").iterdir()
                seen.append(Record.read(folder).status)
                seen.append(is_held(folder))

    run_it(tiny(), Look())
    assert seen == ["running", True]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("broken"), "failed"),
        (torch.OutOfMemoryError("CUDA out of memory"), "oom"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes"), "oom"),
        (MemoryError(), "oom"),
        (SystemExit(0), "failed"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_every_ending_is_classed_and_recorded_and_can_be_continued(
    tiny: Tiny,
    run_it: RunIt,
    trained: Trained,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: str,
) -> None:
    step = loop.Trainer.step

    def failing(self: loop.Trainer, number: int, *rest: torch.Tensor) -> object:
        if number == 9:
            raise error
        return step(self, number, *rest)  # pyright: ignore[reportArgumentType]

    recorder = Recorder()
    with monkeypatch.context() as patch:
        patch.setattr(loop.Trainer, "step", failing)
        result = run_it(tiny(), recorder)
    record = Record.read(result.folder)
    assert record.status == status
    assert record.error is not None
    assert record.error["type"] == type(error).__name__
    assert "failing" in record.error["traceback"]
    assert isinstance(recorder.events[-1], Ended)
    if status != "interrupted":
        assert "Traceback" in (result.folder / "log.txt").read_text()
    assert run_it(tiny()).record.status == "finished"
    assert_same_run(result.folder, trained().folder)


def test_a_loss_that_is_not_finite_ends_the_run_as_diverged(tiny: Tiny, run_it: RunIt) -> None:
    result = run_it(tiny("training.learning_rate=1e30", "training.grad_clip=0.0", "model.norm=none"))
    assert result.record.status == "diverged"
    rows = list(read_rows(result.folder))
    assert rows
    assert rows[-1]["train/loss"] != rows[-1]["train/loss"]
    assert result.record.error is not None
    assert "learning_rate" in result.record.error["message"]


def test_another_setting_is_another_run(tiny: Tiny, tmp_path: Path) -> None:
    changes = ([], ["training.max_steps=13"], ["seed=1"], ["heads=2"])
    names = {plan_run(tiny(*extra), tmp_path).run_id for extra in changes}
    assert len(names) == 4


def test_run_names_are_safe_and_short_whatever_the_settings(tiny: Tiny, tmp_path: Path) -> None:
    odd = tmp_path / ("a b=c[1],d" + "x" * 200)
    odd.write_text("hello world, " * 400, encoding="utf-8")
    names = {
        plan_run(tiny(f'data.path="{odd}"', f'model.name="{name}"'), tmp_path).run_id
        for name in ("a/b c=[1],d", "a/b c=[1],e", "y" * 300)
    }
    assert len(names) == 3
    for name in names:
        assert len(name) < 255
        assert all(c.isalnum() or c == "-" for c in name), name


def test_a_corpus_is_known_by_its_content_not_by_its_place(tiny: Tiny, tmp_path: Path) -> None:
    text = (tmp_path / "text.txt").read_text()
    (tmp_path / "copy.txt").write_text(text)
    (tmp_path / "other.txt").write_text(text.replace("heads", "tails"))
    ids = [
        plan_run(tiny(f"data.path={path}"), tmp_path).run_id
        for path in ("text.txt", "copy.txt", f"{tmp_path}/copy.txt", "other.txt")
    ]
    assert ids[0] == ids[1] == ids[2] != ids[3]


@pytest.mark.parametrize(
    ("overrides", "error", "words"),
    [
        (["context_length=2000"], DataError, "context_length=2000 needs at least 2,001"),
        (["device=cuda:99"], ConfigError, "device=cuda:99"),
        (["device=cpu", "training.dtype=float16"], ConfigError, "float16"),
        (
            ["attention_kernel=flash", "model.dropout=0.1", "device=cpu"],
            ConfigError,
            "attention_kernel=flash cannot run",
        ),
        (["data.path=nowhere.txt"], DataError, "nowhere.txt"),
    ],
)
def test_what_cannot_be_run_is_refused_before_a_folder_is_made(
    tiny: Tiny, run_it: RunIt, tmp_path: Path, overrides: list[str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        run_it(tiny(*overrides))
    assert not (tmp_path / "runs").exists()


def test_a_cache_that_is_not_what_the_costs_say_fails_the_run(
    tiny: Tiny, run_it: RunIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = measure.GPT.make_cache
    monkeypatch.setattr(measure.GPT, "make_cache", lambda self, batch, **kw: real(self, batch + 1, **kw))
    result = run_it(tiny())
    assert result.record.status == "failed"
    assert result.record.error is not None
    assert "src/costs.py says" in result.record.error["message"]


def test_only_the_studied_factor_varies_batches_are_the_same_at_every_head_count(tiny: Tiny, tmp_path: Path) -> None:
    from src.training.build import build

    parts = []
    for extra in (["heads=1", "kv_heads=null"], ["heads=4"], ["heads=8", "kv_heads=1"], ["model.d_model=32"]):
        plan = plan_run(tiny(*extra), tmp_path)
        parts.append(build(plan, runtime_of(plan), time.perf_counter))
    for step in (0, 7, 100):
        first = parts[0].batches.batch(step)[0]
        assert all(torch.equal(first, p.batches.batch(step)[0]) for p in parts)


def test_the_speed_of_a_run_leaves_out_evaluation_saving_and_warm_up(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SlowWorld(Recorder):
        """Half a second a step, but for slow first ones; evaluations and saves take very long."""

        now = 16_000.0

        def write(self, event: Event) -> None:
            self.now += 100.0 if isinstance(event, Phase | Saved) else 0.0

    world, step = SlowWorld(), loop.Trainer.step

    def slow(self: loop.Trainer, number: int, *rest: torch.Tensor) -> object:
        world.now += 0.5 if number > 3 else 50.0
        return step(self, number, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(loop.Trainer, "step", slow)
    plan = plan_run(
        tiny("training.max_steps=40", "training.checkpoint_interval=8", "training.eval_interval=7"), tmp_path
    )
    record = run(plan, lambda *_: [world], StopFlag(), clock=lambda: world.now).record
    assert record.status == "finished", record.error
    assert record.summary["train/timed_steps"] == 30
    assert record.summary["train/timed_seconds"] == 15.0
    assert record.summary["train/tokens_per_second"] == 30 * 64 / 15.0
