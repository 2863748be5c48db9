"""Every file of conf/ composes, and says at its head what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from src.compose import CONF_DIR, compose, groups
from src.geometry import Geometry

FILES = sorted(path.relative_to(CONF_DIR) for path in CONF_DIR.rglob("*.yaml") if path.parent != CONF_DIR)
NEEDS = {"text_file": ["data.path=text.txt"]}


@pytest.mark.parametrize("file", FILES, ids=str)
def test_every_choice_composes_and_has_a_geometry(file: Path) -> None:
    config = compose([f"{file.parent}={file.stem}", *NEEDS.get(file.stem, [])])
    assert Geometry.of(config).heads == config.heads


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
