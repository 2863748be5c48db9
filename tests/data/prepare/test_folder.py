"""A preparation can stop at any moment and goes on where it stopped; its manifest holds what it wrote."""

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from src.config import ShardsConfig
from src.data.corpus import Corpus
from src.data.load import load_data
from src.data.prepare import folder as preparing
from src.data.prepare.folder import PARTS, prepare
from src.data.prepare.sources import Files, Piece
from src.data.shards import SHARD_MANIFEST, ShardManifest
from src.data.vocabulary import BpeVocabulary, ByteVocabulary
from src.errors import DataError

TEXT = "".join(f"Scene {i}: enter {'ROMEO' if i % 3 else 'JULIET'}, exeunt.\n" for i in range(400))
PART_COUNT = 5  # of TEXT in parts of 3,000 bytes
DOCUMENTS = [f"Document {i}: nothing of note.\n" for i in range(300)]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "play.txt").write_text(TEXT)
    return tmp_path / "play.txt"


def files_of(*paths: Path, part_bytes: int = 3000) -> Files:
    return Files(paths, "text", 0.2, part_bytes)


def settings_of(vocabulary: str = "bpe", **changes: Any) -> dict[str, Any]:
    return {"vocabulary": vocabulary, "vocabulary_size": 300, "validation_fraction": 0.2} | changes


@cache
def learn() -> BpeVocabulary:
    return BpeVocabulary.learn([TEXT], 300)


def run(out: Path, source: Files, settings: dict[str, Any] | None = None, **changes: Any) -> ShardManifest:
    settings = settings or settings_of()
    make: Callable[[], BpeVocabulary | ByteVocabulary] = ByteVocabulary if settings["vocabulary"] == "bytes" else learn
    return prepare(out, source, settings, changes.get("make", make), changes.get("report", lambda read: None))


def load(out: Path, **changes: Any) -> Corpus:
    values = {"train": "*", "validation": "*", "dtype": None, "vocabulary_size": None, "verify": "full"}
    config = {"name": "token_shards", "path": str(out), "order": "shuffled", "stride": None, **values, **changes}
    corpus = load_data(ShardsConfig.model_validate(config))
    assert isinstance(corpus, Corpus)
    return corpus


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize("kind", ["bpe", "bytes"])
def test_the_shards_hold_the_text_and_a_mark_at_the_end_of_each_split(tmp_path: Path, text: Path, kind: str) -> None:
    run(tmp_path / "out", files_of(text), settings_of(kind))
    corpus = load(tmp_path / "out")
    mark = "<|endoftext|>" if kind == "bpe" else "\0"
    train, validation = (corpus.vocabulary.decode(tokens[:]) for tokens in (corpus.train_tokens, corpus.val_tokens))
    assert train.endswith(mark)
    assert validation.endswith(mark)
    assert train.removesuffix(mark) + validation.removesuffix(mark) == TEXT
    assert corpus.val_bytes == len(validation.removesuffix(mark))
    assert corpus.bytes_per_token == len(validation.removesuffix(mark)) / len(corpus.val_tokens)


def test_the_manifest_holds_hashes_of_what_was_read_and_written(tmp_path: Path, text: Path) -> None:
    out = tmp_path / "out"
    manifest = run(out, files_of(text))
    assert ShardManifest.read(out) == manifest
    assert len(manifest.train) > 2
    for entry in [*manifest.train, *manifest.validation]:
        assert entry.sha256 == hashlib.sha256((out / entry.file).read_bytes()).hexdigest()
    sha256 = hashlib.sha256(text.read_bytes()).hexdigest()
    assert manifest.sources == [{"name": "play.txt", "bytes": len(TEXT), "sha256": sha256}]
    assert manifest.settings == settings_of()
    assert sum(entry.text_bytes for entry in manifest.train + manifest.validation) == len(TEXT)


def test_documents_are_told_apart_by_marks(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps({"text": document}) + "\n" for document in DOCUMENTS))
    run(tmp_path / "out", files_of(path))
    corpus = load(tmp_path / "out")
    read = [
        document
        for tokens in (corpus.train_tokens, corpus.val_tokens)
        for document in corpus.vocabulary.decode(tokens[:]).split("<|endoftext|>")[:-1]
    ]
    assert sorted(read) == sorted(DOCUMENTS)


@pytest.mark.parametrize("part_bytes", [500, 3000, 10**6])
def test_the_size_of_parts_changes_files_but_no_document(tmp_path: Path, part_bytes: int) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps({"text": document}) + "\n" for document in DOCUMENTS))
    run(tmp_path / "out", files_of(path, part_bytes=part_bytes), settings_of("bytes"))
    corpus = load(tmp_path / "out")
    run(tmp_path / "one", files_of(path, part_bytes=10**7), settings_of("bytes"))
    assert np.array_equal(corpus.train_tokens[:], load(tmp_path / "one").train_tokens[:])


