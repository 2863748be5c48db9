"""What every test stands on: a process a core, one thread, no chance, shapes of src.model checked at run time."""

import gc
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch first loads
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # a thread that waits leaves the core to another test

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

from src.compose import compose
from src.config import Config
from src.geometry import Geometry

# Must come before anything imports src.model.
install_import_hook("src.model", "beartype.beartype")

settings.register_profile("tests", derandomize=True, deadline=None, database=None, max_examples=25)
settings.load_profile("tests")

compose_once = cache(lambda overrides: compose(overrides))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One a core; none for files and tests given by name, which end sooner without, nor where the machine is timed."""
    given, asked = config.option.file_or_dir, config.option.markexpr
    is_named = given and all(name.partition("::")[0].endswith(".py") for name in given)
    is_timed = any(f"not {mark}" not in asked and mark in asked for mark in ("gpu", "benchmark"))
    return 0 if is_named or is_timed else len(os.sched_getaffinity(0))


@pytest.fixture(scope="session")
def config() -> Callable[..., Config]:
    """Composes settings as the command line would: config("heads=8", "kv_heads=2")."""
    return lambda *overrides: compose_once(overrides)


@pytest.fixture(scope="session")
def geometry(config: Callable[..., Config]) -> Callable[..., Geometry]:
    """The shape of a tiny model, with any integers put in place: geometry(heads=4, kv_heads=2, head_dim=6)."""
    tiny = replace(
        Geometry.of(config("model=nano")),
        layers=2,
        d_model=24,
        heads=4,
        kv_heads=2,
        head_dim=6,
        ffn_width=32,
        context_length=16,
    )

    def of(**integers: int | str | bool) -> Geometry:
        if "heads" in integers and "kv_heads" not in integers:
            integers["kv_heads"] = integers["heads"]
        return replace(tiny, **integers)  # pyright: ignore[reportArgumentType]

    return of


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # libraries look at their end for what they think was leaked


@pytest.fixture(autouse=True, scope="module")
def what_was_imported_is_no_garbage() -> None:
    """A sweep collects garbage after each job; searching all that pytest and torch keep took a quarter of its tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """A test that trains may set torch's threads; the next one starts with one again."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
