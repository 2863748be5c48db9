"""Which examples a run sees depends on its seed and on nothing else, and none of them is one it is tested on."""

import json
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from src.config import Config
from src.data.examples import EvaluationExamples, Examples, TaskData, TrainingExamples
from src.data.load import count_answers, load_data
from src.data.tasks import TASKS as KINDS
from src.data.tasks.task import Task
from src.errors import ConfigError
from src.io_spec import TokenSpec
from tests.data.tasks.conftest import COPY, LENGTHS, TASKS, named

Settings = Callable[..., Config]
each_task = pytest.mark.parametrize("task", TASKS, ids=named)


def training(task: Task, batch_size: int = 4, count: int | None = None, seed: int = 0) -> TrainingExamples:
    return TrainingExamples(counted(task, train_examples=count), LENGTHS[task.name], batch_size, seed)


def evaluation(task: Task, batch_size: int, count: int) -> EvaluationExamples:
    return EvaluationExamples(counted(task, test_examples=count), LENGTHS[task.name], batch_size)


def counted(task: Task, **counts: int | None) -> Task:
    return task.model_copy(update=counts)


def rows(source: TrainingExamples, wanted: int) -> list[bytes]:
    """The first examples of a stream, batch after batch."""
    found: list[bytes] = []
    step = 0
    while len(found) < wanted:
        found += [row.numpy().tobytes() for row in source.batch(step)[0]]
        step += 1
    return found[:wanted]


@each_task
class TestEveryTask:
    def test_an_example_is_a_function_of_key_and_number(self, task: Task) -> None:
        stream = Examples(task, LENGTHS[task.name], key=3)
        whole = stream.arrays(0, 12)
        for first, count in ((0, 1), (5, 3), (11, 1)):
            for part, all_of_it in zip(stream.arrays(first, count), whole, strict=True):
                assert np.array_equal(part, all_of_it[first : first + count])

    @pytest.mark.parametrize("count", [None, 10])
    def test_the_batch_size_only_cuts_the_stream(self, task: Task, count: int | None) -> None:
        streams = [rows(training(task, batch_size, count), 25) for batch_size in (1, 4, 7, 25)]
        assert all(stream == streams[0] for stream in streams)

    @pytest.mark.parametrize("count", [None, 10])
    def test_any_step_can_be_asked_for_in_any_order(self, task: Task, count: int | None) -> None:
        steps = list(range(12))
        in_order = {step: training(task, count=count).batch(step) for step in steps}
        random.Random(0).shuffle(steps)
        one = training(task, count=count)
        for step in steps:
            for ours, theirs in zip(one.batch(step), in_order[step], strict=True):
                assert torch.equal(ours, theirs)

    def test_a_seed_means_its_examples(self, task: Task) -> None:
        assert rows(training(task, seed=1), 8) == rows(training(task, seed=1), 8)
        assert rows(training(task, seed=1), 8) != rows(training(task, seed=2), 8)

    def test_no_test_example_is_trained_on(self, task: Task) -> None:
        test = {row.numpy().tobytes() for inputs, _ in evaluation(task, 50, 200) for row in inputs}
        assert len(test) == 200
        for seed in range(3):
            assert not test & set(rows(training(task, 100, seed=seed), 500))

    def test_the_test_set_is_the_same_each_time_and_at_each_batch_size(self, task: Task) -> None:
        def found(batch_size: int) -> list[bytes]:
            test = evaluation(task, batch_size, 23)
            batches = list(test)
            assert len(batches) == len(test)
            return [row.numpy().tobytes() for part in (0, 1) for batch in batches for row in batch[part]]

        assert found(1) == found(7) == found(7) == found(1000)

    def test_batches_have_the_types_that_models_read(self, task: Task) -> None:
        inputs, targets = training(task).batch(0)
        expected = torch.int64 if isinstance(task.io_spec, TokenSpec) else torch.float32
        assert inputs.dtype == targets.dtype == expected
        assert inputs.is_contiguous()
        assert targets.is_contiguous()

    def test_answers_are_what_a_mean_loss_is_the_mean_of(self, task: Task) -> None:
        _, targets = training(task).batch(0)
        per_example = {"copy": 32, "induction": 16, "recall": 4, "markov": 59, "farthest_point": 7}
        assert count_answers(targets) == 4 * per_example.get(task.name, 1)


