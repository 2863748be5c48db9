"""The command, as it is typed."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from src import ROOT
from src.config import ShardsConfig
from src.data.load import load_data
from src.data.prepare.__main__ import main, training_texts
from src.data.prepare.sources import Files
from src.data.vocabulary import BpeVocabulary

TEXT = "To be, or not to be: that is the question.\n" * 300


def prepare(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "src.data.prepare", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "play.txt"
    path.write_text(TEXT)
    return path


def test_it_prepares_a_folder_and_says_how_to_train_on_it(tmp_path: Path, text: Path) -> None:
    out = tmp_path / "out"
    options = ("--vocabulary-size", "280", "--validation-fraction", "0.1")
    for _ in range(2):  # the second time there is nothing left to do
        done = prepare(str(text), "--out", str(out), *options)
        assert done.returncode == 0, done.stderr
        assert "vocabulary: bpe of 280 tokens" in done.stdout
        assert f"python -m src.train data=token_shards data.path={out}" in done.stdout
    config = {"name": "token_shards", "path": str(out), "train": "", "validation": "", "dtype": None}
    rest = {"vocabulary_size": None, "verify": "full", "order": "shuffled", "stride": None}
    corpus = load_data(ShardsConfig.model_validate(config | rest))
    assert corpus.facts["vocabulary_size"] == 280


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": None}, "give either files or --dataset"),
        ({"dataset": "x"}, "give either files or --dataset"),
        ({"validation_fraction": 1.0}, "--validation-fraction 1.0: it must be above 0 and below 1"),
        ({"inputs": [Path("gone.txt")]}, "gone.txt does not exist"),
        ({"vocabulary": "gone.json"}, "gone.json does not exist"),
        ({"vocabulary_size": 10}, "257 are needed"),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: Path, text: Path, changes: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(**{"inputs": [text], "out": tmp_path / "out"} | changes)
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert message in errors[0]


def test_a_vocabulary_is_learnt_from_the_first_training_text_alone(text: Path) -> None:
    whole = list(training_texts(Files([text], "text", 0.5, 10**6), 10**9))
    assert TEXT.startswith("".join(whole))
    assert 0.45 < len("".join(whole)) / len(TEXT) < 0.55
    assert list(training_texts(Files([text], "text", 0.5, 10**6), 1)) == whole[:1]


def test_a_tokenizer_of_ones_own_is_used_as_it_is(tmp_path: Path, text: Path) -> None:
    own = BpeVocabulary.learn([TEXT[::-1]], 270)
    (tmp_path / "own.json").write_text(own.definition)
    main(inputs=[text], out=tmp_path / "out", vocabulary=str(tmp_path / "own.json"), validation_fraction=0.1)
    assert BpeVocabulary((tmp_path / "out" / "tokenizer.json").read_text()).hash == own.hash
