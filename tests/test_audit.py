"""The audit: every head count beside the reference, what is matched, what is refused, and how it is asked for."""

import json
import subprocess
import sys
from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from src.audit import table
from src.audit.__main__ import app
from src.audit.rows import COMPARED, Refused, Row, audit
from src.config import REGIMES
from src.costs import Costs
from src.errors import ConfigError
from src.geometry import Geometry
from src.io_spec import TokenSpec
from src.regimes import HELD
from src.sweeps.grid import grid


def rows_of(*overrides: str) -> list[Row | Refused]:
    return audit(grid(overrides), vocabulary_size=65)


def shown(*overrides: str, width: int = 80) -> str:
    console = Console(file=StringIO(), width=width, color_system=None)
    for part in table.tables(rows_of(*overrides), vocabulary_size=65, width=width):
        console.print(part)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_every_regime_marks_what_it_promises_as_matched() -> None:
    met = [row for row in rows_of(f"regime={','.join(REGIMES)}", "heads=1,2,3,8") if isinstance(row, Row)]
    assert {row.config.regime for row in met} == set(REGIMES)
    for row in met:
        held = HELD[row.geometry.regime]
        if held in COMPARED:
            assert row.is_matched(held)
        else:
            assert getattr(row.geometry, held) == getattr(row.geometry.reference, held)


def test_a_ratio_is_this_cost_over_the_references() -> None:
    (row,) = rows_of("heads=8", "kv_heads=2", "model=mini")
    assert isinstance(row, Row)
    assert row.ratio("cache_bytes_per_token") == 0.25
    assert row.costs == Costs.of(row.geometry, TokenSpec(65), "float32")
    assert (
        row.ratio("parameters")
        == row.costs.parameters / Costs.of(row.geometry.reference, TokenSpec(65), "float32").parameters
    )
    assert not row.is_matched("cache_bytes_per_token")


def test_at_fixed_width_mha_matches_the_reference_in_all_costs_but_is_it_at_one_head_count() -> None:
    met = [row for row in rows_of("heads=1,2,4,8,16") if isinstance(row, Row)]
    assert [row.is_reference for row in met] == [False, False, True, False, False]
    assert all(row.is_matched(cost) for row in met for cost in COMPARED)


def test_refused_head_counts_stand_in_their_place_with_the_reason() -> None:
    rows = rows_of("heads=2,3,4")
    assert [type(row) for row in rows] == [Row, Refused, Row]
    assert isinstance(rows[1], Refused)
    assert "heads=3 does not divide d_model=128" in rows[1].reason


def test_without_a_possible_reference_ratios_are_missing_and_not_zero() -> None:
    (row,) = rows_of("heads=3", "model.d_model=6")
    assert isinstance(row, Row)
    assert row.as_dict()["ratio"] == dict.fromkeys(COMPARED)
    assert row.as_dict()["matched"] == []
    assert "no reference" in shown("heads=3", "model.d_model=6")


def test_bytes_are_of_the_asked_dtype() -> None:
    full, half = (rows_of("heads=4", f"training.dtype={dtype}")[0] for dtype in ("auto", "bfloat16"))
    assert isinstance(full, Row)
    assert isinstance(half, Row)
    assert half.costs.cache_bytes is not None
    assert full.costs.cache_bytes == 2 * half.costs.cache_bytes


def test_a_grid_is_every_combination_with_the_last_list_fastest() -> None:
    configs = list(grid(["model=nano,mini", "heads=range(2,4)", "kv_heads=null,1", "seed=7"]))
    asked = [(c.model.name, c.heads, c.kv_heads) for c in configs]
    assert asked[:4] == [("nano", 2, None), ("nano", 2, 1), ("nano", 3, None), ("nano", 3, 1)]
    assert [name for name, _, _ in asked[4:]] == ["mini"] * 4
    assert {c.seed for c in configs} == {7}


