"""The tiny runs of every kind, as the tests of heads have them."""

from tests.heads.conftest import runs

__all__ = ["runs"]
