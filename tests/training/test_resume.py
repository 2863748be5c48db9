"""A run goes on exactly where it stopped, and never twice at once."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from src.errors import RunError
from src.record import Record
from src.run_status import is_held
from src.training import loop
from src.training.checkpoint import load_checkpoint
from src.training.events import Event, Logged, Phase, Progress, Saved
from src.training.folder import claim
from src.training.plan import plan_run
from src.training.stop import StopFlag
from tests.processes import Forked, run_module
from tests.training.conftest import TEXT, TINY, Recorder, RunIt, Tiny, Trained, assert_same_run, logged


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
    tiny: Tiny, run_it: RunIt, trained: Trained, kind: type, step: int, name: str, after: int
) -> None:
    overrides = ("model.dropout=0.1", "training.eval_batch_size=8")
    config = tiny(*overrides)
    stop = StopFlag()
    stopped = run_it(config, StopAt(stop, kind, step, name, after), stop=stop)
    assert stopped.record.status == "preempted", "the run was not stopped"
    finished = run_it(config)
    assert finished.folder == stopped.folder
    assert finished.record.status == "finished"
    assert [s["segment"] for s in finished.record.segments] == [1, 2]
    assert_same_run(finished.folder, trained(*overrides).folder)


def test_stopping_twice_gives_three_segments_and_one_series(tiny: Tiny, run_it: RunIt, trained: Trained) -> None:
    for step in (3, 9):
        stop = StopFlag()
        run_it(tiny(), StopAt(stop, Progress, step), stop=stop)
    result = run_it(tiny())
    assert [s["from_step"] for s in result.record.segments] == [0, 3, 9]
    assert_same_run(result.folder, trained().folder)


def test_a_killed_run_goes_on_from_its_last_checkpoint_and_logs_each_step_once(
    tiny: Tiny, run_it: RunIt, trained: Trained
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
    assert_same_run(folder, trained().folder)


def test_the_same_command_again_finds_the_run_finished(tiny: Tiny, run_it: RunIt) -> None:
    first, again = run_it(tiny()), run_it(tiny())
    assert again.was_done
    assert again.folder == first.folder
    assert again.record == first.record


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


def test_the_record_and_the_rows_are_readable_after_a_kill_at_any_moment(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    endless = ("training.max_steps=100000", "training.log_interval=1", "training.checkpoint_interval=3")
    steps, folder = [], tmp_path
    for _ in range(2):
        child = Forked(run_module, "src.train", *TINY, "data.path=text.txt", *endless, cwd=tmp_path)
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


def _wait_for_rows(tmp_path: Path, more_than: int, child: Forked) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        assert child.poll() is None, child.output
        files = list((tmp_path / "runs").glob("*/*/metrics.jsonl"))
        if files and files[0].read_bytes().count(b"\n") > more_than:
            return
        time.sleep(0.02)
    raise AssertionError("no rows in time")
