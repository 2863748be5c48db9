from collections.abc import Callable

import pandas as pd
import pytest

from analysis.compare import differing, mixture, not_alike, only, split
from analysis.findings import AnalysisError
from analysis.load import typed

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