class TestGoingOn:
    @pytest.mark.parametrize("stop_at", range(1, PART_COUNT + 1))
    def test_what_was_interrupted_ends_as_if_it_had_not_been(
        self, tmp_path: Path, text: Path, stop_at: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run(tmp_path / "whole", files_of(text))
        out, written = tmp_path / "out", 0

        def interrupted(*arguments: Any) -> Any:
            nonlocal written
            written += 1
            if written == stop_at:
                raise KeyboardInterrupt
            return preparing_write_part(*arguments)

        preparing_write_part = preparing.write_part
        monkeypatch.setattr(preparing, "write_part", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(out, files_of(text))
        assert not (out / SHARD_MANIFEST).exists()
        with pytest.raises(DataError, match="is not prepared to its end"):
            load(out)
        written = 100
        run(out, files_of(text))
        assert written - 100 == PART_COUNT + 1 - stop_at  # those that were missing
        assert contents(out) == contents(tmp_path / "whole")

    @pytest.mark.parametrize("torn", [b"", b"{", b'{"train": {"file": "train_000009.bin"'])
    def test_a_kill_between_files_and_journal_costs_one_part(self, tmp_path: Path, text: Path, torn: bytes) -> None:
        out = tmp_path / "out"
        run(out, files_of(text))
        whole = contents(out)
        (out / SHARD_MANIFEST).unlink()
        lines = whole[PARTS].split(b"\n")
        (out / PARTS).write_bytes(b"\n".join([*lines[:3], torn]))
        (out / ".train_000003.bin.tmp").write_bytes(b"half")
        run(out, files_of(text))
        assert contents(out) == whole

    def test_the_vocabulary_is_learnt_once(self, tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def never(*arguments: Any) -> Any:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(preparing, "write_part", never)
            with pytest.raises(KeyboardInterrupt):
                run(tmp_path / "out", files_of(text))
        run(tmp_path / "out", files_of(text), make=lambda: pytest.fail("learnt again"))

    def test_what_is_finished_is_left_alone(self, tmp_path: Path, text: Path) -> None:
        first = run(tmp_path / "out", files_of(text))
        before = contents(tmp_path / "out")
        assert run(tmp_path / "out", files_of(text), make=lambda: pytest.fail("begun again")) == first
        assert contents(tmp_path / "out") == before

    def test_other_settings_or_another_text_are_refused_with_the_difference(self, tmp_path: Path, text: Path) -> None:
        out = tmp_path / "out"
        run(out, files_of(text))
        with pytest.raises(DataError, match=r"begun with other settings \(vocabulary_size: 300 then, 400 now\)"):
            run(out, files_of(text), settings_of(vocabulary_size=400))
        text.write_text(TEXT + "one more line\n")
        with pytest.raises(DataError, match=r"begun with other state .* give --out a new folder"):
            run(out, files_of(text))

    def test_a_folder_with_other_things_in_it_is_refused(self, tmp_path: Path, text: Path) -> None:
        with pytest.raises(DataError, match=r"is not empty \(play\.txt\); give --out a new folder"):
            run(tmp_path, files_of(text))

    def test_progress_ends_where_it_said_it_would(self, tmp_path: Path, text: Path) -> None:
        read: list[int] = []
        source = files_of(text)
        run(tmp_path / "out", source, report=read.append)
        assert sum(read) == source.total == len(TEXT)


def test_a_split_without_documents_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(json.dumps({"text": "alone"}) + "\n")
    with pytest.raises(DataError, match=r"no document fell into the (validation|train) split"):
        run(tmp_path / "out", files_of(path))


class TestChangedAfterwards:
    @pytest.fixture
    def out(self, tmp_path: Path, text: Path) -> Path:
        run(tmp_path / "out", files_of(text))
        return tmp_path / "out"

    @pytest.mark.parametrize("verify", ["full", "sampled"])
    def test_a_changed_token_is_an_error(self, out: Path, verify: str) -> None:
        assert load(out, verify=verify).hash == load(out).hash
        content = bytearray((out / "train_000001.bin").read_bytes())
        content[1500] ^= 1
        (out / "train_000001.bin").write_bytes(content)
        with pytest.raises(DataError, match=r"train_000001\.bin is not the file that manifest\.json names"):
            load(out, verify=verify)

    def test_files_in_each_others_place_are_an_error(self, out: Path) -> None:
        one, other = out / "train_000000.bin", out / "train_000001.bin"
        first, second = one.read_bytes(), other.read_bytes()
        one.write_bytes(second)
        other.write_bytes(first)
        with pytest.raises(DataError, match="is not the file that"):
            load(out)

    def test_a_missing_file_is_an_error(self, out: Path) -> None:
        (out / "val_000004.bin").unlink()
        with pytest.raises(DataError, match=r"val_000004\.bin does not exist"):
            load(out)

    def test_another_vocabulary_is_an_error(self, out: Path) -> None:
        (out / "tokenizer.json").write_text(BpeVocabulary.learn([TEXT[::-1]], 300).definition)
        with pytest.raises(DataError, match=r"tokenizer\.json is not the one that the manifest names"):
            load(out)
        (out / "tokenizer.json").unlink()
        with pytest.raises(DataError, match=r"tokenizer\.json is missing"):
            load(out)


def test_memory_holds_one_part_not_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless:
        """Parts are made when they are asked for; the test fails where two are held at once."""

        total, alive = None, 0

        def facts(self) -> list[dict[str, Any]]:
            return []

        state = facts

        def part(self, number: int) -> Iterator[Piece] | None:
            assert self.alive == 0, "the part before is still being read"
            return None if number == 5 else self._pieces()

        def _pieces(self) -> Iterator[Piece]:
            self.alive += 1
            for i in range(40):
                yield Piece("validation" if i % 4 == 0 else "train", f"text {i}\n", True, 1)
            self.alive -= 1

    manifest = prepare(tmp_path / "out", Endless(), settings_of("bytes"), ByteVocabulary, lambda read: None)
    assert [len(entries) for entries in (manifest.train, manifest.validation)] == [5, 5]
