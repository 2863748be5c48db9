"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from src import errors, run_status
from src.sweeps import grid
from src.sweeps.launchers import processes


@pytest.mark.parametrize("module", [grid, processes, errors, run_status])
def test_examples(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
