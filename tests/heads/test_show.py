"""`python -m src.heads show`: a picture for random weights or for a run, and clear refusals."""

import subprocess
import sys

import pytest
import torch
from typer.testing import CliRunner

from src.data.vocabulary import CharacterVocabulary
from src.errors import ConfigError, DataError
from src.geometry import Geometry
from src.heads.__main__ import app
from src.heads.show import draw, random_weights
from src.model.gpt import GPT

PNG = b"\x89PNG\r\n"


@pytest.fixture
def show(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, ["show", *map(str, arguments)])


@pytest.mark.parametrize(
    "arguments",
    [("--heads", 2), ("--heads", 4, "--kv-heads", 2, "--layer", 1), ("--attention", "latent", "--layer", 3)],
)
def test_random_weights_of_every_kind_give_a_picture(show, tmp_path, arguments):
    result = show("--text", "a b", "--out", tmp_path / "new" / "heads.png", *arguments)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "new" / "heads.png").read_bytes().startswith(PNG)
    assert "3 x 3 weights a head; nano, random weights, seed 0" in result.output


def test_random_heads_differ_before_any_training():
    _, network, vocabulary = random_weights("hello world", ["heads=4"])
    tokens = torch.tensor(vocabulary.encode("hello world").astype("int64"))[None]
    weights = network.look_inside(tokens)[0].weights[0]
    assert weights.shape == (4, 11, 11)
    for one in range(4):
        for other in range(one):
            assert (weights[one] - weights[other]).abs().max() > 0.1


def test_a_run_is_drawn_with_its_own_weights_and_vocabulary(show, tmp_path, config, monkeypatch):
    from src.training import checkpoint

    vocabulary = CharacterVocabulary.of("abcdef")
    settings = config("heads=2", "context_length=8")
    model = GPT(Geometry.of(settings), vocabulary.size)
    loaded = checkpoint.LoadedRun(settings, model.geometry, vocabulary, model, step=7)
    monkeypatch.setattr(checkpoint, "load_run", lambda folder: loaded)
    result = show(tmp_path / "my_run", "--text", "fed")
    assert result.exit_code == 0, result.output
    assert "2 heads in each of 4 layers" in result.output
    assert "my_run" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--heads", 3), "heads=3 does not divide d_model=128"),
        (("--heads", 4, "--kv-heads", 3), "kv_heads=3 does not divide heads=4"),
        (("--model", "huge"), "model=huge: no such option"),
        (("--text", ""), "an empty text"),
        (("--layer", 4), "layer=4: the model has layers 0 to 3"),
        (("no_run",), "no_run does not exist"),
        (("no_run", "--heads", 4), "heads=4 with the run no_run: the run decides"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(show, tmp_path, arguments, message):
    result = show(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_a_text_past_the_context_or_with_foreign_characters_is_refused(config, tmp_path):
    vocabulary = CharacterVocabulary.of("ab")
    network = GPT(Geometry.of(config("context_length=4")), 2)
    with pytest.raises(DataError, match="the text has 5 tokens; the model sees 4"):
        draw(network, vocabulary, "ababa", "s", None, tmp_path / "x.png")
    with pytest.raises(DataError, match="'c'"):
        draw(network, vocabulary, "abc", "s", None, tmp_path / "x.png")
    with pytest.raises(ConfigError, match="layer=-1"):
        draw(network, vocabulary, "ab", "s", -1, tmp_path / "x.png")


def test_a_token_of_several_characters_is_one_row_with_its_text(config, tmp_path, monkeypatch):
    from src.data.vocabulary import IdVocabulary
    from src.heads import maps

    drawn = {}
    original = maps.draw_layers
    monkeypatch.setattr(
        maps,
        "draw_layers",
        lambda layers, labels, **rest: drawn.update(labels=labels) or original(layers, labels, **rest),
    )
    network = GPT(Geometry.of(config("context_length=4")), 20)
    draw(network, IdVocabulary(20), "12 7 19", "s", 0, tmp_path / "x.png")
    assert drawn["labels"] == ["12", "7", "19"]
    with pytest.raises(DataError, match="holds no token"):
        draw(network, IdVocabulary(20), "  ", "s", 0, tmp_path / "x.png")


def test_help_loads_nothing_heavy():
    code = "import sys, src.heads.__main__; print([m for m in ('torch', 'matplotlib', 'pandas') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
