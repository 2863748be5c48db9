"""Imports run one way and close no circle, not even one hidden in a function; heavy ones stay at the edge."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from src import ROOT

CORE = {
    "attention_kinds",
    "config",
    "geometry",
    "regimes",
    "costs",
    "io_spec",
    "memory",
    "published",
    "metrics",
    "record",
    "run_status",
    "sweep_file",
    "errors",
    "randomness",
    "section",
    "setting_errors",
    "usual_names",
}
MEASURES = "src.heads.measure"  # the training loop takes them too; the commands beside it wire everything
TASKS = "src.data.tasks"  # each is a part of the configuration, and draws its examples with numpy alone
FILES = sorted(file for folder in ("src", "analysis", "hydra_plugins") for file in (ROOT / folder).rglob("*.py"))
HIDDEN = {
    ("src.attention_kinds.grouped", "src.model"): "a kind names its layer and cache, and the core loads no torch",
    ("src.attention_kinds.latent", "src.model"): "the same",
}
"""Own modules that a function imports although they stand on the importing one, each with the reason."""


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in FILES}


def imported(path: Path, top_level_only: bool = False) -> Iterator[str]:
    """What a file imports, type checking apart: modules by name, an own module taken from its package too."""
    for node in _nodes(ast.parse(path.read_text(encoding="utf-8")), top_level_only):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            own = [name for name in inner if name in MODULES]
            yield from own
            if len(own) < len(inner):
                yield node.module


def _nodes(tree: ast.AST, top_level_only: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        is_type_checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if not is_type_checking and not (is_function and top_level_only):
            yield node
            yield from _nodes(node, top_level_only)


@cache
def own_imports(module: str) -> frozenset[str]:
    """Own modules that this one imports when it loads."""
    names = {name for name in imported(MODULES[module], top_level_only=True) if name in MODULES}
    return frozenset(names - {module})


@cache
def reached(module: str) -> frozenset[str]:
    """This module and all that it stands on."""
    found, waiting = set[str](), [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += own_imports(name)
    return frozenset(found)


def room(module: str) -> str | None:
    parts = module.split(".")
    if parts[0] != "src" or len(parts) == 1:
        return None
    if module.startswith(MEASURES):
        return "measures"
    return "core" if parts[1] in CORE or module.startswith(TASKS) else parts[1]


def room_of(path: Path) -> str:
    module = name_of(path)
    if module.startswith(("analysis", "hydra_plugins")):
        return module.split(".")[0]
    return room(module) or "core"


MAY_IMPORT = {
    "core": {"core"},
    "model": {"core", "model"},
    "data": {"core", "data"},
    "measures": {"core", "model", "measures"},
    "training": {"core", "model", "data", "measures", "training"},
    "export": {"core", "export"},
    "analysis": {"core", "export"},
}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_run_one_way(path: Path) -> None:
    allowed = MAY_IMPORT.get(room_of(path))
    if allowed is None:  # an entry point may wire everything
        return
    for module in imported(path):
        if not is_hidden_with_a_reason(name_of(path), module):
            target = room(module)
            assert target is None or target in allowed, f"{path} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
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


def test_no_module_is_reached_from_what_it_imports() -> None:
    circles = [
        f"{module} <-> {other}" for module in MODULES for other in own_imports(module) if module in reached(other)
    ]
    assert circles == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_function_hides_an_import_that_would_close_a_circle(path: Path) -> None:
    module = name_of(path)
    for target in set(imported(path)) & set(MODULES) - own_imports(module) - {module}:
        circle = module in reached(target) and not is_hidden_with_a_reason(module, target)
        assert not circle, f"{module} imports {target} in a function, and {target} stands on {module}"


def is_hidden_with_a_reason(module: str, target: str) -> bool:
    return any(module == hider and target.startswith(hidden) for hider, hidden in HIDDEN)
