"""Files are cut into ranges that can be read alone, and together they are the whole text."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src.data.prepare import sources
from src.data.prepare.sources import Files, Piece, Split, split_of
from src.errors import DataError

DOCUMENTS = [f"Document {i} says {'é' * (i % 5)} something — or other.\n" for i in range(200)]


def pieces_of(source: Files) -> list[Piece]:
    found, number = [], 0
    while (part := source.part(number)) is not None:
        found += list(part)
        number += 1
    return found


def text_of(pieces: list[Piece], split: Split) -> str:
    return "".join(piece.text for piece in pieces if piece.split == split)


def source(*paths: Path, fraction: float = 0.1, part_bytes: int = 1000, column: str = "text") -> Files:
    return Files(paths, column, fraction, part_bytes)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PIECE_BYTES", 64)
    monkeypatch.setattr(sources, "CUT_WITHIN", 40)


@pytest.mark.usefixtures("small")
class TestText:
    def test_the_end_of_each_file_validates_and_nothing_is_lost(self, tmp_path: Path) -> None:
        texts = ["".join(DOCUMENTS), "another book\n" * 50]
        for number, text in enumerate(texts):
            (tmp_path / f"{number}.txt").write_text(text)
        pieces = pieces_of(source(tmp_path / "0.txt", tmp_path / "1.txt", fraction=0.2))
        train, validation = text_of(pieces, "train"), text_of(pieces, "validation")
        ends = [text.index(validation[:40]) for text in texts[:1]]
        assert train.startswith(texts[0][: ends[0]])
        assert len(train) + len(validation) == sum(map(len, texts))
        assert 0.15 < len(validation) / (len(train) + len(validation)) < 0.25
        assert [piece.is_end for piece in pieces].count(True) == 4  # two files, each with an end in both splits

    def test_pieces_break_at_line_ends_where_there_are_some(self, tmp_path: Path) -> None:
        (tmp_path / "t.txt").write_text("a line of words\n" * 100)
        assert all(piece.text.endswith("\n") for piece in pieces_of(source(tmp_path / "t.txt")))

    def test_without_lines_they_break_at_blanks_and_without_blanks_between_characters(self, tmp_path: Path) -> None:
        (tmp_path / "blanks.txt").write_text("word " * 300)
        assert all(piece.text.endswith(" ") for piece in pieces_of(source(tmp_path / "blanks.txt")))
        (tmp_path / "none.txt").write_text("é—🙂" * 300)
        pieces = pieces_of(source(tmp_path / "none.txt"))
        assert text_of(pieces, "train") + text_of(pieces, "validation") == "é—🙂" * 300
        assert len(pieces) > 10

    @settings(max_examples=60)
    @given(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=400),
        st.integers(40, 300),
        st.floats(0.01, 0.99),
    )
    def test_any_text_comes_back_whole_however_it_is_cut(
        self, tmp_path_factory: pytest.TempPathFactory, text: str, part_bytes: int, fraction: float
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "t.txt"
        path.write_bytes(text.encode())
        expected = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        if not expected:
            with pytest.raises(DataError, match="is empty"):
                pieces_of(source(path))
            return
        pieces = pieces_of(source(path, fraction=fraction, part_bytes=part_bytes))
        assert text_of(pieces, "train") + text_of(pieces, "validation") == expected
        assert sum(piece.read for piece in pieces) == len(text.encode())

    def test_a_bad_byte_is_named_at_its_place_in_the_whole_file(self, tmp_path: Path) -> None:
        content = "".join(DOCUMENTS).encode()
        (tmp_path / "t.txt").write_bytes(content[:3000] + b"\xff" + content[3000:])
        with pytest.raises(DataError, match=r"t\.txt: byte 0xFF at byte offset 3000 is not UTF-8"):
            pieces_of(source(tmp_path / "t.txt"))

    def test_small_files_share_a_part(self, tmp_path: Path) -> None:
        paths = [tmp_path / f"{i}.txt" for i in range(30)]
        for path in paths:
            path.write_text("tiny book\n" * 4)
        parts = 0
        whole = source(*paths, part_bytes=400)
        while whole.part(parts) is not None:
            parts += 1
        assert parts == 3


class TestDocuments:
    @pytest.fixture(params=["jsonl", "parquet"])
    def path(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
        path = tmp_path / f"d.{request.param}"
        if request.param == "jsonl":
            path.write_text("\n".join(json.dumps({"id": i, "text": text}) for i, text in enumerate(DOCUMENTS)) + "\n\n")
        else:
            pq.write_table(pa.table({"id": range(200), "text": DOCUMENTS}), path, row_group_size=30)
        return path

    def test_every_document_comes_once_and_ends(self, path: Path) -> None:
        pieces = pieces_of(source(path))
        assert sorted(piece.text for piece in pieces) == sorted(DOCUMENTS)
        assert all(piece.is_end for piece in pieces)

    def test_a_document_decides_its_split_itself(self, path: Path) -> None:
        pieces = pieces_of(source(path, fraction=0.3))
        assert all(piece.split == split_of(piece.text, 0.3) for piece in pieces)
        assert 0.2 < [piece.split for piece in pieces].count("validation") / 200 < 0.4

    @pytest.mark.parametrize("part_bytes", [100, 1000, 10**6])
    def test_the_parts_do_not_change_what_is_read(self, path: Path, part_bytes: int) -> None:
        assert [p.text for p in pieces_of(source(path, part_bytes=part_bytes))] == DOCUMENTS

    def test_a_part_reads_the_same_again_and_alone(self, path: Path) -> None:
        first, second = source(path), source(path)
        last = [list(first.part(number) or ()) for number in range(3)][2]
        assert list(second.part(2) or ()) == last
        assert last

    def test_a_wrong_column_is_named_with_those_there_are(self, path: Path) -> None:
        with pytest.raises(DataError, match=r"d\.\w+.*no.* 'body' \(there: id, text\); say which it is with --column"):
            pieces_of(source(path, column="body"))
        with pytest.raises(DataError, match="'id' holds int, not text"):
            pieces_of(source(path, column="id"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.txt", b"", r"e\.txt is empty; leave it out"),
        ("e.jsonl", b"", r"e\.jsonl is empty; leave it out"),
        ("b.jsonl", b'{"text": "a"}\n{"text": ', r"b\.jsonl, byte offset 14: the line is not JSON"),
        ("l.jsonl", b'["a"]\n', r"l\.jsonl, byte offset 0: there is no 'text' \(there: none, it is a list\)"),
        ("n.jsonl", b'{"text": null}\n', "'text' holds NoneType, not text"),
        ("p.parquet", b"PAR1 but not really", r"p\.parquet is no parquet file"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        pieces_of(source(tmp_path / name))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for name in ("gone.txt", "gone.parquet"):
        with pytest.raises(DataError, match=f"{name} does not exist"):
            source(tmp_path / name)


def test_a_parquet_file_without_rows_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "e.parquet")
    with pytest.raises(DataError, match=r"e\.parquet holds no rows"):
        source(tmp_path / "e.parquet")


@settings(max_examples=100)
@given(st.lists(st.text(max_size=20) | st.none() | st.integers(), max_size=8), st.integers(1, 60))
def test_any_json_lines_are_documents_or_refused_with_their_offset(
    tmp_path_factory: pytest.TempPathFactory, values: list, part_bytes: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "d.jsonl"
    path.write_text("".join(json.dumps({"text": value}) + "\n" for value in values))
    if not values:
        with pytest.raises(DataError, match="is empty"):
            source(path)
    elif all(isinstance(value, str) for value in values):
        assert [piece.text for piece in pieces_of(source(path, part_bytes=part_bytes))] == values
    else:
        with pytest.raises(DataError, match=r"byte offset \d+: 'text' holds (NoneType|int)"):
            pieces_of(source(path, part_bytes=part_bytes))
