"""`python -m src.heads example` and `inside`: the numbers and the shapes of the teaching documents."""

from __future__ import annotations

import doctest
import json
import re

import numpy as np
import pytest
import torch

from src.heads import example, inside
from src.heads.example import worked_example
from src.heads.inside import geometry_of, wrong_scale
from tests.model import reference

DOCUMENT = [
    [0.157653, -0.102184, -0.695975, -0.020971, 0.205886, -0.790847],
    [0.166277, -0.095421, -0.687424, -0.012206, 0.221240, -0.719393],
    [0.165908, -0.081698, -0.734227, -0.015736, 0.215043, -0.748822],
]
NAMES = ["Q_feat", "K_feat", "V_feat", "Q_split", "K_split", "V_split", "scores", "attention"]
NAMES += ["x_raw", "x_rsh1", "x_rsh2", "x"]


def stages_of(output: str) -> dict[str, tuple[int, ...]]:
    found = re.findall(r"^(\w+) +\(([\d, ]+)\)", output, re.MULTILINE)
    return {name: tuple(int(n) for n in shape.split(",")) for name, shape in found}


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(example).failed == doctest.testmod(inside).failed == 0


def test_the_worked_example_has_all_18_numbers_of_its_document():
    heads, output = worked_example()
    assert np.abs(output - np.array(DOCUMENT)).max() < 5e-7
    assert np.allclose(sum(head.weights.sum() for head in heads), 6.0)


def test_the_worked_example_is_the_loop_over_heads_of_the_reference():
    draws = np.random.RandomState(42)
    matrices = [torch.tensor(draws.randn(2, 6, 3)) for _ in "qkv"]
    expected = reference.head_by_head(torch.tensor(example.TOKENS), *matrices)
    assert np.abs(worked_example()[1] - expected.numpy()).max() < 1e-14


def test_the_example_is_printed_with_its_shapes_and_its_lesson(heads):
    result = heads("example")
    assert result.exit_code == 0, result.output
    printed = [float(number) for number in re.findall(r"-?\d\.\d{6}", result.output)][-18:]
    assert printed == [number for row in DOCUMENT for number in row]
    assert "scores (3, 3)" in result.output
    assert "concatenated (3, 6)" in result.output
    assert "New in multi-head" in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    content = json.loads(heads("example", "--json").output)
    assert np.allclose(content["concatenated"], DOCUMENT, atol=5e-7)
    assert len(content["heads"]) == 2


def test_every_stage_of_self_attention_has_the_shape_of_the_lesson(heads):
    result = heads("inside", "--d-model", 200, "--heads", 5, "--tokens", 32, "--batch", 128)
    assert result.exit_code == 0, result.output
    shapes = stages_of(result.output)
    assert list(shapes) == NAMES
    assert shapes["Q_feat"] == shapes["x_rsh2"] == shapes["x"] == (128, 32, 200)
    assert shapes["Q_split"] == shapes["x_raw"] == (128, 5, 32, 40)
    assert shapes["x_rsh1"] == (128, 32, 5, 40)
    assert shapes["scores"] == shapes["attention"] == (128, 5, 32, 32)
    assert max(map(len, result.output.splitlines())) <= 80


def test_in_cross_attention_keys_and_values_have_the_other_sequences_tokens(heads):
    result = heads("inside", "--memory-tokens", 50, "--batch", 3, "--heads", 4, "--kv-heads", 2, "--json")
    assert result.exit_code == 0, result.output
    stages = {stage["name"]: tuple(stage["shape"]) for stage in json.loads(result.output)["stages"]}
    assert stages["K_feat"] == stages["V_feat"] == (3, 50, 100)
    assert stages["K_split"] == (3, 2, 50, 50)
    assert stages["scores"] == (3, 4, 32, 50)
    assert stages["x"] == (3, 32, 200)


def test_the_wrong_scale_is_right_for_one_head_and_ever_nearer_to_uniform_for_more(heads):
    rows = wrong_scale(200, [1, 2, 5, 10], tokens=32, seed=0)
    assert rows[0]["entropy_wrong"] == pytest.approx(rows[0]["entropy"])
    gaps = [row["entropy_uniform"] - row["entropy_wrong"] for row in rows]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < gaps[0] / 5
    assert all(abs(row["scores_spread"] - 1) < 0.1 for row in rows)
    result = heads("inside", "--wrong-scale")
    assert "sqrt(d_model)" in result.output
    assert max(map(len, result.output.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--heads", 3), "heads=3 does not divide d_model=200; choose one of 1, 2, 4, 5, 8"),
        (("--heads", 4, "--kv-heads", 3), "kv_heads=3 does not divide heads=4"),
        (("--causal", "--memory-tokens", 9), "--causal with --memory-tokens 9"),
        (("--layer", 1), "--layer 1 without a run"),
        (("no_run",), "no_run holds no record.json"),
        (("no_run", "--heads", 4, "--causal"), "--heads 4 --causal with the run no_run: the run decides"),
    ],
)
def test_what_cannot_be_opened_up_is_refused_in_one_line(heads, tmp_path, words, message):
    result = heads("inside", *words)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_layer_of_these_sizes_has_one_width_for_all_heads():
    g = geometry_of(200, 5, None, 32)
    assert (g.head_dim, g.attention_width, g.bias, g.context_length) == (40, 200, True, 32)
