from collections.abc import Callable
from pathlib import Path

import pandas as pd

from analysis.pilot import power_from_pilot
from tests.analysis.export_maker import write_export

MakeRuns = Callable[..., pd.DataFrame]
Noisy = Callable[..., dict[int, list[float]]]


def test_a_pilots_spread_says_what_the_planned_seeds_can_show(
    make_runs: MakeRuns, noisy: Noisy, tmp_path: Path
) -> None:
    folder = write_export(tmp_path / "pilot", make_runs(noisy({1: 1.9, 2: 1.89}, seeds=6, sd=0.004)))
    enough = power_from_pilot(folder, seeds=20, arms=2, margin=0.02)
    assert "with 20 seeds 2 arms that are all alike are shown to be so in 100% of studies" in enough
    assert "Warning" not in enough
    assert "Warning: with 4 seeds an interval is about +-0.0" in power_from_pilot(folder, 4, 2, margin=0.002)
    assert "no margin is named" in power_from_pilot(folder, 4, 2, margin=None)


def test_a_pilot_of_one_arm_tells_nothing(make_runs: MakeRuns, noisy: Noisy, tmp_path: Path) -> None:
    folder = write_export(tmp_path / "pilot", make_runs(noisy({1: 1.9})))
    assert power_from_pilot(folder, 6, 5, 0.01).startswith("not known")
