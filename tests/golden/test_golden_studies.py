"""The studies in analysis/results: their exports are read as they were, their arms keep the published numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.golden.commands import HERE, load_export, verdicts_of

RESULTS = Path(__file__).parents[2] / "analysis" / "results"
ARMS: dict[str, dict[str, Any]] = json.loads((HERE / "arms.json").read_text(encoding="utf-8"))
MUST_STAY = (
    "the means, scatters and counts of a published study are facts of its runs. They change only with the runs "
    "themselves (a study trained or exported anew, which says so under Results in the CHANGELOG), never with the rule "
    "that judges them; then put the new rows of verdict.json into tests/golden/arms.json"
)


@pytest.mark.parametrize("study", ARMS)
def test_a_study_is_read_as_it_was_exported(study: str) -> None:
    export = load_export(RESULTS / study / "export")
    assert export.hash == ARMS[study]["export"], MUST_STAY
    assert not [finding for finding in export.findings if "changed after the export" in str(finding)]
    assert set(export.runs["status"]) == {"finished"}


@pytest.mark.parametrize("study", ARMS)
def test_each_arm_s_mean_scatter_and_count_follow_from_the_table_of_runs(study: str) -> None:
    runs = load_export(RESULTS / study / "export").runs
    for experiment in ARMS[study]["experiments"]:
        apart = {"data_hash": "data_hash", "model.name": "config.model.name", "model.init": "config.model.init"}
        own = runs
        for name, column in apart.items():
            own = own[own[column] == experiment["apart"][name]]
        for arm in experiment["arms"]:
            values = own[own[experiment["factor"]] == arm["arm"]][experiment["metric"]]
            facts = {"n": len(values), "mean": values.mean(), "sd": values.std(ddof=1)}
            assert facts == pytest.approx({name: arm[name] for name in facts}, rel=1e-12), MUST_STAY


@pytest.mark.parametrize("study", ARMS)
def test_the_analysis_gives_each_arm_the_numbers_that_were_published(study: str) -> None:
    verdicts, golden = verdicts_of(RESULTS / study / "export"), ARMS[study]["experiments"]
    assert len(verdicts) == len(golden), MUST_STAY
    for verdict, was in zip(verdicts, golden, strict=True):
        assert (verdict["factor"], verdict["metric"]) == (was["factor"], was["metric"])
        assert [arm["arm"] for arm in verdict["arms"]] == [arm["arm"] for arm in was["arms"]], MUST_STAY
        for got, arm in zip(verdict["arms"], was["arms"], strict=True):
            assert known(got) == pytest.approx(known(arm), rel=1e-9, nan_ok=True), f"arm {arm['arm']}: {MUST_STAY}"


def known(arm: dict[str, Any]) -> dict[str, float]:
    """The numbers of an arm; what was not measured is None, and stays so."""
    return {name: math.nan if value is None else value for name, value in arm.items()}
