import json
import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from src.errors import RunError
from src.export.read import read_group
from src.export.tables import sha256
from src.export.write import summary, write_export
from src.record import METRICS, RECORD
from src.sweep_file import PlannedPoint, add_plan, skipped_id
from tests.export.conftest import Exported, MakeRun

Plan = Callable[..., None]


def test_a_run_is_one_row_with_its_settings_integers_costs_and_numbers(make_run: MakeRun, exported: Exported) -> None:
    record = make_run("heads=8", "kv_heads=2")
    runs, steps, _ = exported()
    row = runs.iloc[0]
    assert (row["heads"], row["kv_heads"], row["head_dim"], row["status"]) == (8, 2, 16, "finished")
    assert row["config.training.learning_rate"] == record.config["training"]["learning_rate"]
    assert row["costs.cache_bytes"] == record.costs["cache_bytes"]
    assert row["val/loss"] == 1.5
    assert row["code.commit"] == "c0ffee"
    assert pd.isna(row["train/mfu"])
    assert steps.to_dict("records") == [
        {"run_id": "h8-kv2-s0", "step": 10, "segment": 1, "time": 1.5, "train/loss": 2.5}
    ]


def test_types_do_not_depend_on_the_values_that_happen_to_be_there(
    make_run: MakeRun, exported: Exported, group: Path
) -> None:
    make_run("heads=8")
    few, few_steps, _ = exported()
    make_run("heads=8", "kv_heads=2", "training.threads=2", seed=1, rows=[{"step": 10, "train/loss": math.nan}])
    more, more_steps, _ = exported()
    assert list(few.dtypes) == list(more.dtypes)
    assert list(few_steps.dtypes) == list(more_steps.dtypes)
    assert list(few.columns) == list(more.columns)
    assert more["config.kv_heads"].tolist()[0] == 2
    assert more["config.kv_heads"].isna().tolist() == [False, True]
    assert more["config.training.threads"].tolist() == ["2", "auto"]


def test_an_integer_stays_one_for_pandas_own_reader_though_another_is_missing(
    make_run: MakeRun, exported: Exported, tmp_path: Path
) -> None:
    make_run("heads=8")
    make_run("heads=8", "kv_heads=2")
    exported()
    column = pd.read_parquet(tmp_path / "exports" / "some" / "runs.parquet")["config.kv_heads"]
    assert str(column.dtype) == "Int64"


def test_a_run_that_wrote_its_heads_as_text_joins_the_same_column(
    make_run: MakeRun, exported: Exported, group: Path
) -> None:
    make_run("heads=8")
    make_run("heads=8", seed=1)
    path = group / "h8-kv8-s1" / RECORD
    values = json.loads(path.read_text())
    values["geometry"]["heads"] = "8"
    path.write_text(json.dumps(values))
    assert exported()[0]["heads"].tolist() == [8, 8]


def test_numbers_that_are_not_finite_stay_numbers_in_both_files(
    make_run: MakeRun, exported: Exported, tmp_path: Path
) -> None:
    rows = [{"step": s, "train/loss": v} for s, v in ((1, math.nan), (2, math.inf), (3, -math.inf), (4, None))]
    make_run("heads=8", rows=rows, summary={"val/loss": math.inf}, status="diverged")
    runs, steps, _ = exported()
    assert runs["val/loss"].tolist() == [math.inf]
    assert steps["train/loss"].tolist()[1:3] == [math.inf, -math.inf]
    csv = pd.read_csv(tmp_path / "exports" / "some" / "steps.csv", keep_default_na=False, dtype=str)
    assert csv["train/loss"].tolist() == ["nan", "inf", "-inf", ""]


