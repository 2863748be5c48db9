"""`python -m src.heads prune`: which heads stay, what the small runs are, and how they stand beside trained ones."""

from __future__ import annotations

import json

import pytest

from src.heads.measure.ablation import Change, HeldOut
from src.heads.prune import Curve, Point, prune_run
from src.heads.prune_show import curve_dict, draw_curve, sentence
from src.heads.trained import open_run
from src.record import Record
from src.training.checkpoint import load_model
from tests.heads.conftest import RUNS, TINY
from tests.heads.hand_made import circuit
from tests.in_process import command


def test_heads_are_pruned_by_what_they_cost_and_the_small_runs_load_decode_and_keep_less(heads, runs):
    picture = runs["mha"].parent.parent / "curve.png"
    words = ("prune", runs["mha"], "--keep", "2,1", "--retrain-steps", 4, "--sequences", 12, "--out", picture)
    result = heads(*words, "--json")
    assert result.exit_code == 0, result.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    content, whole = json.loads(result.stdout), Record.read(runs["mha"])
    assert content["loss"] == whole.summary["val/loss"]
    two, one = content["points"]
    assert (two["keep"], one["keep"]) == (2, 1)
    for layer in (0, 1):
        assert set(one["kept"][layer]) < set(two["kept"][layer]) < set(range(4)), "nested"
    group = runs["mha"].parent.parent / "single-pruned"
    for point in (two, one):
        folder = group / point["run"].rpartition("/")[2]
        record = Record.read(folder)
        assert record.parent is not None
        assert (record.parent["run_id"], record.parent["kept"]) == (whole.run_id, point["kept"])
        assert record.summary["cache/bytes"] == point["cache_bytes"]
        assert point["cache_bytes"] * 4 == whole.summary["cache/bytes"] * point["keep"]
        loaded = load_model(folder)
        assert (loaded.geometry.heads, loaded.geometry.head_dim, loaded.step) == (point["keep"], 6, 4)
        sampled = command("src.sample", str(folder), "--prompt", "line", "--tokens", "3", here=group)
        assert sampled.returncode == 0, sampled.stderr
        assert point["loss_after_steps"] < point["loss_before_steps"]


def test_a_pruned_loss_is_that_of_the_silenced_heads_over_the_whole_held_out_data(runs):
    run = open_run(runs["mha"])
    curve = prune_run(run, [2], "gradient", 0, 8)
    (point,) = curve.points
    gone = {layer: sorted(set(range(4)) - set(kept)) for layer, kept in enumerate(point.kept)}
    config = run.loaded.config
    total = answers = 0.0
    for inputs, targets in run.data.evaluation_batches(config.context_length, config.training):
        losses = HeldOut(run.loaded.model, inputs, targets).losses(gone)
        total += float(losses.sums.sum())
        answers += float(losses.answers.sum())
    assert point.made.before == pytest.approx(total / answers, abs=1e-5)
    assert point.made.before == point.made.after
    assert "no run of its group was trained with heads=2" in sentence(curve, point)


def test_greedy_ablation_keeps_the_circuit_and_chance_does_not(runs, geometry, monkeypatch):
    """The hand-made circuit needs head 0 of each layer; the training sequences are its texts said twice."""
    from src.heads import prune
    from src.heads.measure.patterns import repeated_tokens

    probe = repeated_tokens(8, 16, 6)
    assert probe is not None
    targets = probe.tokens[:, 1:].clone()
    targets[:, : probe.period] = -100
    monkeypatch.setattr(prune, "_training_sequences", lambda run, count: (probe.tokens[:, :-1], targets))
    run = open_run(runs["mha"])
    chosen = dict(prune._orders(circuit(geometry), run, "ablation", 6, lambda what: None))
    assert chosen == {1: [[0], [0]]}
    held = HeldOut(circuit(geometry), probe.tokens[:, :-1], targets)
    mean, margin = prune._chance(held, held.losses().mean, 1)
    assert mean > 1.0
    assert margin > 0.0


