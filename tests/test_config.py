"""Settings are strict: unknown names, types and ranges are refused with what was got, the rule and the way out."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.arguments import split
from src.compose import check_overrides, compose
from src.config import NOT_IDENTITY, Config, config_hash, decides_result, setting_names
from src.errors import ConfigError


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("head=8", "unknown setting 'head'; did you mean 'heads'?"),
        ("+head=8", "unknown setting 'head'; did you mean 'heads'?"),
        ("++training.lrr=1", "unknown setting 'training.lrr'"),
        ("++training.learning_rat=1", "did you mean 'training.learning_rate'?"),
        ("model.d_modle=64", "did you mean 'model.d_model'?"),
        ("learning_rate=1", "did you mean 'training.learning_rate'?"),
        ("~training.lr", "unknown setting 'training.lr'"),
        ("+zebra.quagga=1", "unknown setting 'zebra.quagga'; --help lists the settings"),
        ("modl=nano", "did you mean 'model'?"),
        ("model=nanoo", "no such option; did you mean 'nano'?"),
        ("model=nano,smal", "model=smal: no such option"),
    ],
)
def test_a_name_that_does_not_exist_is_refused_however_it_is_written(override: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_overrides([override])
    assert words in str(caught.value)


def test_known_overrides_and_flags_pass() -> None:
    flags, overrides = split(["heads=1,2", "-m", "--cfg", "job", "model=nano", "hydra.verbose=true", "seed=1"])
    assert flags == ["-m", "--cfg", "job"]
    check_overrides([*overrides, "hydra/launcher=basic", "training.epochs=1"])
    check_overrides([f"{name}=1" for name in setting_names() if "." in name])


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("heads=eight", "heads='eight'"),
        ("heads='8'", "heads='8': it should be a whole number"),
        ("heads=true", "heads=True"),
        ("heads=0", "heads=0: it should be greater than or equal to 1"),
        ("heads=-2", "heads=-2"),
        ("heads=2.5", "heads=2.5"),
        ("kv_heads=0", "kv_heads=0"),
        ("model.dropout=1.0", "model.dropout=1.0: it should be less than 1"),
        ("training.learning_rate=0", "training.learning_rate=0"),
        ("training.learning_rate=nan", "training.learning_rate=nan"),
        ("training.dtype=int8", "training.dtype='int8'"),
        ("training.threads=none", "training.threads='none'"),
        ("device=gpu", "device='gpu'"),
        ("group=a/b", "group='a/b'"),
        ("training.epochs=2", "training.max_steps=2000 and training.epochs=2: give exactly one"),
        ("training.max_steps=null", "training.max_steps=None and training.epochs=None: give exactly one"),
        ("resume=always", "resume='always'"),
        ("model.init=xavier", "model.init='xavier'"),
        ("~seed", "setting 'seed' has no value"),
    ],
)
def test_a_value_out_of_type_or_range_is_refused_with_what_was_got(override: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose([override])
    assert words in str(caught.value)


def test_every_offending_setting_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        compose(["heads=0", "seed=-1", "model.layers=0"])
    assert all(name in str(caught.value) for name in ("heads=0", "seed=-1", "model.layers=0"))


@pytest.mark.parametrize("written", ["0.00001", "1e-5", "1e-05", "1.0e-5", "0.01e-3"])
def test_equal_values_are_the_same_run_however_they_are_written(written: str) -> None:
    config, plain = compose([f"training.learning_rate={written}"]), compose(["training.learning_rate=1e-5"])
    assert isinstance(config.training.learning_rate, float)
    assert config_hash(config.identity, "x") == config_hash(plain.identity, "x")


def test_a_whole_number_is_a_float_where_a_float_is_meant() -> None:
    config = compose(["training.learning_rate=1", "training.grad_clip=1"])
    assert isinstance(config.training.learning_rate, float)
    assert config_hash(config.identity, "x") == config_hash(compose(["training.learning_rate=1.0"]).identity, "x")


def test_what_decides_a_result_names_the_run_and_the_rest_does_not() -> None:
    plain = compose([])

    def same(*overrides: str) -> bool:
        return config_hash(compose(list(overrides)).identity, "d") == config_hash(plain.identity, "d")

    for override in ("runs_dir=x", "group=x", "logger.mode=online", "resume=never", "sample.tokens=9", "data.path=x"):
        assert same(override), override
    for override in (
        "seed=1",
        "heads=8",
        "training.max_steps=9",
        "model.init=torch",
        "device=cpu",
        "data.order=random",
    ):
        assert not same(override), override
    assert config_hash(plain.identity, "d") != config_hash(plain.identity, "other data")


def test_a_runs_name_has_not_changed_since_runs_were_first_kept() -> None:
    # Written down once: a folder of an older headcount is found again by exactly these.
    data = ["data.path=/tmp/a.txt", "runs_dir=elsewhere", "training.max_steps=50", "device=cpu"]
    asked = {
        "MHA": ["data=text_file", *data, "heads=4"],
        "GQA": ["data=bytes_file", *data, "heads=8", "kv_heads=2", "regime=equal_params"],
        "MLA": ["data=text_file", *data, "attention=latent", "latent_dim=32"],
        "shards": ["data=token_shards", *data, "data.verify=sampled"],
        "vectors": ["data=farthest_point", *data[1:], "model.tied_embeddings=false"],
    }
    found = {name: config_hash(compose(overrides).identity, "0" * 12) for name, overrides in asked.items()}
    assert found == {
        "MHA": "a200f51b29e8",
        "GQA": "2941730fb37b",
        "MLA": "fff24685dd44",
        "shards": "0c456df0a18e",
        "vectors": "15e006552ecf",
    }


def test_settings_decide_a_result_or_do_not_whole_sections_at_once() -> None:
    left_out = {name for name in setting_names() if not decides_result(name)}
    assert {"logger", "logger.mode", "data.path", "data.train", "training.learning_rate_from", "group"} <= left_out
    assert not {"seed", "heads", "data.order", "data.name", "training.learning_rate", "attention"} & left_out
    flat = {name for name in setting_names() if name not in ("data", "model", "training")}
    assert flat >= NOT_IDENTITY, "a setting that is no more"


def test_a_configuration_cannot_be_changed() -> None:
    config = compose([])
    with pytest.raises(Exception, match="frozen"):
        config.heads = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_a_configuration_survives_its_record() -> None:
    config = compose(["heads=8", "kv_heads=2", "sample.top_k=5"])
    assert Config.of(config.model_dump()) == config


@given(st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.integers()), max_size=5))
def test_arbitrary_values_are_refused_as_settings_never_by_another_error(values: dict) -> None:
    with pytest.raises(ConfigError):
        Config.of(values)


def test_importing_the_configuration_loads_nothing_heavy() -> None:
    script = "import sys, src.config, src.geometry, src.costs, src.record, src.metrics; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "hydra", "omegaconf", "wandb", "scipy", "pandas"} & set(modules)
