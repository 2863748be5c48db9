"""Every file of conf/ composes, and says at its head what it is for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from src.compose import CONF_DIR, compose, groups
from src.geometry import Geometry

FILES = sorted(path.relative_to(CONF_DIR) for path in CONF_DIR.rglob("*.yaml") if path.parent != CONF_DIR)
NEEDS = {"text_file": ["data.path=text.txt"]}


@pytest.mark.parametrize("file", FILES, ids=str)
def test_every_choice_composes_to_the_model_that_it_says(file: Path) -> None:
    config = compose([f"{file.parent}={file.stem}", *NEEDS.get(file.stem, [])])
    text = (CONF_DIR / file).read_text(encoding="utf-8")
    prefix = "" if "@package _global_" in text else f"{file.parent}."
    given = {override.partition("=")[0] for override in NEEDS.get(file.stem, [])}
    for name, value in _settings(yaml.safe_load(text), prefix):
        got = config
        for part in name.split("."):
            got = getattr(got, part)
        assert got == value or name in given, f"{file} says {name}={value}"
    assert Geometry.of(config).layers == config.model.layers


def _settings(written: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """What a file sets to a plain value: its lists of defaults apart."""
    for name, value in written.items():
        if isinstance(value, dict):
            yield from _settings(value, f"{prefix}{name}.")
        elif name != "defaults" and "${" not in str(value):
            yield prefix + name, value


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
