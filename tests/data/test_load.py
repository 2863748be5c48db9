"""Every kind of data answers the same calls, and a setting of another kind is refused by name."""

from collections.abc import Callable
from typing import get_args

import pytest

from src.compose import compose, groups
from src.config import Config, DataConfig, sections, setting_names
from src.data.corpus import Corpus
from src.data.examples import TaskData
from src.data.load import load_data
from src.data.tasks import TASKS
from src.errors import ConfigError

NAMES = sorted(name for section in sections(DataConfig) for name in get_args(section.model_fields["name"].annotation))
Settings = Callable[..., Config]


def test_every_kind_has_a_file_of_its_own_in_conf_and_every_file_a_kind() -> None:
    assert groups()["data"] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_of_a_kind_are_what_its_file_holds(config: Settings, name: str) -> None:
    data = config(f"data={name}").data
    assert data.name == name
    assert {f"data.{field}" for field in type(data).model_fields} <= set(setting_names())


def test_tasks_and_corpora_are_told_apart(config: Settings) -> None:
    assert isinstance(load_data(config("data=copy").data), TaskData)
    assert isinstance(load_data(config().data), Corpus)
    assert set(TASKS) < set(NAMES)


def test_settings_are_listed_once_though_several_kinds_have_them() -> None:
    names = list(setting_names())
    assert len(names) == len(set(names))
    assert {"data.path", "data.stride", "data.symbols", "data.directions"} <= set(names)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["data=copy", "+data.stride=3"],
            "data.stride is no setting of data=copy; leave it out, or choose another data",
        ),
        (["data=copy", "data.stride=3"], "another data (data=copy has symbols, test_examples, train_examples)"),
        (["+data.symbols=3"], "data.symbols is no setting of data=shakespeare"),
        (["data=copy", "+data.symbls=3"], "unknown setting 'data.symbls'; did you mean 'data.symbols'"),
        (["data=copy", "data.symbols=1"], "data.symbols=1: it should be greater than or equal to 2"),
        (["data=recall", "data.power=0"], "data.power=0: it should be greater than or equal to 1e-30"),
        (["data.name=shakespear"], "data.name=shakespear: there is no such kind; choose one of shakespeare, "),
        (["data=copy", "data.name=recall"], "data.symbols is no setting of data=recall"),
    ],
)
def test_a_setting_that_does_not_fit_its_kind_is_refused_by_name(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        compose(overrides)
    assert message in str(error.value)


def test_data_without_a_name_is_refused() -> None:
    values = compose([]).model_dump()
    del values["data"]["name"]
    with pytest.raises(ConfigError, match=r"setting 'data\.name' has no value; choose a kind with data="):
        Config.of(values)


def test_where_data_lies_is_no_part_of_what_a_run_is() -> None:
    plain = compose(["data=token_shards"]).identity
    for override in ("data.path=x", "data.train=x", "data.validation=x", "data.verify=sampled"):
        assert compose(["data=token_shards", override]).identity == plain
    assert compose(["data=token_shards", "data.vocabulary_size=9"]).identity != plain
