from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from analysis.compare import LEARNING_RATE, differing, mixture, not_alike, only, split, tuned
from analysis.findings import AnalysisError
from analysis.load import typed
from analysis.question import Question
from analysis.verdict import judge

MakeRuns = Callable[..., pd.DataFrame]


def groups_of(*tables: pd.DataFrame, factor: str = "heads", varying: tuple[str, ...] = ()):
    return split(typed(pd.concat(tables), factor, "val/loss"), factor, varying)


def test_a_sweep_over_heads_is_one_group_though_kv_heads_and_head_dim_vary(make_runs: MakeRuns) -> None:
    (group,) = groups_of(make_runs({1: [1.9], 2: [1.8], 16: [1.7]}))
    assert len(group.runs) == 3
    assert mixture([group]) is None
    assert group.condition["model.d_model"] == 128


def test_a_table_of_two_sizes_is_split_and_the_setting_is_named_with_its_values(make_runs: MakeRuns) -> None:
    groups = groups_of(
        make_runs({1: [1.9], 2: [1.8]}), make_runs({1: [1.7, 1.7], 2: [1.6, 1.6]}, **{"config.model.d_model": 256})
    )
    assert [len(group.runs) for group in groups] == [4, 2]
    assert differing(groups) == {"model.d_model": [256, 128]}
    with pytest.raises(AnalysisError, match=r"mixes 2 experiments.*model\.d_model \(256, 128\)"):
        only(groups)


def test_what_does_not_decide_a_result_does_not_split(make_runs: MakeRuns) -> None:
    names = [
        "logger.mode",
        "group",
        "data.path",
        "data.train",
        "measurement.decode",
        "sweep.seed",
    ]
    watched = make_runs({1: [1.9]}, **{f"config.{name}": "one" for name in names})
    other = make_runs({2: [1.9]}, **{f"config.{name}": None for name in names})
    assert len(groups_of(watched, other)) == 1


def test_grouped_and_full_attention_are_two_experiments(make_runs: MakeRuns) -> None:
    shared = make_runs({4: [1.9], 8: [1.8]}).assign(kv_heads=2, **{"config.kv_heads": 2})
    groups = groups_of(make_runs({4: [1.9], 8: [1.8]}), shared)
    assert differing(groups) == {"kv_heads": ["as many as heads", 2]}


def test_one_head_belongs_to_the_multi_query_sweep_it_was_written_for(make_runs: MakeRuns) -> None:
    queries = make_runs({1: [1.9], 4: [1.8]}).assign(kv_heads=1, **{"config.kv_heads": 1})
    (group,) = groups_of(queries)
    assert len(group.runs) == 2
    both = groups_of(queries, make_runs({1: [1.9], 4: [1.8], 8: [1.8]}))
    assert [len(group.runs) for group in both] == [3, 2]


def test_full_attention_written_out_is_full_attention(make_runs: MakeRuns) -> None:
    written = make_runs({4: [1.9], 8: [1.8]})
    written["config.kv_heads"] = written["heads"]
    written["config.head_dim"] = written["head_dim"]
    assert len(groups_of(written, make_runs({1: [1.9], 2: [1.8]}))) == 1


def test_exports_with_and_without_kv_heads_and_with_numbers_as_text_are_one_group(make_runs: MakeRuns) -> None:
    without = make_runs({8: [1.9]}).drop(columns=["kv_heads", "config.kv_heads"])
    text = make_runs({8: [1.9]}).astype({"heads": str, "kv_heads": str, "config.model.d_model": str})
    (group,) = groups_of(without, text, make_runs({8: [1.9]}))
    assert group.runs["heads"].tolist() == [8, 8, 8]


def test_another_explicit_head_width_is_another_experiment(make_runs: MakeRuns) -> None:
    wide = make_runs({4: [1.9], 8: [1.9]}).assign(head_dim=64, **{"config.head_dim": 64})
    assert differing(groups_of(make_runs({4: [1.9], 8: [1.9]}), wide)) == {"head_dim": [None, 64]}


def test_a_sweep_over_kv_heads_holds_heads_fixed(make_runs: MakeRuns) -> None:
    few, many = make_runs({8: [1.9]}), make_runs({8: [1.9]}).assign(kv_heads=2, **{"config.kv_heads": 2})
    (group,) = groups_of(few, many, factor="kv_heads")
    assert group.condition["heads"] == 8
    assert len(groups_of(few, many, make_runs({16: [1.8]}), factor="kv_heads")) == 2


def test_a_setting_meant_to_vary_does_not_split(make_runs: MakeRuns) -> None:
    low, high = make_runs({4: [1.9]}), make_runs({8: [1.9]}, **{"config.training.learning_rate": 0.003})
    assert len(groups_of(low, high)) == 2
    assert len(groups_of(low, high, varying=("training.learning_rate",))) == 1


def test_a_run_that_never_finished_joins_the_experiment_that_it_fits(make_runs: MakeRuns) -> None:
    small, large = make_runs({1: [1.9]}), make_runs({1: [1.7]}, **{"config.model.d_model": 256})
    failed = make_runs({2: [float("nan")]}, status="failed", data_hash=None, **{"config.model.d_model": 256})
    by_width = {group.condition["model.d_model"]: group for group in groups_of(small, large, failed)}
    assert by_width[256].runs["status"].tolist() == ["finished", "failed"]
    assert len(by_width[128].runs) == 1


