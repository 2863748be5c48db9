"""The journey of a run: its record, its endings, and its exact continuation."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from src.errors import ConfigError, DataError, RunError
from src.record import Record, read_rows
from src.training import loop, measurement
from src.training.checkpoint import load_checkpoint
from src.training.evaluation import Evaluation
from src.training.events import Ended, Event, Logged, Phase, Progress, Saved
from src.training.folder import claim, is_held
from src.training.plan import plan_run
from src.training.run import run
from src.training.stop import StopFlag
from tests.training.conftest import Recorder, RunIt, Tiny, logged, runtime_of


class StopAt:
    """A sink that raises the stop flag when an event of this kind (and step) passes."""

    def __init__(self, flag: StopFlag, kind: type, step: int = 0, name: str = "", after: int = 0) -> None:
        self.flag, self.kind, self.step, self.name, self.after = flag, kind, step, name, after

    def write(self, event: Event) -> None:
        if not isinstance(event, self.kind) or getattr(event, "step", 0) < self.step:
            return
        if isinstance(event, Phase) and (event.name != self.name or self.after > 0):
            self.after -= event.name == self.name
            return
        self.flag.signal_number = signal.SIGTERM

    def close(self) -> None: ...


def weights(folder: Path) -> dict[str, torch.Tensor]:
    content = load_checkpoint(folder)
    assert content is not None
    return content["model"]


def assert_same_run(one: Path, other: Path) -> None:
    assert logged(one) == logged(other)
    for name, tensor in weights(one).items():
        assert torch.equal(tensor, weights(other)[name]), name
    first, second = Record.read(one).summary, Record.read(other).summary
    exact = [name for name in first if name.startswith(("val/", "cost/", "cache/")) or name == "train/tokens"]
    assert len(exact) > 8
    assert {n: first[n] for n in exact} == {n: second[n] for n in exact}
    assert (one / "sample.txt").read_text() == (other / "sample.txt").read_text()


def test_a_finished_run_leaves_a_complete_record(tiny: Tiny, run_it: RunIt) -> None:
    result = run_it(tiny())
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
        *("costs", "summary", "started_at", "ended_at", "error", "segments"),
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
        return Evaluation(next(losses), 10, 0)

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
    tiny: Tiny, run_it: RunIt, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: str
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
    assert_same_run(result.folder, run_it(tiny("group=unbroken")).folder)


def test_a_loss_that_is_not_finite_ends_the_run_as_diverged(tiny: Tiny, run_it: RunIt) -> None:
    result = run_it(tiny("training.learning_rate=1e30", "training.grad_clip=0.0", "model.norm=none"))
    assert result.record.status == "diverged"
    rows = list(read_rows(result.folder))
    assert rows
    assert rows[-1]["train/loss"] != rows[-1]["train/loss"]
    assert result.record.error is not None
    assert "learning_rate" in result.record.error["message"]


@pytest.mark.parametrize(
    ("kind", "step", "name", "after"),
    [
        (loop.Started, 0, "", 0),
        (Progress, 1, "", 0),
        (Progress, 7, "", 0),
        (Phase, 0, "evaluating", 1),
        (Phase, 0, "evaluating", 12),  # in the second evaluation, at a step that is logged too
        (Saved, 8, "", 0),
        (Logged, 12, "", 0),
        (Phase, 0, "measuring", 0),
    ],
)
def test_a_run_stopped_anywhere_goes_on_bit_for_bit(
    tiny: Tiny, run_it: RunIt, kind: type, step: int, name: str, after: int
) -> None:
    config = tiny("model.dropout=0.1", "training.eval_batch_size=8")
    stop = StopFlag()
    stopped = run_it(config, StopAt(stop, kind, step, name, after), stop=stop)
    assert stopped.record.status == "preempted", "the run was not stopped"
    finished = run_it(config)
    assert finished.folder == stopped.folder
    assert finished.record.status == "finished"
    assert [s["segment"] for s in finished.record.segments] == [1, 2]
    assert_same_run(finished.folder, run_it(tiny(*DROPOUT, "group=unbroken")).folder)


DROPOUT = ("model.dropout=0.1", "training.eval_batch_size=8")


def test_stopping_twice_gives_three_segments_and_one_series(tiny: Tiny, run_it: RunIt) -> None:
    for step in (3, 9):
        stop = StopFlag()
        run_it(tiny(), StopAt(stop, Progress, step), stop=stop)
    result = run_it(tiny())
    assert [s["from_step"] for s in result.record.segments] == [0, 3, 9]
    assert_same_run(result.folder, run_it(tiny("group=unbroken")).folder)


def test_a_killed_run_goes_on_from_its_last_checkpoint_and_logs_each_step_once(
    tiny: Tiny, run_it: RunIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        """Passes every handler, as a kill would."""

    class Kill(Recorder):
        def write(self, event: Event) -> None:
            if isinstance(event, Progress) and event.step == 11:
                raise KilledError

    with pytest.raises(KilledError):
        run_it(tiny(), Kill())
    (folder,) = Path(tiny().runs_dir, "single").iterdir()
    assert Record.read(folder).status == "running"
    assert max(logged(folder)) == 10  # two rows beyond the checkpoint of step 8
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 11, "train/lo')  # and a torn line
    result = run_it(tiny())
    assert result.record.segments[-1]["from_step"] == 8
    assert_same_run(folder, run_it(tiny("group=unbroken")).folder)


def test_the_same_command_again_finds_the_run_finished(tiny: Tiny, run_it: RunIt) -> None:
    first, again = run_it(tiny()), run_it(tiny())
    assert again.was_done
    assert again.folder == first.folder
    assert again.record == first.record


def test_another_setting_is_another_run(tiny: Tiny, run_it: RunIt) -> None:
    names = {run_it(tiny(*extra)).folder.name for extra in ([], ["training.max_steps=13"], ["seed=1"], ["heads=2"])}
    assert len(names) == 4


def test_resume_never_makes_a_folder_of_its_own(tiny: Tiny, run_it: RunIt) -> None:
    folders = [run_it(tiny("resume=never")).folder for _ in range(3)]
    assert [f.name.removeprefix(folders[0].name) for f in folders] == ["", "-2", "-3"]
    assert logged(folders[0]) == logged(folders[2])  # the same seed on a CPU: bit for bit
    assert [Record.read(f).run_id for f in folders] == [f.name for f in folders]


def test_a_folder_that_is_being_run_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    plan = plan_run(tiny(), tmp_path)
    held = claim(tmp_path / "runs" / "single", plan.run_id, "auto")
    with pytest.raises(RunError, match="is being run by another process"):
        claim(tmp_path / "runs" / "single", plan.run_id, "auto")
    held.release()
    claim(tmp_path / "runs" / "single", plan.run_id, "auto").release()


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
    real = measurement.GPT.make_cache
    monkeypatch.setattr(measurement.GPT, "make_cache", lambda self, batch, **kw: real(self, batch + 1, **kw))
    result = run_it(tiny())
    assert result.record.status == "failed"
    assert result.record.error is not None
    assert "src/costs.py says" in result.record.error["message"]


def test_only_the_studied_factor_varies_batches_are_the_same_at_every_head_count(tiny: Tiny, tmp_path: Path) -> None:
    from src.training.build import build

    parts = []
    for extra in (["heads=1", "kv_heads=null"], ["heads=4"], ["heads=8", "kv_heads=1"], ["model.d_model=32"]):
        plan = plan_run(tiny(*extra), tmp_path)
        parts.append(build(plan.config, plan.geometry, plan.data, runtime_of(plan), time.perf_counter))
    for step in (0, 7, 100):
        first = parts[0].batches.batch(step)[0]
        assert all(torch.equal(first, p.batches.batch(step)[0]) for p in parts)


def test_the_record_and_the_rows_are_readable_after_a_kill_at_any_moment(tiny: Tiny, tmp_path: Path) -> None:
    config = tiny("training.max_steps=100000", "training.log_interval=1", "training.checkpoint_interval=3")
    script = (
        "import sys, json; from pathlib import Path; from src.config import Config\n"
        "from src.training.run import run; from src.training.plan import plan_run\n"
        "from src.training.stop import StopFlag\n"
        "from src.training.sinks.jsonl import JsonlSink\n"
        "config = Config.of(json.loads(sys.argv[1])); here = Path(sys.argv[2])\n"
        "run(plan_run(config, here), lambda c, f, s: [JsonlSink(f, s)], StopFlag())\n"
    )
    arguments = [sys.executable, "-c", script, json.dumps(config.model_dump()), str(tmp_path)]
    steps, folder = [], tmp_path
    for _ in range(2):
        child = subprocess.Popen(arguments)
        try:
            _wait_for_rows(tmp_path, more_than=max(steps, default=0) + 10, child=child)
        finally:
            child.kill()
            child.wait()
        (folder,) = (tmp_path / "runs" / "single").iterdir()
        assert Record.read(folder).status == "running"
        assert not is_held(folder)
        assert load_checkpoint(folder) is not None
        steps.append(max(logged(folder)))
    assert steps[1] > steps[0]
    assert len([p for p in folder.iterdir() if p.suffix == ".tmp"]) <= 1


def _wait_for_rows(tmp_path: Path, more_than: int, child: subprocess.Popen) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        assert child.poll() is None, "the run ended by itself"
        files = list((tmp_path / "runs").glob("*/*/metrics.jsonl"))
        if files and files[0].read_bytes().count(b"\n") > more_than:
            return
        time.sleep(0.02)
    raise AssertionError("no rows in time")


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
