"""`python -m src.convert`: a new run with its parent recorded, losses, cache bytes, and clear refusals."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from src.convert.__main__ import app
from src.export.columns import run_columns
from src.export.tables import run_row
from src.record import Record, read_rows
from src.training.checkpoint import load_model
from tests.heads.conftest import RUNS, TINY
from tests.in_process import command


@pytest.fixture
def convert(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, [*map(str, words)])


def test_shared_kv_heads_are_a_new_run_with_its_parent_a_smaller_cache_and_more_steps(convert, runs):
    result = convert(runs["mha"], "kv_heads=2", "--steps", 5, "--json")
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    parent = Record.read(runs["mha"])
    folder = runs["mha"].parent.parent / "single-converted"
    record = Record.read(folder / shown["run"].rpartition("/")[2])
    assert record.parent is not None
    assert record.parent["run_id"] == parent.run_id
    assert record.parent["how"] == "converted"
    assert record.geometry["kv_heads"] == 2
    assert shown["cache_bytes"] == record.summary["cache/bytes"]
    assert shown["cache_bytes_of_parent"] == 2 * shown["cache_bytes"]
    rows = [row for row in read_rows(folder / record.run_id) if "val/loss" in row]
    assert [row["step"] for row in rows] == [0, 5]
    assert [row["val/loss"] for row in rows] == [shown["loss_before_steps"], shown["loss_after_steps"]]
    assert shown["loss_after_steps"] < shown["loss_before_steps"]
    assert load_model(folder / record.run_id).step == 5
    assert run_row(record, run_columns())["parent"] == parent.run_id
    again = json.loads(convert(runs["mha"], "kv_heads=2", "--steps", 5, "--json").stdout)
    assert again == shown
    assert len(Record.read(folder / record.run_id).segments) == 1, "the same command found it finished"
    sampled = command("src.sample", str(folder / record.run_id), "--prompt", "line", "--tokens", "3", here=folder)
    assert sampled.returncode == 0, sampled.stderr


def test_a_run_trained_from_scratch_for_as_many_steps_stands_beside(convert, runs):
    here = runs["mha"].parents[2]
    done = command("src.train", *TINY, *RUNS["mha"], "kv_heads=1", "training.max_steps=9", here=here)
    assert done.returncode == 0, done.stderr
    shown = json.loads(convert(runs["mha"], "kv_heads=1", "--steps", 3, "--json").stdout)
    (beside,) = shown["from_scratch"]
    assert Record.read(runs["mha"].parent / beside["run_id"]).geometry["kv_heads"] == 1
    text = convert(runs["mha"], "kv_heads=1", "--steps", 3).output
    assert f"{beside['loss']:.4f} trained from scratch for 9 steps, seed 0" in text
    assert max(map(len, (line for line in text.splitlines() if not line.startswith("run ")))) <= 80


def test_a_latent_by_svd_is_judged_as_it_comes_where_no_step_is_asked_for(convert, runs):
    result = convert(runs["mha"], "latent_dim=8", "--json")
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    loaded = load_model(runs["mha"].parent.parent / "single-converted" / shown["run"].rpartition("/")[2])
    assert (loaded.geometry.attention, loaded.geometry.latent_dim, loaded.step) == ("latent", 8, 0)
    assert shown["loss_before_steps"] == shown["loss_after_steps"]
    assert shown["cache_bytes_of_parent"] == 6 * shown["cache_bytes"], "48 numbers a token and layer against 8"


@pytest.mark.parametrize(
    ("run", "words", "message"),
    [
        ("mha", ["kv_heads=3"], "kv_heads=3 does not divide heads=4"),
        ("mha", ["kv_heads=4"], "kv_heads=4:"),
        ("gqa", ["kv_heads=4"], "has 2, which are pooled in equal groups; choose one of 1"),
        ("gqa", ["latent_dim=8"], "has rotary positions"),
        ("mla", ["kv_heads=2"], "has attention=latent; only attention=grouped is converted"),
        ("vectors", ["kv_heads=1"], "reads vectors and keeps no cache"),
        ("mha", ["heads=2"], "heads=2: say kv_heads=N"),
        ("mha", ["kv_heads=two"], "kv_heads=two: say kv_heads=N"),
        ("mha", ["kv_heads=2", "--by", "svd"], "--by svd with kv_heads: choose one of mean, first, random"),
        ("mha", ["latent_dim=999"], "latent_dim=999 is wider than the keys and values"),
    ],
)
def test_what_cannot_be_converted_is_refused_in_one_line_and_leaves_nothing(convert, runs, run, words, message):
    group = runs[run].parent.parent
    before = sorted(group.rglob("*"))
    result = convert(runs[run], *words)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert sorted(group.rglob("*")) == before
