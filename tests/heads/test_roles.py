"""`python -m src.heads roles`: what is said of random weights, of every kind of attention and of data, and refusals."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
import torch

from src.heads.measure import roles
from src.heads.measure.patterns import SCORES, repeated_tokens
from src.heads.measure.roles import NULLS, Null, null_of, probe_scores, role_of
from src.model.gpt import GPT
from src.model.init import initialise
from src.record import Record

SEEDS = 40
KINDS = {
    "gpt2": {"heads": 4},
    "torch": {"heads": 4, "kv_heads": 2},
    "fan_in": {"attention": "latent", "heads": 4, "latent_dim": 10, "rope_dim": 0, "positions": "learned"},
}
"""An initialisation, each with another kind of attention."""


def false_roles(geometry, init: str, least: float, monkeypatch) -> float:
    """The share of untrained models, seed by seed, of which some head is given a role."""
    monkeypatch.setattr(roles, "LEAST", least)
    shape = geometry(**KINDS[init], ffn_width=0)
    probe = repeated_tokens(20, 16, 4)
    assert probe is not None
    model = GPT(shape, 20).eval()
    null = null_of(GPT(shape, 20), init, probe, NULLS)
    named = 0
    for seed in range(SEEDS):
        initialise(model, init, seed)
        named += any(role is not None for layer in roles.roles(probe_scores(model, probe), null) for role in layer)
    return named / SEEDS


@pytest.mark.parametrize("init", KINDS)
def test_untrained_models_have_no_role_more_often_than_in_5_of_100_seeds(geometry, init, monkeypatch):
    assert false_roles(geometry, init, roles.LEAST, monkeypatch) <= 0.05


def test_the_null_alone_holds_its_rate_without_the_least_share(geometry, monkeypatch):
    """And without either, every untrained model would have roles: the null is what keeps them away."""
    chance, spread = 0.05, math.sqrt(0.05 * 0.95 / SEEDS)
    assert false_roles(geometry, "torch", 0.0, monkeypatch) <= chance + 2 * spread
    nothing = Null({score: torch.full((NULLS,), -1.0) for score in SCORES}, dict.fromkeys(SCORES, 0.0))
    assert role_of(dict.fromkeys(SCORES, 0.01), nothing) is not None


def test_a_role_is_the_greatest_score_that_stands_clear_and_the_chance_is_told():
    null = Null({score: torch.tensor([0.1, 0.6 if score == "same_token" else 0.2]) for score in SCORES}, {})
    low = dict.fromkeys(SCORES, 0.0)
    assert role_of(low | {"same_token": 0.59, "induction": 0.45}, null) == "induction"
    assert role_of(low | {"same_token": 0.61, "induction": 0.45}, null) == "same_token"
    assert role_of(low | {"induction": 0.35}, null) is None
    assert null.chance == 1.0
    assert Null({score: torch.zeros(99) for score in SCORES}, {}).chance == pytest.approx(0.05)


@pytest.mark.parametrize(("kind", "heads_on_kv"), [("mha", 1), ("gqa", 2), ("mla", 1), ("task", 1)])
def test_every_head_of_every_kind_is_measured(heads, runs, tmp_path, kind, heads_on_kv):
    result = heads("roles", runs[kind], "--json", "--nulls", 19, "--sequences", 12)
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    record = Record.read(runs[kind])
    rows = content["per_head"]
    assert [(row["layer"], row["head"], row["kv_head"]) for row in rows] == [
        (layer, head, head // heads_on_kv) for layer in (0, 1) for head in range(4)
    ]
    assert content["held_out_sequences"] == 12
    assert content["null"]["models"] == 19
    assert set(content["null"]["threshold"]) == set(SCORES)
    for row in rows:
        assert all(0.0 <= row[score] <= 1.0 for score in SCORES)
        assert 0.0 < row["entropy"] <= 1.0
        assert row["pattern_nearest"] in set(range(4)) - {row["head"]}
        assert 0.0 < row["ov_rank"] <= 1.0
        assert row["zero_ablation_margin"] >= 0.0
    assert record.summary["val/loss"] is not None
    assert content["loss"] == pytest.approx(record.summary["val/loss"], abs=0.2)  # on some of its sequences


def test_the_table_fits_80_columns_and_shows_the_shared_kv_head(heads, runs, tmp_path):
    picture = tmp_path / "new" / "roles.png"
    result = heads("roles", runs["gqa"], "--nulls", 19, "--sequences", 12, "--layer", 1, "--out", picture)
    assert result.exit_code == 0, result.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    lines = [line for line in result.stdout.splitlines() if not line.startswith("picture")]
    assert max(map(len, lines)) <= 80
    assert "2 layers of 4 heads on 2 kv-heads" in lines[0]
    shown = [line.split()[:3] for line in lines if line.startswith("    1")]
    assert shown == [["1", str(head), str(head // 2)] for head in range(4)] * 2
    assert "rotary positions" in result.output
    assert "of 8 heads can be ablated, one at a time, for less than 0.001 nats/token" in result.output


def test_heads_that_read_vectors_have_all_numbers_but_those_of_tokens(heads, runs, tmp_path):
    result = heads("roles", runs["vectors"], "--json", "--sequences", 12, "--out", tmp_path / "v.svg")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert content["null"] is None
    assert "data=farthest_point holds vectors" in content["notes"][0]
    assert content["unit"] == "squared distance"
    for row in content["per_head"]:
        assert row["role"] is None
        assert row["previous_token"] is None
        assert row["entropy"] is not None
        assert row["zero_ablation"] is not None
    assert "no scores and no roles" in heads("roles", runs["vectors"], "--sequences", 12).output


def broken(folder: Path, to: Path, **changes: object) -> Path:
    """A copy of a run's folder whose record says otherwise."""
    shutil.copytree(folder, to)
    content = json.loads((to / "record.json").read_text())
    (to / "record.json").write_text(json.dumps({**content, **changes}))
    return to


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": "running"}, "is not finished (status running)"),
        ({"status": "diverged"}, "is not finished (status diverged)"),
        ({"schema_version": 99}, "has schema_version 99; this code reads 1"),
    ],
)
def test_a_run_that_cannot_be_looked_at_is_refused_in_one_line(heads, runs, tmp_path, changes, message):
    folder = broken(runs["mha"], tmp_path / "run", **changes)
    result = heads("roles", folder, "--out", tmp_path / "pictures" / "x.png")
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_checkpoint_of_another_version_is_refused_by_name(heads, runs, tmp_path):
    folder = broken(runs["mha"], tmp_path / "run")
    content = torch.load(folder / "checkpoint.pt", weights_only=True)
    content["geometry"]["colour"] = "blue"
    torch.save(content, folder / "checkpoint.pt")
    result = heads("roles", folder)
    assert result.exit_code == 2
    assert "is of another version of this code" in result.output
    assert "colour" in result.output


def test_a_corpus_that_is_gone_or_has_changed_is_named(heads, runs, tmp_path):
    folder = broken(runs["mha"], tmp_path / "runs" / "single" / "run")
    result = heads("roles", folder)
    assert result.exit_code == 2
    assert "the held-out data of run is gone" in result.output
    assert "text.txt" in result.output
    (tmp_path / "text.txt").write_text("another text\n" * 100)
    result = heads("roles", folder)
    assert result.exit_code == 2
    assert "is not what run was trained on" in result.output


def test_a_layer_or_a_picture_that_cannot_be_is_refused_before_anything_is_measured(heads, runs):
    assert "layer=2: the model has layers 0 to 1" in heads("roles", runs["mha"], "--layer", 2).output
    assert "a picture ends in .png" in heads("roles", runs["mha"], "--out", "x.txt").output
    assert "--tokens 17: the model sees 16" in heads("inside", runs["mha"], "--tokens", 17).output
    result = heads("inside", runs["vectors"])
    assert result.exit_code == 0
    assert "layer 0 of farthest-point" in result.output
