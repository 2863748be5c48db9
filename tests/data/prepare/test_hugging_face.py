"""A streamed data set is read part by part, in one pass, and goes on from any row."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from src.data.prepare.folder import prepare
from src.data.prepare.sources import HuggingFace, Piece, split_of
from src.data.vocabulary import ByteVocabulary
from src.errors import DataError

ROWS = [{"id": i, "text": f"row {i}"} for i in range(25)]


class Stream:
    """As much of a streamed data set as is used here; it counts the rows that were asked of it."""

    def __init__(self, rows: list[dict[str, Any]], read: list[int]) -> None:
        self.rows, self.read = rows, read

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in self.rows:
            self.read.append(row["id"])
            yield row


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ids of the rows that were read; the library itself is stood in for."""
    found: list[int] = []
    library = ModuleType("datasets")

    def load_dataset(name: str, config: str | None, **named: Any) -> Stream:
        assert named["streaming"] is True
        if name == "gone":
            raise FileNotFoundError("no such data set")
        return Stream(ROWS, found)

    library.load_dataset = load_dataset  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "datasets", library)
    return found


def source(part_rows: int = 10, column: str = "text", name: str = "owner/set") -> HuggingFace:
    return HuggingFace(name, None, "train", "0" * 40, column, 0.3, part_rows)


def parts(of: HuggingFace, first: int = 0) -> list[list[Piece]]:
    found = []
    while (part := of.part(first + len(found))) is not None:
        found.append(list(part))
    return found


@pytest.mark.parametrize("part_rows", [1, 7, 10, 25, 100])
def test_every_row_comes_once_whatever_the_size_of_parts(read: list[int], part_rows: int) -> None:
    found = parts(source(part_rows))
    assert [piece.text for part in found for piece in part] == [row["text"] for row in ROWS]
    assert [len(part) for part in found[:-1]] == [part_rows] * (len(found) - 1)
    assert read == list(range(25))  # in one pass


def test_it_goes_on_from_the_first_missing_part(read: list[int]) -> None:
    whole = parts(source())
    for first in range(4):  # the fourth is past the end: all parts are done, the manifest is not
        assert parts(source(), first) == whole[first:]


def test_documents_decide_their_split(read: list[int]) -> None:
    pieces = [piece for part in parts(source()) for piece in part]
    assert all(piece.split == split_of(piece.text, 0.3) for piece in pieces)
    assert {piece.split for piece in pieces} == {"train", "validation"}


def test_it_becomes_shards_with_its_name_in_the_manifest(read: list[int], tmp_path: Path) -> None:
    settings = {"vocabulary": "bytes", "validation_fraction": 0.3}
    manifest = prepare(tmp_path / "out", source(), settings, ByteVocabulary, lambda read: None)
    assert sum(entry.text_bytes for entry in manifest.train + manifest.validation) == sum(len(r["text"]) for r in ROWS)
    assert manifest.sources == [{"dataset": "owner/set", "config": None, "split": "train", "revision": "0" * 40}]


@pytest.mark.usefixtures("read")
def test_what_cannot_be_had_is_refused() -> None:
    with pytest.raises(DataError, match=r"the data set gone .* cannot be had: no such data set"):
        source(name="gone").part(0)
    with pytest.raises(DataError, match=r"row 0: there is no text in 'body' \(there: id \(int\), text \(str\)\)"):
        parts(source(column="body"))


def test_without_the_library_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="pip install 'datasets"):
        source().part(0)


def test_a_local_file_through_the_real_library(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    (tmp_path / "d.jsonl").write_text("".join(f'{{"text": "row {i}"}}\n' for i in range(25)))
    for first in range(4):
        found = parts(HuggingFace(str(tmp_path), None, "train", None, "text", 0.3, 10), first)
        assert [piece.text for part in found for piece in part] == [row["text"] for row in ROWS[10 * first :]]
