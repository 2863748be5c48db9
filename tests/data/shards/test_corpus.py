"""A folder of token files is one corpus, or one clear error."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from src.config import ShardsConfig
from src.data import shards
from src.data.corpus import Corpus
from src.data.load import load_data
from src.data.tokens import header
from src.data.vocabulary import BpeVocabulary, IdVocabulary
from src.errors import DataError

TOKENS = (np.arange(3000) * 7919 % 1000).astype("<u2")
TEXT = "to be or not to be, that is the question\n" * 20


def shards_config(**changes: Any) -> ShardsConfig:
    values = {
        "name": "token_shards",
        "path": "shards",
        "train": "*train*.bin",
        "validation": "*val*.bin",
        "dtype": None,
        "vocabulary_size": 1000,
        "verify": "full",
        "order": "shuffled",
        "stride": None,
    }
    return ShardsConfig.model_validate(values | changes)


def load(tmp_path: Path, **changes: Any) -> Corpus:
    corpus = load_data(shards_config(**changes), tmp_path)
    assert isinstance(corpus, Corpus)
    return corpus


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """2,000 tokens to train on in two bare files, and 1,000 to validate on."""
    path = tmp_path / "shards"
    path.mkdir()
    (path / "train_0.bin").write_bytes(TOKENS[:1500].tobytes())
    (path / "train_1.bin").write_bytes(TOKENS[1500:2000].tobytes())
    (path / "val.bin").write_bytes(TOKENS[2000:].tobytes())
    return path


def test_the_files_of_a_split_are_one_sequence_in_the_order_of_their_names(folder: Path) -> None:
    corpus = load(folder.parent)
    assert np.array_equal(corpus.train_tokens[:], TOKENS[:2000])
    assert np.array_equal(corpus.val_tokens[:], TOKENS[2000:])
    assert corpus.vocabulary == IdVocabulary(1000)
    assert corpus.bytes_per_token is None
    assert json.loads(json.dumps(corpus.facts)) == corpus.facts


def test_files_with_and_without_a_header_lie_side_by_side(folder: Path) -> None:
    (folder / "train_1.bin").write_bytes(header(500, np.dtype("<u2")) + TOKENS[1500:2000].tobytes())
    assert np.array_equal(load(folder.parent).train_tokens[:], TOKENS[:2000])


@pytest.mark.parametrize("verify", ["full", "sampled"])
def test_the_hash_follows_content_split_and_vocabulary_not_the_place(folder: Path, verify: str) -> None:
    plain = load(folder.parent, verify=verify).hash
    assert load(folder.parent, verify=verify).hash == plain
    moved = folder.rename(folder.with_name("moved"))
    assert load(folder.parent, verify=verify, path=str(moved)).hash == plain
    assert load(folder.parent, verify=verify, path="moved", vocabulary_size=1001).hash != plain
    (moved / "train_1.bin").write_bytes(TOKENS[1500:2000][::-1].tobytes())
    assert load(folder.parent, verify=verify, path="moved").hash != plain


def test_a_tokenizer_beside_the_files_is_their_vocabulary(folder: Path) -> None:
    vocabulary = BpeVocabulary.learn([TEXT], 280)
    (folder / "tokenizer.json").write_text(vocabulary.definition)
    tokens = vocabulary.encode(TEXT)
    for name in ("train_0.bin", "train_1.bin", "val.bin"):
        (folder / name).write_bytes(tokens.astype("<u2").tobytes())
    corpus = load(folder.parent, vocabulary_size=None)
    assert corpus.vocabulary.decode(corpus.val_tokens[:]) == TEXT
    assert corpus.bytes_per_token == len(TEXT) / len(tokens)
    with pytest.raises(DataError, match=r"data\.vocabulary_size=1000, but .* has a vocabulary of its own with"):
        load(folder.parent)


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"path": None}, r"data=token_shards needs a folder: data\.path="),
            ({"path": "gone"}, "gone is no folder"),
            ({"path": "shards/val.bin"}, "is no folder"),
            ({"vocabulary_size": None}, r"neither a manifest\.json nor a tokenizer\.json.*GPT-2's is 50257"),
            (
                {"train": "*.txt"},
                r"no file of .* matches data\.train=\*\.txt \(\.bin files there: train_0\.bin, train_1",
            ),
            ({"validation": "*test*.bin"}, r"matches data\.validation=\*test\*\.bin"),
            (
                {"validation": "*_1.bin"},
                r"train_1\.bin is matched by data\.train=.* what is trained on cannot validate",
            ),
        ],
    )
    def test_a_setting_that_leads_nowhere(self, folder: Path, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(DataError, match=message):
            load(folder.parent, **changes)

    @pytest.mark.parametrize("verify", ["full", "sampled"])
    def test_a_file_cut_short(self, folder: Path, verify: str) -> None:
        (folder / "train_1.bin").write_bytes(TOKENS[1500:2000].tobytes()[:-1])
        with pytest.raises(DataError, match=r"train_1\.bin: 999 bytes are no whole number of uint16 tokens"):
            load(folder.parent, verify=verify)

    def test_a_token_beyond_the_vocabulary_before_training(self, folder: Path) -> None:
        place = int(np.argmax(TOKENS[1500:2000] >= 990))
        with pytest.raises(DataError) as error:
            load(folder.parent, vocabulary_size=990)
        first = int(np.argmax(TOKENS[:1500] >= 990))
        for part in ("train_0.bin", f"token {TOKENS[first]} at byte offset {2 * first} ", "vocabulary's 990 "):
            assert part in str(error.value)
        assert place  # the second file has one too; the first is named

    def test_a_token_beyond_the_vocabulary_when_it_is_used_where_only_a_sample_was_read(self, folder: Path) -> None:
        corpus = load(folder.parent, vocabulary_size=990, verify="sampled")
        with pytest.raises(DataError, match="is none of the vocabulary's 990"):
            corpus.train_tokens[:]

    def test_tokens_of_another_width(self, folder: Path) -> None:
        (folder / "train_0.bin").write_bytes(TOKENS.astype("<u4").tobytes())
        with pytest.raises(DataError, match=r"every second token is 0.*data\.dtype=uint32"):
            load(folder.parent)
        with pytest.raises(DataError, match=r"train_1\.bin: token \d+ at byte offset 0 .*a file of uint32 tokens"):
            load(folder.parent, dtype="uint32")

    def test_a_manifest_that_is_none(self, folder: Path) -> None:
        for content, message in (
            ("{", "is no manifest"),
            ('{"version": 99}', "is of version 99"),
            ("[]", "is of version None"),
        ):
            (folder / "manifest.json").write_text(content)
            with pytest.raises(DataError, match=rf"manifest\.json {message}.*prepare the data again"):
                load(folder.parent)

    def test_a_preparation_that_is_not_finished(self, folder: Path) -> None:
        (folder / "prepare.json").write_text("{}")
        with pytest.raises(DataError, match=r"is not prepared to its end; run its python -m src\.data\.prepare"):
            load(folder.parent)


def test_files_are_not_read_again_for_the_next_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SETTLED_NS", -1)
    before = load(folder.parent)
    monkeypatch.setattr(shards, "read_fingerprint", lambda layout: pytest.fail(f"{layout.path} is read again"))
    assert load(folder.parent).hash == before.hash