def test_a_planned_run_that_knows_only_its_heads_joins_the_only_experiment(make_runs: MakeRuns) -> None:
    grouped = make_runs({4: [1.9], 8: [1.8]}).assign(kv_heads=2, **{"config.kv_heads": 2})
    planned = pd.DataFrame({"run_id": ["x"], "seed": [3], "heads": [16], "status": ["not_run"]})
    (group,) = groups_of(grouped, planned)
    assert "x" in set(group.runs["run_id"])


def test_runs_of_other_code_are_named_but_not_split(make_runs: MakeRuns) -> None:
    old, new = make_runs({1: [1.9]}, **{"code.commit": "aaa"}), make_runs({2: [1.9]}, **{"code.commit": "bbb"})
    (group,) = groups_of(old, new)
    (finding,) = not_alike(group.runs, "heads")
    assert finding.text == "code.commit is not alike: aaa, bbb"


def test_two_head_widths_under_one_head_count_are_named(make_runs: MakeRuns) -> None:
    mixed = pd.concat([make_runs({4: [1.9]}), make_runs({4: [1.8]}).assign(head_dim=64)])
    (group,) = groups_of(mixed)
    assert [f.text for f in not_alike(group.runs, "heads")] == ["heads=4 mixes head_dim 32, 64 in one mean"]


@pytest.fixture
def grid(make_runs: MakeRuns) -> pd.DataFrame:
    """Seeds 0 and 1 to tune on, 2 to 7 to test: one head likes 0.001, four like 0.003; 0.01 suits neither."""
    wobble = np.array([0, 0.001, -0.001, 0.002, -0.002, 0.0005, 0.0007, -0.0003])
    loss = {(1, 0.001): 1.80, (1, 0.003): 1.85, (1, 0.01): 2.0, (4, 0.001): 1.90, (4, 0.003): 1.70, (4, 0.01): 2.0}
    tables = [
        make_runs({heads: list(mean + np.roll(wobble, heads))}, **{LEARNING_RATE: rate}).assign(
            run_id=lambda t, rate=rate: t["run_id"] + f"-lr{rate}"
        )
        for (heads, rate), mean in loss.items()
    ]
    return typed(pd.concat(tables), "heads", "val/loss")


def test_each_arm_keeps_its_own_best_and_loses_the_seeds_it_was_chosen_on(grid: pd.DataFrame) -> None:
    found = tuned(grid, "heads", "val/loss", tuning_seeds=[0, 1])
    assert found.choice["chosen"].to_dict() == {1: 0.001, 4: 0.003}
    assert set(found.runs["seed"]) == {2, 3, 4, 5, 6, 7}
    assert set(zip(found.runs["heads"], found.runs[LEARNING_RATE], strict=True)) == {(1, 0.001), (4, 0.003)}


def test_the_choice_looks_at_no_test_seed(grid: pd.DataFrame) -> None:
    changed = grid.copy()
    changed.loc[(changed["seed"] > 1) & (changed[LEARNING_RATE] == 0.01), "val/loss"] = 0.1
    assert tuned(changed, "heads", "val/loss", [0, 1]).choice["chosen"].to_dict() == {1: 0.001, 4: 0.003}


def test_a_choice_at_the_edge_of_the_values_tried_is_named(grid: pd.DataFrame) -> None:
    (finding,) = tuned(grid, "heads", "val/loss", [0, 1]).findings
    assert finding.text.endswith("lies at the edge of those tried for 1 (0.001)")


def test_a_value_that_failed_on_a_tuning_seed_is_not_chosen(grid: pd.DataFrame) -> None:
    broken = (grid["heads"] == 4) & (grid[LEARNING_RATE] == 0.003) & (grid["seed"] == 1)
    grid.loc[broken, "status"] = "diverged"
    assert tuned(grid, "heads", "val/loss", [0, 1]).choice["chosen"].to_dict() == {1: 0.001, 4: 0.001}


def test_sensitivity_is_the_mean_loss_over_the_best(grid: pd.DataFrame) -> None:
    choice = tuned(grid, "heads", "val/loss", [0, 1]).choice
    assert choice.loc[1, "sensitivity"] == pytest.approx((0 + 0.05 + 0.2) / 3, abs=0.002)


def test_the_verdict_changes_with_tuning(grid: pd.DataFrame) -> None:
    shared = judge(grid[grid[LEARNING_RATE] == 0.001], Question(margin=0.02)).verdicts[0]
    found = tuned(grid, "heads", "val/loss", [0, 1])
    (fair,) = judge(found.runs, Question(margin=0.02, varying=(LEARNING_RATE,))).verdicts
    assert (shared.answer, fair.answer) == ("worse_throughout", "every_step_helps")
    assert "training.learning_rate" not in fair.condition


def test_an_arm_without_a_choice_or_no_seed_to_test_on_is_refused(grid: pd.DataFrame) -> None:
    with pytest.raises(AnalysisError, match="none to test on"):
        tuned(grid, "heads", "val/loss", range(8))
    grid.loc[grid["heads"] == 4, "status"] = "failed"
    with pytest.raises(AnalysisError, match=r"heads=4 has no config\.training\.learning_rate"):
        tuned(grid, "heads", "val/loss", [0, 1])