def test_a_point_of_a_grid_is_what_hydra_composes_for_it() -> None:
    from src.compose import compose

    point = next(iter(grid(["model.d_model=64,128", "data.path='a b',null", "regime=equal_cost,equal_params"])))
    assert point == compose(["model.d_model=64", "data.path='a b'", "regime=equal_cost"])


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("hed=4", "did you mean 'heads'"),
        ("heads=0,1", "heads=0"),
        ("heads=1,two", "heads='two'"),
        ("model=nano,nanoo", "nanoo"),
        ("heads=[", "cannot be read"),
        ("regime=equal_cash", "equal_cash"),
    ],
)
def test_a_grid_with_a_mistake_is_one_clear_error(override: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        list(grid([override]))
    assert told in str(caught.value)


def test_the_table_fits_80_columns_and_names_what_is_held() -> None:
    for overrides in (["model=gpt2", "regime=equal_params"], ["attention=latent", "model.positions=rotary"]):
        text = shown(*overrides, "heads=1,4,16")
        assert max(map(len, text.splitlines())) <= 80
        assert "…" not in text
    assert "regime=equal_params holds parameters" in shown("regime=equal_params", "heads=2")


def test_the_table_shows_values_ratios_matches_and_refusals() -> None:
    lines = shown("regime=equal_params", "heads=2,16", width=160).splitlines()
    (row,) = [line for line in lines if line.split()[:5] == ["2", "2", "32", "64", "640"]]
    assert " ".join(row.split()[5:]) == "804K = 131K x0.5 4.97M x0.962 1.66M x0.962 3.16MiB x0.962 2KiB x0.5"
    assert any(line.startswith("reference: MHA, heads=4, head_dim=32, ffn_width=512") for line in lines)
    assert any(line.startswith("refused: heads=16 of head_dim=32 cannot meet") for line in lines)


def test_rows_of_one_regime_stand_together_however_they_were_asked() -> None:
    assert shown("heads=2,4", "regime=equal_cost,equal_params").count("regime=equal_cost") == 1
    assert "regime=fixed_head_dim holds head dim" in shown("heads=3", "head_dim=50")


def test_shared_kv_heads_in_the_reference_are_named() -> None:
    assert "reference: MQA, heads=4, kv_heads=1" in shown("heads=4", "reference_kv_heads=1", width=160)
    assert "reference: GQA, heads=4, kv_heads=2" in shown("heads=4", "reference_kv_heads=2", width=160)


def test_the_command_takes_all_head_counts_unless_told_and_gives_exact_json() -> None:
    result = CliRunner().invoke(app, ["regime=equal_cache", "model=mini", "--json"])
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert [row["heads"] for row in rows] == list(range(1, 17))
    met = {row["heads"]: row for row in rows if row["status"] == "met"}
    assert sorted(met) == [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 16]
    assert met[8]["is_reference"]
    assert met[8]["matched"] == list(COMPARED)
    assert met[12]["cache_bytes_per_token"] == 2 * 240 * 4 * 4
    assert "kv_heads that meet it: 1" in next(row["reason"] for row in rows if row["heads"] == 7)


def test_the_command_counts_the_asked_vocabulary() -> None:
    result = CliRunner().invoke(app, ["model=gpt2", "heads=12", "--vocabulary-size", "50257", "--json"])
    assert json.loads(result.stdout)[0]["parameters"] == 124_439_808


def test_the_command_fails_where_nothing_can_be_met_or_a_setting_is_unknown() -> None:
    assert CliRunner().invoke(app, ["heads=3,5"]).exit_code == 2
    wrong = CliRunner().invoke(app, ["hed=3"])
    assert wrong.exit_code == 2
    assert "did you mean 'heads'" in wrong.output
    assert "Traceback" not in wrong.output


def test_planning_loads_no_torch_and_the_rows_no_hydra() -> None:
    code = "import sys; import src.audit.rows; print(sorted({'torch', 'hydra', 'wandb', 'rich'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "[]"
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "src.audit", "heads=2"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "src.regimes" in run.stderr
    assert "torch" not in run.stderr


def test_the_geometry_of_a_row_is_the_one_that_would_be_trained() -> None:
    (row,) = rows_of("heads=2", "regime=equal_cost")
    assert isinstance(row, Row)
    assert row.geometry == Geometry.of(row.config)
