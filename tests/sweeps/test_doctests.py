"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from src.sweeps import axes, shares, states


@pytest.mark.parametrize("module", [axes, shares, states])
def test_examples(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