def test_a_damaged_run_is_named_with_its_reason_and_harms_no_other(
    make_run: MakeRun, exported: Exported, group: Path
) -> None:
    for seed in range(5):
        make_run("heads=8", seed=seed)
    (group / "h8-kv8-s0" / RECORD).write_text('{"half": ')
    (group / "h8-kv8-s1" / METRICS).write_text('{"step": 1}\nbroken\n{"step": 3}\n')
    (group / "h8-kv8-s2" / RECORD).unlink()
    values = json.loads((group / "h8-kv8-s3" / RECORD).read_text())
    (group / "h8-kv8-s3" / RECORD).write_text(json.dumps(values | {"geometry": {"heads": "many"}}))
    runs, _, manifest = exported()
    assert runs["run_id"].tolist() == ["h8-kv8-s4"]
    reasons = {item["run_id"]: item["reason"] for item in manifest["left_out"]}
    assert "not readable as JSON" in reasons["h8-kv8-s0"]
    assert "line 2 is not JSON" in reasons["h8-kv8-s1"]
    assert "holds no record.json" in reasons["h8-kv8-s2"]
    assert "heads='many' is no integer" in reasons["h8-kv8-s3"]


def test_a_torn_last_row_costs_nothing_but_itself(make_run: MakeRun, exported: Exported, group: Path) -> None:
    make_run("heads=8", status="running")
    with (group / "h8-kv8-s0" / METRICS).open("a") as file:
        file.write('{"step": 20, "train/lo')
    runs, steps, _ = exported()
    assert runs["status"].tolist() == ["killed"]  # nobody holds it any more
    assert steps["step"].tolist() == [10]


def test_a_copy_of_a_run_counts_once(make_run: MakeRun, exported: Exported, group: Path) -> None:
    import shutil

    make_run("heads=8")
    shutil.copytree(group / "h8-kv8-s0", group / "h8-kv8-s0 (copy)")
    runs, _, manifest = exported()
    assert len(runs) == 1
    assert "a copy of the run in h8-kv8-s0" in manifest["left_out"][0]["reason"]


def test_what_was_planned_is_accounted_for(make_run: MakeRun, plan: Plan, exported: Exported, group: Path) -> None:
    make_run("heads=8")
    make_run("heads=8", seed=1, status="oom", error={"type": "MemoryError", "message": "no", "traceback": ""})
    make_run("heads=8", seed=2)
    make_run("heads=4", seed=0)
    (group / "h8-kv8-s2" / RECORD).write_text("{")
    jobs = {f"h8-kv8-s{seed}": {"heads": 8, "seed": seed} for seed in range(4)}
    plan(jobs, skipped={"skipped-1": "3 does not divide 128"})
    runs, _, manifest = exported()
    stands = {entry["run_id"]: entry["status"] for entry in manifest["planned"]}
    assert stands == {
        "h8-kv8-s0": "finished",
        "h8-kv8-s1": "oom",
        "h8-kv8-s2": "damaged",
        "h8-kv8-s3": "not_run",
        "skipped-1": "skipped",
    }
    assert manifest["missing"] == ["h8-kv8-s3"]
    assert manifest["unplanned"] == ["h4-kv4-s0"]
    assert manifest["counts"] == {"planned": 5, "exported": 3, "left_out": 1, "missing": 1, "finished": 2, "oom": 1}
    assert manifest["plans"][0]["margin_nats"] == 0.01
    assert "/somewhere/private" not in json.dumps(manifest)
    said = "\n".join(summary(manifest))
    for part in ("2 finished of 5 planned", "oom: h8-kv8-s1", "without a record: h8-kv8-s3", "left out: h8-kv8-s2"):
        assert part in said
    assert runs["error"].dropna().tolist() == ["MemoryError: no"]


def test_the_manifest_can_be_checked_against_the_files(make_run: MakeRun, exported: Exported, tmp_path: Path) -> None:
    make_run("heads=8")
    _, _, manifest = exported()
    out = tmp_path / "exports" / "some"
    assert set(manifest["files"]) == {"runs.parquet", "runs.csv", "steps.parquet", "steps.csv"}
    for name, facts in manifest["files"].items():
        assert facts["sha256"] == sha256(out / name)
    assert json.loads((out / "manifest.json").read_text()) == manifest
    assert manifest["code"] == [
        {"commit": "c0ffee", "source_hash": "5c", "uncommitted_hash": None, "version": "0.1.0", "runs": 1}
    ]


