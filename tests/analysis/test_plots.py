"""What the pictures show, read back from their axes."""

import doctest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from analysis.compare import LEARNING_RATE
from analysis.findings import AnalysisError
from analysis.load import Export, load
from analysis.plots import costs, figures, style
from analysis.plots.costs import draw_cache_size, draw_frontier, draw_speed
from analysis.plots.differences import draw_differences, draw_pairs
from analysis.plots.figures import Drawn, figures_of_export, figures_of_verdict
from analysis.plots.learning_curves import draw_learning_curves
from analysis.plots.loss import draw_learning_rates, draw_loss
from analysis.plots.style import caption_below, looks, new_figure, save
from analysis.question import Question
from analysis.verdict import Verdict, judge
from tests.analysis.export_maker import curves, write_export

MakeRuns = Callable[..., pd.DataFrame]
Noisy = Callable[..., dict[int, list[float]]]
HEADS = {16: 1.85, 1: 1.9, 2: 1.86, 4: 1.85, 8: 1.851}


@pytest.fixture
def ax() -> Axes:
    return new_figure().add_subplot()


@pytest.fixture
def runs(make_runs: MakeRuns, noisy: Noisy) -> pd.DataFrame:
    table = make_runs(noisy(HEADS, seeds=3)).assign(**{"train/tokens_per_second": 18300.0})
    table["attention_kernel"] = np.where(table["heads"] == 16, "math", "fused:flash")
    return table.assign(**{"costs.cache_bytes_per_token": 4096})


def xs(line: Any) -> list[float]:
    return np.asarray(line.get_xdata(), dtype=float).tolist()


def ys(line: Any) -> list[float]:
    return np.asarray(line.get_ydata(), dtype=float).tolist()


def bars(ax: Axes) -> list[Any]:
    """The error bars that have a point; a legend's have none."""
    return [box for box in ax.containers if len(ys(cast(Any, box).lines[0]))]


