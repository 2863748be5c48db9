"""Every file of sweeps/ composes, is possible, and says at its head what to expect."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from src import ROOT
from src.compose import check_overrides, composed
from src.geometry import Geometry
from src.sweeps.grid import points, read_request
from src.sweeps.run import question_of

FILES = sorted((ROOT / "sweeps").glob("*.yaml"))
WANDB = sorted((ROOT / "sweeps" / "wandb").glob("*.yaml"))


def of_file(path: Path) -> tuple[dict[str, object], int, list[Geometry]]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    request = read_request([f"sweeps={path.stem}"], content["hydra"]["sweeper"]["params"])
    found = list(points(request, composed))
    assert not [point.reason for point in found if point.config is None]
    return content, len(found), [Geometry.of(point.config) for point in found if point.config is not None]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_sweep_file_is_possible_and_has_as_many_jobs_as_it_says(path: Path) -> None:
    content, jobs, geometries = of_file(path)
    text = path.read_text(encoding="utf-8")
    said = re.search(r"^# Jobs: (\d+) ", text, re.MULTILINE)
    assert said is not None
    assert jobs == int(said[1]) == len(geometries)
    assert question_of(path)
    assert "# Time: " in text
    assert "# Expected: " in text
    assert content["group"] == path.stem
    assert f"| `{path.stem}` |" in (ROOT / "sweeps" / "README.md").read_text(encoding="utf-8")


def test_the_sweeps_that_compare_arms_fix_their_margin_and_have_at_least_six_seeds() -> None:
    for path in FILES:
        if path.stem in ("smoke", "learning_rate"):
            continue
        content, _, _ = of_file(path)
        assert content["sweep"]["margin_nats"] > 0, path.stem  # pyright: ignore[reportIndexIssue]
        seeds = re.fullmatch(r"range\((\d+)\)", content["hydra"]["sweeper"]["params"]["seed"])  # pyright: ignore[reportIndexIssue]
        assert seeds is not None, path.stem
        assert int(seeds[1]) >= 6, f"{path.stem}: under six seeds no paired comparison can reach p < 0.05"


def test_tuning_seeds_are_no_other_sweep_s() -> None:
    content, _, _ = of_file(ROOT / "sweeps" / "learning_rate.yaml")
    seeds = str(content["hydra"]["sweeper"]["params"]["seed"])  # pyright: ignore[reportIndexIssue]
    assert not set(map(int, seeds.split(","))) & set(range(6))


@pytest.mark.parametrize("path", WANDB, ids=lambda path: path.stem)
def test_a_wandb_sweep_s_command_is_one_that_we_take(path: Path) -> None:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert content["metric"] == {"name": "val/loss", "goal": "minimize"}
    command = content["command"]
    assert command[:4] == ["${env}", "${interpreter}", "-m", "src.train"]
    assert command[-1] == "${args_no_hyphens}"
    check_overrides([*command[4:-1], *(f"{name}=1" for name in content["parameters"])])
    assert shlex.join(command[4:-1]) == " ".join(command[4:-1])
