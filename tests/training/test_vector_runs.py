"""Runs on vectors: the same loop, record and resume as on tokens, without what only tokens have."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

from src.compose import compose
from src.config import Config
from src.errors import ConfigError, RunError
from src.record import read_rows
from src.training import loop
from src.training.checkpoint import load_run
from src.training.events import Event
from src.training.plan import Result, plan_run
from src.training.run import run
from src.training.sinks.jsonl import JsonlSink
from src.training.stop import StopFlag
from tests.conftest import compose_once
from tests.training.conftest import RunIt, assert_same_run

SMALL = (
    "logger=disabled",
    "data.test_examples=50",
    "training.max_steps=12",
    "training.batch_size=8",
    "training.eval_interval=5",
    "training.checkpoint_interval=4",
    "training.log_interval=2",
    "training.threads=1",
)


def small(tmp_path: Path, experiment: str, *overrides: str) -> Config:
    config = compose_once((f"experiment={experiment}", *SMALL, *overrides))
    return config.model_copy(update={"runs_dir": str(tmp_path / config.runs_dir)})


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    """Finished runs that tests only read, each trained once."""
    folder = tmp_path_factory.mktemp("vectors")

    @cache
    def of(experiment: str) -> Result:
        plan = plan_run(small(folder, experiment), folder)
        return run(plan, lambda config, folder, segment: [JsonlSink(folder, segment)], StopFlag())

    return of


def loss_of(result: Result) -> float:
    loss = result.record.summary["val/loss"]
    assert loss is not None
    return loss


@pytest.mark.parametrize("experiment", ["farthest_point", "max_retrieval"])
def test_a_run_is_recorded_with_its_loss_and_without_what_only_tokens_have(
    unbroken: Callable[[str], Result], experiment: str
) -> None:
    result = unbroken(experiment)
    record = result.record
    assert record.status == "finished", record.error
    assert loss_of(result) > 0
    assert record.summary["val/loss_optimum"] == 0
    assert record.summary["train/tokens"] == 12 * 8 * record.config["context_length"], "vectors that were read"
    names = set(record.summary) | {name for row in read_rows(result.folder) for name in row}
    for absent in ("val/perplexity", "val/bits_per_token", "val/accuracy", "cache/bytes", "decode/tokens_per_second"):
        assert absent not in names
    assert record.costs["cache_bytes"] is None
    assert record.environment["decode_attention_kernel"] is None


class StopAtStep:
    def __init__(self, flag: StopFlag, step: int) -> None:
        self.flag, self.step = flag, step

    def write(self, event: Event) -> None:
        if isinstance(event, loop.Progress) and event.step >= self.step:
            self.flag.signal_number = signal.SIGTERM

    def close(self) -> None: ...


@pytest.mark.parametrize("experiment", ["farthest_point", "max_retrieval"])
def test_a_stopped_run_goes_on_bit_for_bit(
    tmp_path: Path, run_it: RunIt, unbroken: Callable[[str], Result], experiment: str
) -> None:
    config = small(tmp_path, experiment)
    stop = StopFlag()
    stopped = run_it(config, StopAtStep(stop, 7), stop=stop)
    assert stopped.record.status == "preempted"
    resumed = run_it(config)
    assert_same_run(resumed.folder, unbroken(experiment).folder)


def test_neither_micro_batches_nor_the_evaluation_s_batch_size_change_a_result(tmp_path: Path, run_it: RunIt) -> None:
    options = ("training.dtype=float64", "training.max_steps=5")
    whole = run_it(small(tmp_path, "farthest_point", *options))
    pieces = run_it(
        small(tmp_path, "farthest_point", *options, "training.micro_batch_size=3", "training.eval_batch_size=7")
    )
    assert whole.folder != pieces.folder
    assert pieces.record.summary["val/loss"] == pytest.approx(whole.record.summary["val/loss"], rel=1e-9)


def test_head_counts_see_the_same_vectors(tmp_path: Path) -> None:
    one, four = (plan_run(small(tmp_path, "farthest_point", f"heads={h}"), tmp_path) for h in (1, 4))
    for step in (0, 3):
        batches = [p.data.training_batches(8, p.config.training, p.config.seed).batch(step) for p in (one, four)]
        assert all(torch.equal(a, b) for a, b in zip(*batches, strict=True))


def test_vectors_have_no_text_to_continue(unbroken: Callable[[str], Result]) -> None:
    folder = unbroken("farthest_point").folder
    with pytest.raises(RunError, match="data=farthest_point, which reads vectors and no text"):
        load_run(folder)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["data.features=8"], "vectors of 8 and 8 numbers enter and leave as they are"),
        (["model.tied_embeddings=true"], "there is no table of tokens"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_folder_is_made(tmp_path: Path, overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        plan_run(small(tmp_path, "farthest_point", *overrides), tmp_path)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_head_finds_the_farthest_point_and_more_heads_do_worse(tmp_path: Path, run_it: RunIt, seed: int) -> None:
    losses = [loss_of(run_it(recipe(tmp_path, "farthest_point", heads, seed))) for heads in (1, 2, 4, 16)]
    assert losses == sorted(losses)
    assert losses[0] < 0.1
    assert losses[1] > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_four_heads_retrieve_four_maxima_a_hundred_times_better_than_one(
    tmp_path: Path, run_it: RunIt, seed: int
) -> None:
    one, two, four = (loss_of(run_it(recipe(tmp_path, "max_retrieval", heads, seed))) for heads in (1, 2, 4))
    assert one > two > four
    assert one > 100 * four


def recipe(tmp_path: Path, experiment: str, heads: int, seed: int) -> Config:
    size = ["logger=disabled", "training.threads=1", f"runs_dir={tmp_path}/runs"]
    return compose([f"experiment={experiment}", f"heads={heads}", f"seed={seed}", *size])
