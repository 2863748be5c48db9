import json

import pytest

from src.compose import compose
from src.config import Config
from src.data.load import load_data
from src.data.tasks.data import TASKS, TaskData
from src.errors import ConfigError
from src.io_spec import TokenSpec


def task_data(*overrides: str) -> tuple[TaskData, Config]:
    config = compose(overrides)
    data = load_data(config.data)
    assert isinstance(data, TaskData)
    return data, config


@pytest.mark.parametrize("name", TASKS)
class TestEveryTask:
    def test_its_config_makes_batches(self, name: str) -> None:
        data, config = task_data(f"data={name}", "context_length=32", "training.batch_size=3")
        data.check_length(32)
        inputs, targets = data.training_batches(32, config.training, config.seed).batch(0)
        assert len(inputs) == len(targets) == 3
        assert inputs.shape[1] == 32
        evaluation = data.evaluation_batches(32, config.training)
        assert sum(len(inputs) for inputs, _ in evaluation) == data.test_examples
        assert evaluation.optimum() >= 0

    def test_facts_are_plain_and_complete(self, name: str) -> None:
        data, _ = task_data(f"data={name}")
        facts = data.facts
        assert json.loads(json.dumps(facts)) == facts
        assert facts["hash"] == data.hash
        is_tokens = isinstance(data.io_spec, TokenSpec)
        assert (facts["vocabulary"] is not None) == is_tokens
        assert (data.vocabulary is not None) == is_tokens
        assert data.has_answers == is_tokens
        assert data.bytes_per_token is None
        assert "train_tokens" in facts  # as a corpus says it, though nobody can count it

    def test_its_hash_names_settings_and_version(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        plain = task_data(f"data={name}")[0].hash
        assert task_data(f"data={name}", "seed=5", "heads=8")[0].hash == plain
        assert task_data(f"data={name}", "data.test_examples=7")[0].hash != plain
        monkeypatch.setattr(TASKS[name], "version", 2)
        assert task_data(f"data={name}")[0].hash != plain


def test_all_tasks_have_hashes_of_their_own() -> None:
    assert len({task_data(f"data={name}")[0].hash for name in TASKS}) == len(TASKS)


def test_epochs_of_an_endless_stream_are_refused() -> None:
    data, config = task_data("data=copy", "training.epochs=2", "training.max_steps=null")
    with pytest.raises(ConfigError, match=r"training\.epochs=2 with data\.train_examples=null"):
        data.training_batches(32, config.training, 0)
    data, config = task_data("data=copy", "training.epochs=2", "training.max_steps=null", "data.train_examples=100")
    assert data.training_batches(32, config.training, 0).steps_per_epoch == 9


@pytest.mark.parametrize("setting", ["training.eval_stride=8", "training.eval_drop_partial_batch=true"])
def test_settings_that_mean_windows_of_a_text_are_refused(setting: str) -> None:
    data, config = task_data("data=copy", setting)
    with pytest.raises(ConfigError, match="examples are no windows of a text"):
        data.evaluation_batches(32, config.training)