def test_a_fixed_set_is_shown_once_an_epoch_in_a_new_order_each_time() -> None:
    shown = rows(training(COPY, count=10), 30)
    epochs = [shown[:10], shown[10:20], shown[20:]]
    assert all(len(set(epoch)) == 10 and set(epoch) == set(shown) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert set(shown) == set(rows(training(COPY), 10))  # they are the first of the endless stream
    assert training(COPY, 4, count=10).steps_per_epoch == 3
    assert training(COPY).steps_per_epoch is None


def test_an_endless_stream_repeats_nothing() -> None:
    assert len(set(rows(training(COPY, 100), 2000))) == 2000


def test_the_test_stream_is_that_of_no_training_seed() -> None:
    first = next(iter(evaluation(COPY, 1, 1)))[0]
    assert not any(torch.equal(first, training(COPY, 1, seed=seed).batch(0)[0]) for seed in range(1000))


@settings(max_examples=30)
@given(st.integers(0, 10**9), st.integers(1, 5))
def test_a_step_far_ahead_costs_no_more_than_the_first(step: int, batch_size: int) -> None:
    source = training(COPY, batch_size)
    (inputs, _), (later, _) = source.batch(step), source.batch(step + 1)
    assert len(inputs) == batch_size
    assert not torch.equal(inputs, later)


def test_a_length_that_a_task_has_no_examples_of_is_refused() -> None:
    with pytest.raises(ConfigError, match="context_length=7 with data=copy"):
        TrainingExamples(COPY, 7, 4, seed=0)
    with pytest.raises(ConfigError, match="context_length=7 with data=copy"):
        EvaluationExamples(COPY, 7, 4)


def test_a_negative_step_is_a_bug() -> None:
    with pytest.raises(ValueError, match="step=-1"):
        training(COPY).batch(-1)


@pytest.mark.parametrize("name", KINDS)
class TestTaskData:
    @pytest.fixture
    def data(self, config: Settings, name: str) -> TaskData:
        data = load_data(config(f"data={name}").data)
        assert isinstance(data, TaskData)
        return data

    def test_its_config_makes_batches(self, config: Settings, data: TaskData) -> None:
        settings = config("training.batch_size=3").training
        data.check_length(40)
        inputs, targets = data.training_batches(40, settings, seed=0).batch(0)
        assert len(inputs) == len(targets) == 3
        assert inputs.shape[1] == 40
        test = data.evaluation_batches(40, settings)
        assert sum(len(inputs) for inputs, _ in test) == data.task.test_examples
        assert test.loss_floor() >= 0

    def test_facts_are_plain_and_complete(self, data: TaskData) -> None:
        facts = data.facts
        assert json.loads(json.dumps(facts)) == facts
        assert facts["hash"] == data.hash
        is_tokens = isinstance(data.io_spec, TokenSpec)
        assert (facts["vocabulary"] is not None) == is_tokens
        assert (data.vocabulary is not None) == is_tokens
        assert data.has_answers == is_tokens
        assert data.bytes_per_token is None
        assert "train_tokens" in facts  # as a corpus says it, though nobody can count it

    def test_its_hash_names_settings_and_version(self, data: TaskData, monkeypatch: pytest.MonkeyPatch) -> None:
        plain = data.hash
        assert TaskData(counted(data.task, test_examples=7)).hash != plain
        monkeypatch.setattr(type(data.task), "version", 2)
        assert data.hash != plain


def test_epochs_of_an_endless_stream_are_refused(config: Settings) -> None:
    two = config("training.epochs=2", "training.max_steps=null").training
    with pytest.raises(ConfigError, match=r"training\.epochs=2 with data\.train_examples=null"):
        TaskData(COPY).training_batches(32, two, 0)
    hundred = TaskData(counted(COPY, train_examples=100))
    assert hundred.training_batches(32, two, 0).steps_per_epoch == 9
    assert (TaskData(COPY).epoch_tokens(32), hundred.epoch_tokens(32)) == (None, 3200)


@pytest.mark.parametrize("setting", ["training.eval_stride=8", "training.eval_drop_partial_batch=true"])
def test_settings_that_mean_windows_of_a_text_are_refused(config: Settings, setting: str) -> None:
    with pytest.raises(ConfigError, match="examples are no windows of a text"):
        TaskData(COPY).evaluation_batches(32, config(setting).training)
