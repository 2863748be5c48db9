"""Imports run one way: core <- model, data <- training <- entry points; heavy ones stay at the edge."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from src import ROOT

CORE = {
    "config",
    "ends",
    "geometry",
    "regimes",
    "costs",
    "published",
    "metrics",
    "record",
    "errors",
    "randomness",
}
FILES = sorted((ROOT / "src").rglob("*.py")) + sorted((ROOT / "analysis").rglob("*.py"))


def imported(path: Path, top_level_only: bool = False) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = _without_functions(tree) if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def _without_functions(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        is_type_checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_type_checking:
            yield node
            yield from _without_functions(node)


def room(module: str) -> str | None:
    parts = module.split(".")
    if parts[0] != "src" or len(parts) == 1:
        return None
    return "core" if parts[1] in CORE else parts[1]


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] == "analysis":
        return "analysis"
    return room(".".join(parts)) or "core"


MAY_IMPORT = {
    "core": {"core"},
    "model": {"core", "model"},
    "data": {"core", "data"},
    "training": {"core", "model", "data", "training"},
    "export": {"core", "export"},
    "analysis": {"core", "export"},
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path: Path) -> None:
    allowed = MAY_IMPORT.get(room_of(path))
    if allowed is None:  # an entry point may wire everything
        return
    for module in imported(path):
        target = room(module)
        assert target is None or target in allowed, f"{path} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_imports_stay_at_the_edge(path: Path) -> None:
    forbidden = {
        "core": {"torch", "hydra", "omegaconf", "wandb", "pandas"},
        "export": {"torch", "hydra", "wandb"},
        "analysis": {"torch", "hydra", "wandb"},
    }.get(room_of(path), {"wandb"})
    everywhere = {module.split(".")[0] for module in imported(path)}
    at_import = {module.split(".")[0] for module in imported(path, top_level_only=True)}
    assert not (everywhere if room_of(path) == "core" else at_import) & forbidden


def test_only_the_mirror_imports_wandb() -> None:
    importers = {path.name for path in FILES if "wandb" in {m.split(".")[0] for m in imported(path)}}
    assert importers <= {"wandb_mirror.py", "wandb_runs.py"}