def legend_of(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def ticks_of(ax: Axes) -> list[str]:
    return [label.get_text() for label in ax.get_xticklabels()]


def test_examples_in_the_docstrings_hold() -> None:
    assert [doctest.testmod(module).failed for module in (style, costs)] == [0, 0]


def test_the_axis_has_ticks_at_exactly_the_head_counts_that_ran(runs: pd.DataFrame, ax: Axes) -> None:
    for drawn in (draw_loss(runs, ax), draw_speed(runs, new_figure().add_subplot())):
        assert ticks_of(drawn) == ["1", "2", "4", "8", "16"]
        assert drawn.get_xticks().tolist() == [1, 2, 4, 8, 16]
        assert drawn.xaxis.get_minorticklocs().tolist() == []
        assert drawn.get_xscale() == "log"


def test_the_legend_holds_exactly_the_head_counts_in_numeric_order(runs: pd.DataFrame, ax: Axes) -> None:
    table = curves(runs).merge(runs[["run_id", "heads"]], on="run_id")
    draw_learning_curves(table, ax)
    assert legend_of(ax) == [f"{heads} (n = 3)" for heads in (1, 2, 4, 8, 16)]


def test_every_seed_is_a_dot_and_the_bar_is_the_t_interval(make_runs: MakeRuns, ax: Axes) -> None:
    draw_loss(make_runs({1: [1.0, 1.2, 1.4], 8: [0.9, 1.0, 1.1]}), ax, reference=1, margin=0.05)
    dots = [y for line in ax.lines if line.get_marker() == "o" for y in ys(line)]
    assert sorted(dots) == [0.9, 1.0, 1.0, 1.1, 1.2, 1.4]
    ends = bars(ax)[0].lines[2][0].get_segments()[0][:, 1]
    # mean 1.2, standard deviation 0.2, t(0.975, 2 df) = 4.3027
    assert ends.tolist() == pytest.approx([1.2 - 4.3027 * 0.2 / 3**0.5, 1.2 + 4.3027 * 0.2 / 3**0.5], abs=1e-4)
    band = next(patch for patch in cast(list[Rectangle], ax.patches) if patch.get_height() > 0)
    assert (band.get_y(), band.get_height()) == pytest.approx((1.15, 0.1))


def test_one_seed_gets_a_dot_and_neither_interval_nor_band(make_runs: MakeRuns, ax: Axes) -> None:
    runs = make_runs({1: [1.0], 8: [0.9]})
    draw_loss(runs, ax)
    assert not any(bar.has_yerr for bar in bars(ax))
    curve = draw_learning_curves(curves(runs).merge(runs[["run_id", "heads"]], on="run_id"), new_figure().add_subplot())
    assert len(curve.collections) == 0


def test_a_mean_curve_ends_where_its_first_run_ends(make_runs: MakeRuns, ax: Axes) -> None:
    runs = make_runs({8: [1.0, 5.0]})
    steps = curves(runs)
    cut = steps[(steps["run_id"] != "heads8-seed1") | (steps["step"] <= 30)]
    draw_learning_curves(cut.merge(runs[["run_id", "heads"]], on="run_id"), ax)
    assert xs(ax.lines[0]) == [1000, 2000, 3000]


def test_counts_that_a_log_axis_cannot_hold_are_refused(make_runs: MakeRuns, ax: Axes) -> None:
    with pytest.raises(AnalysisError, match="heads holds 0; a log axis of counts needs values above 0"):
        draw_loss(make_runs({8: [1.0]}).assign(heads=0), ax)


def test_speeds_of_unlike_kernels_are_told_apart(runs: pd.DataFrame, ax: Axes) -> None:
    draw_speed(runs, ax)
    assert legend_of(ax) == ["fused:flash", "math"]
    assert ax.get_ylim()[0] == 0


def test_the_cache_line_is_the_formula_and_the_points_are_measured(make_runs: MakeRuns, ax: Axes) -> None:
    mha = make_runs({8: [1.0]}).assign(**{"costs.cache_bytes_per_token": 4096})
    mqa = mha.assign(kv_heads=1, **{"costs.cache_bytes_per_token": 512, "cache/bytes": 32768})
    draw_cache_size(pd.concat([mha, mqa]), ax)
    assert legend_of(ax) == ["MHA, heads 8: 4 KiB/token", "MQA, heads 8 on kv_heads 1: 512 B/token"]
    line, points = ax.lines[0], ax.lines[1]
    assert [y / x for x, y in zip(xs(line), ys(line), strict=True)] == pytest.approx([4096, 4096])
    assert ys(points) == [262144]


def test_the_frontier_line_joins_what_no_other_beats(ax: Axes) -> None:
    points = pd.DataFrame(
        {"cost": [1.0, 2.0, 4.0], "value": [3.0, 3.5, 1.0], "on_frontier": [True, False, True]}, index=[1, 2, 4]
    ).assign(cost_low=np.nan, cost_high=np.nan, low=np.nan, high=np.nan)
    draw_frontier(points, ax, cost="cache/bytes", knee=4)
    assert xs(ax.lines[0]) == [1.0, 4.0]
    assert [text.get_text() for text in ax.texts] == ["1", "2", "4, knee"]
    assert [bar.lines[0].get_markerfacecolor() == "none" for bar in bars(ax)] == [False, True, False]


def test_each_pair_is_a_row_with_what_its_interval_shows(make_runs: MakeRuns, noisy: Noisy, ax: Axes) -> None:
    (verdict,) = judge(make_runs(noisy({1: 1.9, 2: 1.8, 4: 1.7})), Question(margin=0.01)).verdicts
    draw_pairs(verdict.pairs, ax, margin=verdict.margin.value)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1 to 2", "1 to 4", "2 to 4"]
    assert all(text.get_text().startswith("better, by more than the margin, p") for text in ax.texts)
    lines = [line for line in ax.lines if len(xs(line)) == 2 and line.get_linewidth() > 1]
    assert [tuple(xs(line)) for line in lines] == [(pair.low, pair.high) for pair in verdict.pairs]


def test_the_opening_figure_has_the_intervals_of_the_table(make_runs: MakeRuns, noisy: Noisy, ax: Axes) -> None:
    runs = make_runs(noisy({1: 1.9, 2: 1.8, 4: 1.85}))
    (verdict,) = judge(runs, Question(margin=0.01)).verdicts
    assert verdict.focus == 2
    draw_differences(verdict, ax, verdict.focus)
    ends = [sorted(bar.lines[2][0].get_segments()[0][:, 1].tolist()) for bar in bars(ax)]
    first, last = verdict.pair(1, 2), verdict.pair(2, 4)
    assert first is not None
    assert last is not None
    assert ends == [pytest.approx([-first.high, -first.low]), pytest.approx([last.low, last.high])]


def test_the_heat_map_frames_the_best_rate_and_leaves_a_missing_cell_empty(make_runs: MakeRuns, ax: Axes) -> None:
    table = pd.concat([make_runs({1: [2.0], 8: [1.0]}), make_runs({1: [1.5, 1.7]}).assign(**{LEARNING_RATE: 0.01})])
    draw_learning_rates(table, ax)
    words = [text.get_text() for text in ax.texts]
    assert words == ["2\nn = 1", "1.6\nn = 2", "1\nn = 1"]
    assert [(patch.get_x(), patch.get_y()) for patch in cast(list[Rectangle], ax.patches)] == [
        (1.03, 0.03),
        (0.03, 1.03),
    ]


def test_an_export_gets_the_figures_that_it_has_data_for(
    make_runs: MakeRuns, runs: pd.DataFrame, tmp_path: Path
) -> None:
    export = load(write_export(tmp_path / "some", runs, curves(runs)))
    (verdict,) = judge(export.runs).verdicts
    gallery = figures_of_verdict(verdict, export)
    names = [drawn.name for drawn in gallery.drawn]
    assert names == [
        *(
            "loss",
            "pairs",
            "other_margins",
            "learning_curves",
            "train_tokens_per_second",
            "decode_ms_per_token",
        ),
        "frontier_decode_ms_per_token",
    ]
    assert all("n = 3" in drawn.caption for drawn in gallery.drawn if drawn.name != "other_margins")
    assert all(export.hash in drawn.caption for drawn in gallery.drawn)
    assert [drawn.name for drawn in figures_of_export(export, "heads", "val/loss").drawn] == ["cache_size"]


def test_a_figure_without_its_columns_is_a_sentence(make_runs: MakeRuns, tmp_path: Path) -> None:
    bare = make_runs({1: [1.9], 2: [1.8]})[["run_id", "status", "seed", "heads", "val/loss"]]
    export = load(write_export(tmp_path / "some", bare))
    (verdict,) = judge(export.runs).verdicts
    assert [drawn.name for drawn in figures_of_verdict(verdict, export).drawn] == ["loss"]
    (finding,) = figures_of_export(export, "heads", "val/loss").findings
    assert finding.text == "no figure of cache size: the table has no column 'cache/bytes'"


def test_the_same_figure_is_the_same_file_and_leaves_no_trace(runs: pd.DataFrame, tmp_path: Path) -> None:
    before = plt.get_fignums(), dict(plt.rcParams)

    def written(folder: Path) -> Iterator[bytes]:
        with looks():
            figure = new_figure()
            draw_loss(runs, figure.add_subplot())
            caption_below(figure, "What it shows. " * 20)
            yield from (path.read_bytes() for path in save(figure, folder, "loss"))

    first, again = list(written(tmp_path / "a")), list(written(tmp_path / "b"))
    assert first == again
    assert first[1].startswith(b"\x89PNG")
    assert (plt.get_fignums(), dict(plt.rcParams)) == before


def test_a_new_kind_of_figure_is_one_function(
    runs: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "_KINDS", {kind.name: kind for kind in figures.kinds(spans=False)})

    @figures.figure("toy", at=15, needs=("heads",))
    def toy(verdict: Verdict, export: Export) -> Iterator[Drawn]:
        yield Drawn("toy", f"toy of {verdict.factor}", "Nothing.", new_figure())

    @figures.figure("bad toy", at=16, needs=("no.such",))
    def bad(verdict: Verdict, export: Export) -> Iterator[Drawn]:
        raise AssertionError("not asked where its columns are missing")

    export = load(write_export(tmp_path / "some", runs, curves(runs)))
    gallery = figures_of_verdict(judge(export.runs).verdicts[0], export)
    assert [drawn.name for drawn in gallery.drawn][:3] == ["loss", "toy", "pairs"]
    assert "no figure of bad toy: the table has no column 'no.such'" in [str(finding) for finding in gallery.findings]
