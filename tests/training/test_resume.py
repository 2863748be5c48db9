"""A run goes on exactly where it stopped, and never twice at once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from src.errors import RunError
from src.record import Record
from src.run_status import is_held
from src.training import loop
from src.training.build import load_checkpoint
from src.training.events import Event, Logged, Phase, Progress, Saved
from src.training.folder import claim
from src.training.plan import plan_run
from src.training.stop import StopFlag
from tests.training.conftest import Recorder, RunIt, Tiny, assert_same_run, logged


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