def test_a_setting_that_this_code_does_not_know_still_tells_runs_apart(
    make_run: MakeRun, exported: Exported, group: Path
) -> None:
    make_run("heads=8")
    path = group / "h8-kv8-s0" / RECORD
    values = json.loads(path.read_text())
    values["config"]["model"]["gating"] = 2.0
    path.write_text(json.dumps(values))
    runs, _, manifest = exported()
    assert runs["config.model.gating"].tolist() == ["2"]
    assert manifest["columns"]["config.model.gating"] == "text"


def test_an_empty_group_with_a_plan_exports_what_is_missing(plan: Plan, exported: Exported) -> None:
    plan({"h8-kv8-s0": {"heads": 8, "seed": 0}})
    runs, steps, manifest = exported()
    assert (len(runs), len(steps)) == (0, 0)
    assert str(runs["heads"].dtype) == "Int64"
    assert manifest["missing"] == ["h8-kv8-s0"]


def test_only_an_older_export_is_replaced(make_run: MakeRun, exported: Exported, group: Path, tmp_path: Path) -> None:
    make_run("heads=8")
    exported()
    make_run("heads=8", seed=1)
    assert len(exported()[0]) == 2
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(RunError, match="holds files that are no export"):
        write_export(read_group(group), tmp_path / "mine")


def test_a_wrong_folder_is_refused_with_the_right_ones(make_run: MakeRun, group: Path) -> None:
    make_run("heads=8")
    with pytest.raises(RunError, match="it holds the groups some: export one of them"):
        read_group(group.parent)
    with pytest.raises(RunError, match="is one run; export its group instead"):
        read_group(group / "h8-kv8-s0")
    with pytest.raises(RunError, match=r"is not there.*holds some"):
        read_group(group.parent / "other")


def test_a_newer_plan_is_refused(make_run: MakeRun, group: Path) -> None:
    make_run("heads=8")
    (group / "sweep.json").write_text('{"schema_version": 9, "plans": []}')
    with pytest.raises(RunError, match="schema_version 9; this code reads 1"):
        read_group(group)


def test_a_plan_that_a_sweep_wrote_is_read(group: Path, exported: Exported) -> None:
    heads_8 = PlannedPoint("h8", ("heads=8",), {"heads": 8, "seed": 0})
    heads_3 = PlannedPoint(skipped_id(["heads=3"]), ("heads=3",), {"heads": 3, "seed": 0}, "no such model")
    add_plan(group, [heads_8, heads_3], command=["-m", "heads=3,8"], seeds=[0], margin_nats=None)
    waiting, skipped = exported()[2]["planned"]
    assert (waiting["run_id"], waiting["status"], waiting["values"]) == ("h8", "not_run", {"heads": 8, "seed": 0})
    assert (skipped["status"], skipped["reason"]) == ("skipped", "no such model")


def test_a_point_that_cannot_be_says_its_heads_and_a_run_that_failed_early_its_costs(
    make_run: MakeRun, exported: Exported
) -> None:
    make_run("heads=4", geometry={}, costs={}, summary={}, status="skipped", run_id="skipped-1")
    failed = make_run("heads=8", summary={}, status="failed")
    runs = exported()[0].set_index("run_id")
    assert runs["heads"].to_dict() == {"skipped-1": 4, failed.run_id: 8}
    assert runs["kv_heads"].isna().to_dict() == {"skipped-1": True, failed.run_id: False}
    assert runs["cost/parameters"].dropna().to_dict() == {failed.run_id: failed.costs["parameters"]}


def test_the_manifest_says_what_runs_must_agree_in(make_run: MakeRun, exported: Exported) -> None:
    make_run("heads=8")
    assert {"heads", "seed", "training.learning_rate", "data_hash"} <= set(exported()[2]["identity"])
