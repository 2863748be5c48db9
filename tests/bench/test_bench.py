"""The benchmark: who is measured, what is counted, and what a reader is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from src.bench.__main__ import app
from src.bench.measure import NAIVE, OURS, Arm, make_arms, measure
from src.bench.show import draw, mixed_kernels
from src.costs import decode_bytes_read_per_token
from src.geometry import Geometry
from src.io_spec import TokenSpec
from src.sweeps.grid import grid
from src.training.runtime import choose_runtime

TINY = ["model.d_model=32", "model.layers=2", "context_length=32", "device=cpu", "training.threads=1"]


def arms_of(*overrides: str, batches: tuple[int, ...] = (1,)) -> list[Arm]:
    configs = list(grid([*TINY, *overrides]))
    runtime = choose_runtime(configs[0], Geometry.of(configs[0]), TokenSpec(65))
    return list(make_arms(configs, runtime, 65, batches))


def clock_of(step: float) -> Callable[[], float]:
    """A clock that moves on by so much at every reading."""
    now = [16_000.0]

    def clock() -> float:
        now[0] += step
        return now[0]

    return clock


def test_shared_kv_heads_are_also_measured_as_naive_code_repeats_them() -> None:
    arms = arms_of("heads=4", "kv_heads=1,2,4", batches=(1, 3))
    told = [(arm.geometry.kv_heads, arm.batch, arm.way) for arm in arms]
    assert told == [
        *((kv, batch, way) for kv in (1, 2) for batch in (1, 3) for way in (OURS, NAIVE)),
        *((4, batch, OURS) for batch in (1, 3)),
    ]
    kernels = {(arm.way, arm.kernel.partition(":")[0]) for arm in arms}
    assert kernels == {(OURS, "folded"), (NAIVE, "repeat")}


def test_both_ways_decode_the_same_model() -> None:
    ours, naive = arms_of("heads=4", "kv_heads=2")
    for one, other in zip(ours.model.parameters(), naive.model.parameters(), strict=True):
        assert one.equal(other)


def test_bytes_read_are_the_least_for_ours_and_count_the_copies_for_naive() -> None:
    ours, naive = arms_of("heads=4", "kv_heads=1", batches=(3,))
    g = ours.geometry
    assert ours.bytes_read_per_step == decode_bytes_read_per_token(g, 65, 3, 32, "float32")
    copies = 2 * (2 * 4 * 8) * 2 * 3 * 32 * 4  # written and read: keys and values, heads, width, layers, batch, ...
    assert naive.bytes_read_per_step == ours.bytes_read_per_step + copies


def test_times_are_of_the_tokens_that_were_decoded_and_the_first_round_does_not_count() -> None:
    turns: list[str] = []
    arms = arms_of("heads=4", "kv_heads=2,4", "attention_kernel=folded", batches=(2,))
    rows = measure(arms, decode_tokens=8, rounds=3, bandwidth=1e6, clock=clock_of(0.5), tick=turns.append)
    assert len(turns) == 2 * (3 + 1)
    assert [row.kv_heads for row in rows] == [2, 4]
    for row, arm in zip(rows, arms, strict=True):
        assert row.rounds == 3
        assert row.decode_ms_per_token == pytest.approx(1000 * 0.5 / 8)
        assert row.decode_tokens_per_second == pytest.approx(2 * 8 / 0.5)
        assert row.prefill_tokens_per_second == pytest.approx(2 * 24 / 0.5)
        assert row.cache_bytes == 2 * row.kv_heads * 8 * 2 * 2 * 32 * 4
        assert row.bandwidth_share == pytest.approx(arm.bytes_read_per_step / (0.5 / 8) / 1e6)


def test_mixed_kernels_are_said() -> None:
    rows = measure(
        arms_of("heads=4", "kv_heads=2,4"), decode_tokens=2, rounds=1, bandwidth=1e9, clock=clock_of(1.0), tick=print
    )
    assert mixed_kernels(rows) is None
    assert "attention_kernel=" in (mixed_kernels([rows[0], replace(rows[0], kernel="fused:math")]) or "")


def test_the_picture_has_ticks_at_the_kv_heads_that_ran_only() -> None:
    from matplotlib.figure import Figure

    rows = measure(
        arms_of("heads=8", "kv_heads=1,4,8"), decode_tokens=2, rounds=1, bandwidth=1e9, clock=clock_of(1.0), tick=print
    )
    axes = draw(rows, Figure().subplots())
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "4", "8"]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["ours, 8 heads", "naive repeat, 8 heads"]


def test_the_command_writes_rows_and_a_picture(tmp_path: Path) -> None:
    arguments = [*TINY, "heads=4", "kv_heads=1,4", "--rounds", "1", "--decode-tokens", "2"]
    files = ["--json", str(tmp_path / "rows.json"), "--plot", str(tmp_path / "rows.png")]
    done = CliRunner().invoke(app, [*arguments, *files])
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["kv_heads"], row["way"]) for row in content["rows"]] == [(1, OURS), (1, NAIVE), (4, OURS)]
    assert content["read_bandwidth_bytes_per_second"] > 1e8
    assert (tmp_path / "rows.png").read_bytes().startswith(b"\x89PNG")


def test_latent_attention_is_measured_too() -> None:
    (arm,) = arms_of("heads=4", "attention=latent", "latent_dim=12", "rope_dim=4")
    (row,) = measure([arm], decode_tokens=2, rounds=1, bandwidth=1e9, clock=clock_of(1.0), tick=print)
    assert row.cache_bytes == (12 + 4) * 2 * 32 * 4
    assert row.kernel.startswith("absorbed")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--batch", "0"], "--batch 0"),
        (["--batch", "two"], "--batch two"),
        (["head=4"], "did you mean 'heads'"),
        (["heads=6", "kv_heads=4"], "kv_heads=4 does not divide heads=6"),
    ],
)
def test_what_cannot_be_measured_is_one_clear_error(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert words in done.stderr