def test_what_shares_a_kv_head_goes_together_and_latent_heads_go_alone(heads, runs):
    grouped = json.loads(heads("prune", runs["gqa"], "--keep", 2, "--sequences", 8, "--by", "random", "--json").stdout)
    (point,) = grouped["points"]
    assert all(kept in ([0, 1], [2, 3]) for kept in point["kept"])
    latent = json.loads(heads("prune", runs["mla"], "--keep", 3, "--sequences", 8, "--json").stdout)
    (point,) = latent["points"]
    assert point["cache_bytes"] == Record.read(runs["mla"]).summary["cache/bytes"], "the latent stays"


def test_a_run_that_was_trained_with_so_many_heads_stands_beside_and_decides_the_sentence(heads, runs):
    here = runs["mha"].parents[2]
    done = command("src.train", *TINY, *RUNS["mha"], "heads=2", here=here)
    assert done.returncode == 0, done.stderr
    result = heads("prune", runs["mha"], "--keep", 2, "--sequences", 12)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    content = json.loads(heads("prune", runs["mha"], "--keep", 2, "--sequences", 12, "--json").stdout)
    (point,) = content["points"]
    (trained,) = point["trained"]
    assert Record.read(runs["mha"].parent / trained["run_id"]).geometry["heads"] == 2
    assert point["against_trained"]["sequences"] == 12
    assert "4 trained, pruned to 2" in point["sentence"]


def point_with(against: Change | None) -> Point:
    return Point(2, [[0, 1]], Change(0.1, 0.01, 9), (0.2, 0.02), None, [], against, 3)  # pyright: ignore


@pytest.mark.parametrize(
    ("against", "words"),
    [
        (Change(-0.03, 0.01, 9), "beats 2 trained by 0.0300"),
        (Change(0.03, 0.01, 9), "does not beat 2 trained: it is worse by 0.0300"),
        (Change(0.005, 0.01, 9), "does not beat 2 trained, nor is it beaten"),
    ],
)
def test_the_sentence_says_what_the_interval_says_and_whose_it_is(against, words):
    curve = Curve("r", 4, "ablation", 100, "nats/token", 1.0, 9, None, [])
    said = sentence(curve, point_with(against))
    assert words in said
    assert "4 trained, pruned to 2 and trained for 100 more steps" in said
    assert "seed 3" in said


@pytest.mark.parametrize(
    ("run", "words", "message"),
    [
        ("mha", ["--keep", 5], "--keep 5: the model has 4 heads in each layer"),
        ("mha", ["--keep", 4], "those are all heads"),
        ("mha", ["--keep", "2,x"], "--keep 2,x: it should be whole numbers"),
        ("mha", ["--keep", 0], "--keep 0: it should be whole numbers"),
        ("mha", ["--keep", 2, "--by", "magic"], "--by magic: choose one of ablation, gradient, random"),
        ("gqa", ["--keep", 3], "2 query heads share each kv-head and stay together; choose one of 2"),
        ("vectors", ["--keep", 1], "reads vectors"),
        ("mha", ["--keep", 2, "--out", "x.doc"], "a picture ends in .png"),
    ],
)
def test_what_cannot_be_pruned_is_refused_in_one_line_and_leaves_nothing(heads, runs, run, words, message):
    group = runs[run].parent.parent
    before = sorted(group.rglob("*"))
    result = heads("prune", runs[run], *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert sorted(group.rglob("*")) == before


def test_a_curve_is_drawn_with_and_without_trained_runs(runs):
    curve = prune_run(open_run(runs["task"]), [2, 1], "random", 0, 8)
    axes = draw_curve(curve).axes[0]
    assert axes.get_xlabel() == "heads in each layer"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "4"]
    assert curve_dict(curve)["points"][0]["random"]["draws"] == 10
