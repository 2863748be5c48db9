from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from analysis.findings import AnalysisError
from analysis.runs import select, typed, with_planned

MakeRuns = Callable[..., pd.DataFrame]


def test_a_head_count_is_one_integer_however_it_was_written(make_runs: MakeRuns) -> None:
    text = make_runs({8: [1.0]}).astype({"heads": str, "kv_heads": str, "seed": str})
    floats = make_runs({8: [1.0]}).astype({"heads": float, "kv_heads": float})
    table = typed(pd.concat([text, floats, make_runs({8: [1.0]})]), "heads", "val/loss")
    assert table["heads"].dtype == "Int64"
    assert table["heads"].tolist() == table["kv_heads"].tolist() == [8, 8, 8]


def test_a_missing_integer_stays_missing_and_turns_no_other_into_a_float(make_runs: MakeRuns) -> None:
    table = make_runs({8: [1.0], 4: [1.0]})
    table["latent_dim"] = [32, None]
    column = typed(table, "heads", "val/loss")["latent_dim"]
    assert column.isna().tolist() == [False, True]
    assert str(column[0]) == "32"


def test_a_loss_that_is_not_finite_stays_a_number(make_runs: MakeRuns) -> None:
    table = typed(make_runs({8: [np.inf, np.nan, 1.5]}), "heads", "val/loss")
    assert table["val/loss"].tolist() == pytest.approx([np.inf, np.nan, 1.5], nan_ok=True)


def test_typing_leaves_the_given_table_as_it_was(make_runs: MakeRuns) -> None:
    table = make_runs({8: [1.0]}).astype({"heads": str})
    before = table.copy(deep=True)
    typed(table, "heads", "val/loss")
    pd.testing.assert_frame_equal(table, before)


@pytest.mark.parametrize(
    ("change", "metric", "says"),
    [
        (lambda t: t.iloc[:0], "val/loss", "holds no runs"),
        (lambda t: t.drop(columns="val/loss"), "val/loss", r"no column 'val/loss'.*it holds: .*train/tokens"),
        (lambda t: t.drop(columns="heads").rename(columns={"kv_heads": "head"}), "val/loss", "no column 'heads'"),
        (lambda t: t[["run_id", "status", "seed", "heads"]], "val/loss", "only its coverage can be told"),
        (lambda t: t.assign(heads=2.5), "val/loss", "'heads' holds 2.5; whole numbers only"),
        (lambda t: t.assign(heads="many"), "val/loss", "'heads' holds 'many', which is not a number"),
        (lambda t: t.assign(status="done"), "val/loss", "status done is unknown"),
        (lambda t: t, "val/los", "did you mean 'val/loss'"),
    ],
)
def test_a_bad_table_is_refused_with_what_is_missing_and_what_is_there(
    make_runs: MakeRuns, change: Callable[[pd.DataFrame], pd.DataFrame], metric: str, says: str
) -> None:
    with pytest.raises(AnalysisError, match=says):
        typed(change(make_runs({4: [1.0, 1.1]})), "heads", metric)


def test_a_planned_run_without_a_row_joins_as_not_run(make_runs: MakeRuns) -> None:
    runs = make_runs({4: [1.0]})
    planned = make_runs({4: [0, 0], 8: [0]})[["run_id", "heads", "seed"]]
    table = typed(with_planned(runs, planned), "heads", "val/loss")
    assert table["status"].tolist() == ["finished", "not_run", "not_run"]
    assert table["heads"].tolist() == [4, 4, 8]
    assert table["val/loss"].isna().tolist() == [False, True, True]


def test_select_takes_rows_by_setting(make_runs: MakeRuns) -> None:
    runs = pd.concat([make_runs({4: [1.0]}), make_runs({4: [2.0]}, **{"config.model.d_model": 256})])
    assert select(runs, model__d_model=256)["val/loss"].tolist() == [2.0]
    with pytest.raises(AnalysisError, match="no column"):
        select(runs, model__width=256)
