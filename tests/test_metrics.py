import doctest
import math

from src import metrics
from src.metrics import MISSING, shown


def test_the_examples_of_the_docstrings_hold() -> None:
    assert doctest.testmod(metrics).failed == 0


def test_a_missing_number_is_a_dash_and_a_zero_is_a_zero() -> None:
    assert shown("memory/peak_bytes", None) == MISSING
    assert shown("memory/peak_bytes", 0) == "0 B"
    assert shown("train/tokens_per_second", None) == MISSING


def test_numbers_that_are_not_finite_are_shown_as_such() -> None:
    assert shown("val/loss", math.nan) == "nan"
    assert shown("val/perplexity", math.inf) == "inf"
