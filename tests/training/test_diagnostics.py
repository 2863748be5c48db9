"""`diagnostics.interval`: what is logged of the heads, that nothing trained changes by it, and its columns."""

from __future__ import annotations

import signal

import pytest

from src.compose import compose
from src.config import config_hash
from src.data.load import load_data
from src.errors import ConfigError
from src.export.columns import step_columns
from src.heads.measure.summary import look_at_heads
from src.metrics import METRICS, check_names, declared
from src.record import read_rows
from src.training.checkpoint import load_model
from src.training.stop import StopFlag
from tests.training.conftest import Recorder, logged, weights

LOOKED_AT = "diagnostics.interval=4"
LOOKED = (LOOKED_AT, "runs_dir=looked")  # the same run by its name, so in a folder of its own
NAMES = {name.removeprefix("heads/") for name in METRICS if name.startswith("heads/")} - {"ablatable"}


def without_heads(rows):
    kept = {step: {n: v for n, v in row.items() if not n.startswith("heads/")} for step, row in rows.items()}
    return {step: row for step, row in kept.items() if row}


@pytest.mark.parametrize("also", [(), ("model.dropout=0.1", "attention=latent", "kv_heads=null", "latent_dim=8")])
def test_looking_changes_nothing_of_what_is_trained(trained, also):
    plain, looked = trained(*also), trained(*LOOKED, *also)
    assert plain.folder.name == looked.folder.name
    assert plain.folder != looked.folder
    assert without_heads(logged(looked.folder)) == logged(plain.folder)
    for name, tensor in weights(plain.folder).items():
        assert tensor.equal(weights(looked.folder)[name]), name


def test_every_layer_and_the_model_are_summed_up_at_each_interval_and_at_the_end(trained):
    rows = logged(trained(*LOOKED).folder)
    steps = [step for step, row in rows.items() if "heads/entropy" in row]
    assert steps == [4, 8, 12]
    for step in steps:
        found = {name for name in rows[step] if name.startswith("heads/")}
        layers = {f"heads/layer_{layer}/{name}" for layer in (0, 1) for name in NAMES}
        assert found == layers | {f"heads/{name}" for name in NAMES}
        assert rows[step]["heads/entropy"] == pytest.approx(
            (rows[step]["heads/layer_0/entropy"] + rows[step]["heads/layer_1/entropy"]) / 2
        )
        assert rows[step]["heads/induction_max"] == max(rows[step][f"heads/layer_{n}/induction_max"] for n in (0, 1))
        assert 0 < rows[step]["heads/entropy"] <= 1


def test_the_last_row_is_what_the_trained_model_shows_and_ends_in_the_summary(trained):
    result = trained(*LOOKED)
    last = list(read_rows(result.folder))[-1]
    loaded = load_model(result.folder)
    windows = load_data(loaded.config.data).evaluation_batches(16, loaded.config.training)
    seen = look_at_heads(loaded.model, windows.some(16)[0], None)
    assert last["heads/layer_1/ov_rank"] == pytest.approx(float(seen.numbers["ov_rank"][1].mean()), rel=1e-5)
    assert last["heads/layer_0/entropy"] == pytest.approx(float(seen.numbers["entropy"][0].mean()), rel=1e-5)
    summary = result.record.summary
    assert summary["heads/entropy"] == last["heads/entropy"]
    assert not any(name.startswith("heads/layer_") for name in summary)
    assert summary["heads/ablatable"] in [n / 8 for n in range(9)]


def test_a_run_that_is_not_looked_at_has_no_number_of_heads(trained):
    result = trained()
    assert not [name for row in logged(result.folder).values() for name in row if name.startswith("heads/")]
    assert not [name for name in result.record.summary if name.startswith("heads/")]


def test_a_stopped_run_goes_on_with_every_look_once(tiny, run_it, trained):
    stop = StopFlag()

    class StopAt(Recorder):
        def write(self, event) -> None:
            if getattr(event, "step", 0) == 6:
                stop.signal_number = signal.SIGTERM

    config = tiny(LOOKED_AT)
    first = run_it(config, StopAt(), stop=stop)
    assert first.record.status == "preempted"
    second = run_it(config)
    assert second.record.status == "finished"
    assert logged(second.folder) == logged(trained(*LOOKED).folder)


def test_vectors_have_the_numbers_that_need_no_tokens(trained, run_it, tmp_path):
    words = ["experiment=farthest_point", "heads=2", "training.max_steps=2", "training.batch_size=4", "logger=disabled"]
    words += ["training.threads=1", "training.eval_interval=2", "data.test_examples=40", "diagnostics.interval=1"]
    result = run_it(compose([*words, f"runs_dir={tmp_path}/runs"]))
    assert result.record.status == "finished", result.record.error
    rows = logged(result.folder)
    assert "heads/entropy" in rows[1]
    assert "heads/with_role" not in rows[1]
    assert "heads/ablatable" in result.record.summary


def test_the_interval_is_no_part_of_a_runs_identity_and_must_be_a_count():
    looked, plain = compose([LOOKED_AT]), compose([])
    assert config_hash(looked.identity, "d") == config_hash(plain.identity, "d")
    with pytest.raises(ConfigError, match=r"diagnostics.interval=0"):
        compose(["diagnostics.interval=0"])


def test_each_layers_numbers_are_declared_columns_in_order():
    names = {"heads/layer_10/entropy", "heads/layer_2/ov_rank", "heads/layer_2/entropy", "heads/entropy", "val/loss"}
    check_names(dict.fromkeys(names))
    assert list(step_columns(names))[4:] == [
        *("val/loss", "heads/entropy", "heads/layer_2/entropy", "heads/layer_2/ov_rank", "heads/layer_10/entropy")
    ]
    assert declared("heads/layer_2/entropy") is METRICS["heads/entropy"]
    assert declared("heads/layer_x/entropy") is declared("heads/layer_2/loss") is declared("val/layer_2/loss") is None
    with pytest.raises(KeyError, match="layer_2/mood"):
        check_names({"heads/layer_2/mood": 1.0})
