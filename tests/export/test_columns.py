import doctest

import pytest

from src.config import setting_names
from src.errors import RunError
from src.export import columns, tables
from src.export.columns import FORMER, identity, run_columns, step_columns
from src.export.tables import cell
from src.metrics import METRICS


def test_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(columns).failed == doctest.testmod(tables).failed == 0


def test_every_setting_and_every_metric_has_a_column() -> None:
    there = run_columns()
    sections = {name.rpartition(".")[0] for name in setting_names()}
    columns = {FORMER.get(f"config.{name}", f"config.{name}") for name in setting_names() if name not in sections}
    of_a_plan = {f"config.sweep.{name}" for name in ("control", "varying", "pilot")}  # the manifest tells them
    assert columns - of_a_plan <= set(there)
    assert set(METRICS) <= set(there)


def test_a_number_has_one_column_and_the_former_names_are_gone() -> None:
    there = run_columns()
    assert not set(FORMER) & set(there)
    assert set(FORMER.values()) <= set(there)
    assert {"heads", "kv_heads", "config.kv_heads", "cost/parameters", "data_hash"} <= set(there)


def test_the_identity_names_what_decides_a_result_and_nothing_else() -> None:
    named = identity(run_columns())
    assert len(set(named)) == len(named)
    assert {"heads", "kv_heads", "seed", "context_length", "training.learning_rate", "data_hash"} <= set(named)
    assert not {"group", "resume", "data.path", "logger.mode", "training.learning_rate_from"} & set(named)
    assert "model.of_a_later_version" in identity({"config.model.of_a_later_version": "text"})


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("heads", "integer"),
        ("config.kv_heads", "integer"),
        ("config.model.ffn_ratio", "number"),
        ("config.model.residual", "flag"),
        ("config.training.threads", "text"),
        ("config.training.learning_rate", "number"),
        ("config.data.order", "text"),
        ("config.data.validation_fraction", "number"),
        ("geometry.ffn_width", "integer"),
        ("costs.cache_bytes", "integer"),
        ("cache/bytes", "integer"),
        ("val/loss", "number"),
    ],
)
def test_types_come_from_declarations(name: str, kind: str) -> None:
    assert run_columns()[name] == kind


def test_steps_have_the_union_of_what_was_logged_in_the_order_of_declaration() -> None:
    found = step_columns({"val/loss", "train/loss", "time", "step"})
    assert list(found) == ["run_id", "step", "segment", "time", "train/loss", "val/loss"]


@pytest.mark.parametrize(
    ("kind", "value", "held"),
    [
        ("integer", 8, 8),
        ("integer", 8.0, 8),
        ("integer", "8", 8),
        ("number", 1, 1.0),
        ("number", float("inf"), float("inf")),
        ("flag", False, False),
        ("text", "auto", "auto"),
        ("text", True, "true"),
        ("text", [1, "a"], '[1, "a"]'),
        ("integer", None, None),
    ],
)
def test_a_value_is_held_in_its_column_type(kind, value, held) -> None:
    got = cell("x", kind, value)
    assert (got, type(got)) == (held, type(held))


@pytest.mark.parametrize(
    ("kind", "value"), [("integer", 8.5), ("integer", True), ("integer", "many"), ("number", "much"), ("flag", 1)]
)
def test_a_value_that_does_not_fit_is_refused_with_its_column(kind, value) -> None:
    with pytest.raises(RunError, match=f"config.x={value!r} is no {kind}"):
        cell("config.x", kind, value)
