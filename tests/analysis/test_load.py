import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.findings import AnalysisError
from analysis.load import load, select, typed, with_planned
from analysis.question import RECORDED, Amount, Question, has_learning_rates, question_for
from analysis.verdict import judge
from tests.analysis.export_maker import write_export

MakeRuns = Callable[..., pd.DataFrame]
MARGIN = "config.sweep.margin_nats"


def test_a_loaded_table_holds_integers_as_integers(make_runs: MakeRuns, tmp_path: Path) -> None:
    runs = make_runs({8: [1.0, 1.1]}).assign(latent_dim=pd.array([32, None], dtype="Int64"))
    export = load(write_export(tmp_path / "some", runs))
    assert str(export.runs["heads"].dtype) == str(export.runs["latent_dim"].dtype) == "Int64"
    assert export.runs["latent_dim"].isna().tolist() == [False, True]
    assert export.sentence == f"export some ({export.hash}), 2 runs, exported 2026-01-02 00:00 UTC"
    assert export.findings == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda f: (f / "manifest.json").unlink(), "is no export: it has no manifest.json"),
        (lambda f: (f / "manifest.json").write_text("{"), "cannot be read.*export again"),
        (lambda f: (f / "manifest.json").write_text('{"schema_version": 7}'), "schema_version 7.*update headcount"),
        (lambda f: (f / "runs.parquet").unlink(), "runs.parquet is missing; export again"),
        (lambda f: (f / "steps.parquet").write_bytes(b"no"), "steps.parquet cannot be read"),
    ],
)
def test_what_is_no_whole_export_is_refused_in_one_sentence(
    make_runs: MakeRuns, tmp_path: Path, change: Callable[[Path], object], says: str
) -> None:
    folder = write_export(tmp_path / "some", make_runs({8: [1.0]}))
    change(folder)
    with pytest.raises(AnalysisError, match=says):
        load(folder)


def test_a_table_that_was_changed_after_the_export_is_named(make_runs: MakeRuns, tmp_path: Path) -> None:
    folder = write_export(tmp_path / "some", make_runs({8: [1.0]}))
    make_runs({8: [0.5]}).to_parquet(folder / "runs.parquet")
    (finding,) = load(folder).findings
    assert "runs.parquet changed after the export" in finding.text


def test_an_export_older_than_its_newest_run_is_stale(make_runs: MakeRuns, tmp_path: Path) -> None:
    record = tmp_path / "runs" / "h8" / "record.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    folder = write_export(tmp_path / "some", make_runs({8: [1.0]}), source=str(tmp_path / "runs"))
    os.utime(record, (1.0e9, 1.0e9))
    assert load(folder).findings == ()
    os.utime(record, (2.0e9, 2.0e9))
    (finding,) = load(folder).findings
    assert (finding.level, finding.text) == ("caution", "the export is stale: h8 changed since; export again")


def test_partial_exports_and_unreadable_runs_are_cautions(make_runs: MakeRuns, tmp_path: Path) -> None:
    left_out = [{"run_id": "h8-s9", "reason": "half a record"}]
    folder = write_export(tmp_path / "some", make_runs({8: [1.0]}), partial="1 of 2 not read", left_out=left_out)
    texts = [finding.text for finding in load(folder).findings]
    assert texts[0] == "the export is partial: 1 of 2 not read"
    assert "h8-s9 (half a record)" in texts[1]


def test_what_never_ran_what_is_damaged_and_what_cannot_be_are_left_out_by_name(
    make_runs: MakeRuns, tmp_path: Path
) -> None:
    runs = make_runs({1: [1.0, 1.1], 8: [1.0]})
    planned = [
        {"run_id": run, "values": {"heads": heads, "seed": seed}, "status": status, "reason": reason}
        for run, heads, seed, status, reason in [
            ("heads1-seed0", 1, 0, "finished", None),
            ("heads1-seed1", 1, 1, "finished", None),
            ("heads8-seed0", 8, 0, "finished", None),
            ("heads8-seed1", 8, 1, "not_run", None),
            ("heads8-seed2", 8, 2, "damaged", "not JSON"),
            ("skipped-1", 3, 0, "skipped", "3 does not divide 128"),
        ]
    ]
    export = load(write_export(tmp_path / "some", runs, planned=planned))
    (verdict,) = judge(export.runs, planned=export.planned).verdicts
    assert verdict.coverage.sentence.startswith("3 of 6 planned runs are counted")
    assert verdict.coverage.names == [
        "heads=3 seed 0 (skipped: 3 does not divide 128)",
        "heads=8 seed 1 (not run)",
        "heads=8 seed 2 (failed: its record is damaged: not JSON)",
    ]


def test_the_question_is_the_sweeps_own(make_runs: MakeRuns, tmp_path: Path) -> None:
    runs = make_runs({8: [1.0, 1.1]}).assign(kv_heads=[1, 2])
    export = load(write_export(tmp_path / "kv", runs))
    assert question_for(export)[0].factor == "kv_heads"
    plan = {"factors": ["training.learning_rate", "heads"], "command": []}
    assert question_for(load(write_export(tmp_path / "heads", runs, plans=[plan])))[0].factor == "heads"
    assert question_for(export, factor="context_length")[0].factor == "context_length"


def test_the_margin_is_the_one_that_the_runs_recorded_before_they_ran(make_runs: MakeRuns, tmp_path: Path) -> None:
    runs = make_runs({1: [1.0, 1.1], 8: [1.0, 1.2]}).assign(**{MARGIN: 0.01})
    export = load(write_export(tmp_path / "some", runs))
    assert question_for(export) == (Question(margin=Amount(0.01, "", RECORDED)), [])
    assert question_for(export, metric="decode/ms_per_token")[0].margin is None
    late = runs.assign(started_at=["2", "3", "1", "4"], **{MARGIN: [0.5, 0.01, 0.02, None]})
    question, (finding,) = question_for(load(write_export(tmp_path / "late", late)))
    assert question.margin == Amount(0.02, "", RECORDED)
    assert "different margins (0.02, 0.5, 0.01, none); the earliest one is used" in finding.text
    assert question_for(export, margin=0.3)[1][-1].text == (
        "the margin of 0.3 was given later; the runs recorded 0.01 before their first step"
    )


def test_learning_rates_can_be_tuned_where_every_arm_has_several(make_runs: MakeRuns) -> None:
    one = make_runs({1: [1.0], 8: [1.0]})
    other = one.assign(**{"config.training.learning_rate": 0.01})
    assert not has_learning_rates(one, "heads")
    assert has_learning_rates(pd.concat([one, other]), "heads")
    assert not has_learning_rates(pd.concat([one, other[:1]]), "heads")


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
