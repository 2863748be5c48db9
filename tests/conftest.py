"""What every test stands on: one thread, no chance, shapes of src.model checked at run time."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch first loads

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


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """A test that trains may set torch's threads; the next one starts with one again."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
