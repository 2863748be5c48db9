"""Every file of conf/ composes, and says at its head what it is for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from src.compose import CONF_DIR, compose, groups
from src.geometry import Geometry

FILES = sorted(path.relative_to(CONF_DIR) for path in CONF_DIR.rglob("*.yaml") if path.parent != CONF_DIR)
NEEDS = {"text_file": ["data.path=text.txt"], "bytes_file": ["data.path=a.bin"]}


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted name."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return found


def written(file: Path) -> dict[str, Any]:
    """The settings that a file writes, by dotted name, but for those that the command line must give."""
    text = (CONF_DIR / file).read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    content.pop("defaults", None)
    found = flat(content, "" if "@package _global_" in text else f"{file.parent}.")
    return {name: value for name, value in found.items() if value != "???" and "${" not in str(value)}


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_choice_sets_what_its_file_says_of_a_model_that_can_be(file: Path) -> None:
    given = NEEDS.get(file.stem, [])
    config = compose([f"{file.parent}={file.stem}", *given])
    settings, said = flat(config.model_dump()), written(file)
    for word in given:
        said.pop(word.partition("=")[0], None)
    assert said
    assert {name: settings[name] for name in said} == said
    geometry = Geometry.of(config)
    assert (geometry.heads, geometry.context_length) == (config.heads, config.context_length)


@pytest.mark.parametrize("group", ["model", "attention", "data", "training", "logger", "experiment"])
def test_no_two_choices_of_a_group_are_the_same(group: str) -> None:
    files = [file for file in FILES if str(file.parent) == group]
    composed = [compose([f"{group}={file.stem}", *NEEDS.get(file.stem, [])]).model_dump_json() for file in files]
    assert len(set(composed)) == len(files) >= 2


@pytest.mark.parametrize("file", FILES, ids=str)
def test_every_choice_says_what_it_is_for(file: Path) -> None:
    lines = (CONF_DIR / file).read_text(encoding="utf-8").splitlines()
    said = [line for line in lines[:4] if line.startswith("# ") and "@package" not in line]
    assert said
    assert len(said[0]) > 20


def test_the_groups_are_those_of_the_design() -> None:
    assert {"model", "attention", "data", "training", "logger", "experiment"} <= set(groups())
    assert {"numpy_tutorial", "nano", "mini", "small", "gpt2", "gpt2_medium"} <= set(groups()["model"])


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 16])
def test_eleven_head_counts_divide_mini(heads: int) -> None:
    geometry = Geometry.of(compose(["model=mini", f"heads={heads}"]))
    assert geometry.heads * geometry.head_dim == 240


def test_heads_kv_heads_head_dim_and_context_override_any_size() -> None:
    overrides = ["heads=4", "kv_heads=2", "head_dim=32", "context_length=99"]
    for model in groups()["model"]:
        g = Geometry.of(compose([f"model={model}", *overrides]))
        assert (g.heads, g.kv_heads, g.head_dim, g.context_length) == (4, 2, 32, 99), model


def test_a_choice_on_the_command_line_wins_over_an_experiment() -> None:
    config = compose(["experiment=numpy_tutorial", "heads=8", "training.batch_size=2", "model.init=fan_in"])
    assert (config.heads, config.training.batch_size, config.model.init) == (8, 2, "fan_in")
    assert config.training.epochs == 2
