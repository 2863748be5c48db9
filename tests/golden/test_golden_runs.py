"""Tiny runs of every kind of attention and of data, by the commands that users type: their numbers and names stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden.commands import rows_of, tables_of
from tests.golden.numbers import GOLDEN, numbers_of, train_all

NUMBERS: dict[str, dict[str, Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
RUN_IDS = {
    "mha": "nano-text-file-h4-c16-s0-d812fb66d8e5",
    "gqa": "nano-text-file-h4-kv2-c16-s0-bd10f3b8161e",
    "mqa": "nano-text-file-h4-kv1-c16-s0-0853726b1a3d",
    "mla": "nano-text-file-h4-mla12r2-c16-s0-6068006e575b",
    "vectors": "farthest-point-farthest-point-h2-c8-s0-88053b33f3e1",
    "task": "nano-copy-h4-kv2-c16-s0-1bd0994d213e",
}
NEVER = (
    "the same command names another run than it did. Run ids never change: every sweep that was begun would start "
    "anew beside its own finished runs. A new setting must stay out of the identity while it has its old value"
)
MAY_CHANGE = (
    "of a golden run moved. In a refactoring that is a mistake. It may change only in a commit that means to change "
    "numbers (model, data order, initialisation, schedule, optimiser) or names (a setting, a metric, an export "
    "column): then run `uv run python -m tests.golden.numbers`, and say under Results, or Changed, in the CHANGELOG "
    "what moved and why"
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return train_all(tmp_path_factory.mktemp("golden"))


def test_every_golden_run_is_trained(folders: dict[str, Path]) -> None:
    assert sorted(folders) == sorted(NUMBERS) == sorted(RUN_IDS)


@pytest.mark.parametrize("name", RUN_IDS)
def test_a_run_keeps_its_name(folders: dict[str, Path], name: str) -> None:
    assert folders[name].name == NUMBERS[name]["run_id"] == RUN_IDS[name], NEVER


@pytest.mark.parametrize("part", [part for part in NUMBERS["gqa"] if part != "run_id"])
@pytest.mark.parametrize("name", RUN_IDS)
def test_a_run_keeps_its_numbers(folders: dict[str, Path], name: str, part: str) -> None:
    different = differences(numbers_of(folders[name])[part], NUMBERS[name][part], part)
    assert not different, f"{name}: {'; '.join(different[:6])}\n{part} {MAY_CHANGE}"


@pytest.mark.parametrize("name", RUN_IDS)
def test_the_export_holds_each_logged_row(folders: dict[str, Path], name: str) -> None:
    folder = folders[name]
    steps = tables_of(folder.parents[2] / "exports" / folder.parent.name)["steps"].to_pylist()
    own = [known(row) for row in steps if row["run_id"] == folder.name]
    assert own == [known({"run_id": folder.name, **row}) for row in rows_of(folder)]


def known(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def differences(got: Any, golden: Any, where: str) -> list[str]:
    """Where two plain values differ: whole numbers and words at all, losses after the fifth digit."""
    if isinstance(golden, dict) and isinstance(got, dict):
        names = list(dict.fromkeys([*golden, *got]))
        gone = [f"{where}.{name} is gone" for name in names if name not in got]
        new = [f"{where}.{name} is new" for name in names if name not in golden]
        both = [name for name in names if name in got and name in golden]
        return gone + new + [line for name in both for line in differences(got[name], golden[name], f"{where}.{name}")]
    if isinstance(golden, list) and isinstance(got, list) and len(golden) == len(got):
        pairs = enumerate(zip(got, golden, strict=True))
        return [line for k, (one, other) in pairs for line in differences(one, other, f"{where}[{k}]")]
    if isinstance(golden, float) and isinstance(got, float):
        is_same = got == pytest.approx(golden, rel=2e-5, abs=2e-6)
    else:
        is_same = type(got) is type(golden) and got == golden
    return [] if is_same else [f"{where}: {got!r}, was {golden!r}"]
