"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from src.sweeps import grid, states
from src.sweeps.launchers import processes


@pytest.mark.parametrize("module", [grid, processes, states])
def test_examples(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
