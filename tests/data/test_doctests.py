import doctest
import importlib
import pkgutil

import pytest

from src import data

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(data.__path__, "src.data.")
    if not module.name.endswith("__main__")  # a command runs when it is imported as one
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_all_rooms_are_looked_into() -> None:
    assert {"src.data.tasks.copy", "src.data.prepare.sources", "src.data.bpe"} < set(MODULES)
