"""What an answer says beyond arithmetic is what was measured and what would be trained."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import pandas as pd
import pytest

from src import ROOT
from src.compose import compose
from src.config import Config
from src.geometry import Geometry
from src.recommend import commands, shapes
from src.recommend.answer import INIT_STD, answer
from src.recommend.findings import FINDINGS, Finding
from src.recommend.request import Request
from src.recommend.rules import RULES, head_width_note

REQUESTS = [
    Request.read("10M", context="128", vocabulary_size="65"),
    Request.read("1B", context="32768"),
    Request.read("70B", context="8192"),
    Request.read("1B", context="65536"),
    Request.read("8B", context="1M", memory="24GiB"),
    Request.read("1.5B", d_model="1600", context="65536"),
]
KINDS = ["MHA", "GQA", "GQA", "MLA", "MQA"]


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: f"{finding.study}-{finding.init}")
def test_a_finding_has_the_numbers_of_its_committed_export(finding: Finding) -> None:
    runs = pd.read_parquet(ROOT / finding.path / "export" / "runs.parquet")
    for count, loss in finding.losses.items():
        seeds = runs[(runs["config.model.init"] == finding.init) & (runs["heads"] == count)]["val/loss"]
        assert len(seeds) == 6
        assert seeds.mean() == pytest.approx(loss, abs=1e-5)
        assert f"{seeds.mean():.3f}" in finding.says
    assert finding.rule in {rule.name for rule in RULES}


def test_sixteen_heads_were_the_best_count_in_no_arm_of_the_studies_that_a_rule_stands_on() -> None:
    for study in ("head_count", "tutorial_heads"):
        runs = pd.read_parquet(ROOT / "analysis" / "results" / study / "export" / "runs.parquet")
        for _, arm in runs.groupby("config.model.init"):
            assert arm.groupby("heads")["val/loss"].mean().idxmin() != 16


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_the_printed_lines_mean_the_shapes_of_the_answer(request_: Request) -> None:
    given = answer(request_)
    small = commands.scaled(given.geometry)
    for shape, line in [(small, commands.train(small)), (given.geometry, " ".join(commands.settings(given.geometry)))]:
        words = line.removeprefix("uv run python -m src.train ").split()
        assert Geometry.of(compose(words)) == shape


def test_the_answers_of_these_tests_are_of_every_kind() -> None:
    assert {answer(request).case.name for request in REQUESTS} == set(KINDS)


@pytest.mark.parametrize("kind", commands.HOOKS)
def test_a_hook_is_a_two_layer_model_of_its_kind_on_induction(kind: str) -> None:
    config = compose(commands.HOOKS[kind].command.removeprefix("uv run python -m src.train ").split())
    g = Geometry.of(config)
    assert g.kind.display_name(g.heads, g.kv_heads) == kind
    assert (g.layers, config.data.name, g.head_dim, g.context_length) == (2, "induction", 32, 32)
    assert config.training.max_steps == commands.HOOKS[kind].steps
    assert commands.HOOKS[kind].accuracy >= 0.95


def test_the_initialisation_is_the_one_that_models_are_drawn_with(config: Callable[..., Config]) -> None:
    from src.model.gpt import GPT
    from src.model.init import initialise

    g = Geometry.of(config("heads=4", "kv_heads=2", "model.d_model=128", "model.layers=2"))
    model = GPT(g, 65)
    initialise(model, "gpt2", seed=0)
    matrices = {n: value for n, value in model.named_parameters() if "attention" in n and value.dim() == 2}
    weights = {name: value.std().item() for name, value in matrices.items()}
    ends = {name: std for name, std in weights.items() if name.endswith("attention.output.weight")}
    others = {name: std for name, std in weights.items() if name not in ends and name.endswith("weight")}
    assert ends
    assert others
    assert list(ends.values()) == pytest.approx([INIT_STD / math.sqrt(2 * 2)] * len(ends), rel=0.03)
    assert list(others.values()) == pytest.approx([INIT_STD] * len(others), rel=0.03)


def test_a_width_that_goes_with_a_budget_keeps_layers_within_the_rule() -> None:
    for budget, width, _ in shapes.WIDTHS:
        given = answer(Request.read(str(budget)))
        assert given.geometry.d_model == width
        assert 1 <= given.geometry.layers <= 256


@pytest.mark.parametrize(("head_dim", "is_noted"), [(31, True), (32, False), (256, False), (257, True)])
def test_a_run_is_told_of_heads_outside_the_rule_of_thumb_only(head_dim: int, is_noted: bool) -> None:
    note = head_width_note(head_dim)
    assert (note is not None) == is_noted
    assert note is None or f"head_dim={head_dim}" in note


def test_nothing_heavy_is_loaded_to_recommend() -> None:
    code = (
        "import sys; import src.recommend.__main__; "
        "print(sorted({'torch', 'hydra', 'wandb', 'pandas', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_the_page_names_every_rule_and_every_hook_that_was_run() -> None:
    page = (ROOT / "docs" / "configurator.md").read_text(encoding="utf-8")
    assert all(f"`{rule.name}`" in page for rule in RULES)
    assert all(hook.command in page.replace(" \\\n    ", " ") for hook in commands.HOOKS.values())
