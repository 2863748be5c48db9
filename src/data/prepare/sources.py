"""Where text comes from: files or a Hugging Face data set, in numbered parts that can be read again one by one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

from src.data.text import decode_text
from src.errors import DataError

PIECE_BYTES = 1 << 18
CUT_WITHIN = 1 << 16  # how far a cut looks for the end of a line, then of a word
LONGEST_LINE = 1 << 28
ROWS = 1024
KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_MISSING = "--dataset needs the library datasets; install it with: pip install 'datasets>=4,<5'"

Split = Literal["train", "validation"]


@dataclass(frozen=True)
class Piece:
    """Some text of one document; `is_end` says that the document ends with it, `read` how much reading it took."""

    split: Split
    text: str
    is_end: bool
    read: int


class TextSource(Protocol):
    """Where text comes from. The same part always gives the same pieces."""

    @property
    def total(self) -> int | None:
        """What the `read` of all pieces adds up to, about; None where nobody knows beforehand."""
        ...

    def facts(self) -> list[dict[str, Any]]:
        """Names and hashes of what is read, for the manifest."""
        ...

    def state(self) -> list[dict[str, Any]]:
        """What must not change while a preparation is interrupted; cheap to ask for."""
        ...

    def part(self, number: int) -> Iterator[Piece] | None:
        """The pieces of a part; None past the last."""
        ...


def split_of(document: str, validation_fraction: float) -> Split:
    """Decided by the text itself: a document that comes twice never lies on both sides."""
    digest = hashlib.sha256(document.encode("utf-8", "replace")).digest()
    return "validation" if int.from_bytes(digest[:8], "big") < validation_fraction * 2**64 else "train"


@dataclass(frozen=True)
class Range:
    """A stretch of one file: bytes `start` to `end` of text or JSON lines, or row groups of a parquet file."""

    path: Path
    kind: str
    start: int
    end: int
    size: int
    split: Split | None = None
    is_last: bool = False


class Files:
    """Some files, in the order given, as parts of about `part_bytes`.

    The end of each text file, `validation_fraction` of it, is for validation; of JSON lines and parquet that share
    of the documents, by `split_of`. Raises DataError for a file that is missing, empty or of no use.
    """

    def __init__(self, paths: Sequence[Path], column: str, validation_fraction: float, part_bytes: int) -> None:
        self.paths, self.column, self.validation_fraction = paths, column, validation_fraction
        ranges = [one for path in paths for one in _ranges(path, validation_fraction, part_bytes)]
        self._parts = _grouped(ranges, part_bytes)

    @property
    def total(self) -> int:
        return sum(one.size for part in self._parts for one in part)

    def facts(self) -> list[dict[str, Any]]:
        return [{"name": path.name, "bytes": path.stat().st_size, "sha256": _sha256(path)} for path in self.paths]

    def state(self) -> list[dict[str, Any]]:
        found = [(str(path), path.stat()) for path in self.paths]
        return [{"path": path, "bytes": stat.st_size, "modified": stat.st_mtime_ns} for path, stat in found]

    def part(self, number: int) -> Iterator[Piece] | None:
        if number >= len(self._parts):
            return None
        return (piece for one in self._parts[number] for piece in self._pieces(one))

    def _pieces(self, one: Range) -> Iterator[Piece]:
        if one.kind == "text":
            return _text_pieces(one)
        documents = _json_documents(one, self.column) if one.kind == "jsonl" else _parquet_documents(one, self.column)
        return (Piece(split_of(text, self.validation_fraction), text, True, read) for text, read in documents)


def _ranges(path: Path, validation_fraction: float, part_bytes: int) -> Iterator[Range]:
    kind = KINDS.get(path.suffix.lower(), "text")
    try:
        size = path.stat().st_size
        if kind == "parquet":
            yield from _row_groups(path)
            return
        if not size:
            raise DataError(f"{path} is empty; leave it out")
        with path.open("rb") as file:
            if kind == "jsonl":
                yield from (Range(path, kind, *cell) for cell in _cells(file, 0, size, part_bytes, lines_only=True))
                return
            boundary = _cut(file, int(size * (1 - validation_fraction)), size)
            stretches: tuple[tuple[Split, int, int], ...] = (("train", 0, boundary), ("validation", boundary, size))
            for split, start, end in stretches:
                for cell in _cells(file, start, end, part_bytes):
                    yield Range(path, kind, *cell, split=split, is_last=cell[1] == end)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; give the path of a text, .jsonl or .parquet file") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); give a readable file") from None


def _row_groups(path: Path) -> Iterator[Range]:
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            rows = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            sizes = [file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)]
    except ArrowInvalid as error:
        raise DataError(f"{path} is no parquet file ({error}); is it cut short?") from None
    if not sum(rows):
        raise DataError(f"{path} holds no rows; leave it out")
    for number, size in enumerate(sizes):
        yield Range(path, "parquet", number, number + 1, size)


def _grouped(ranges: Sequence[Range], part_bytes: int) -> list[list[Range]]:
    """Ranges in parts of at most `part_bytes`, or of one range: many small files make few parts."""
    parts: list[list[Range]] = []
    room = 0
    for one in ranges:
        if one.size > room:
            parts.append([])
            room = part_bytes
        parts[-1].append(one)
        room -= one.size
    return parts


def _cells(
    file: BinaryIO, start: int, end: int, step: int, *, lines_only: bool = False
) -> Iterator[tuple[int, int, int]]:
    """(begin, end, size) of stretches of about `step` bytes that break where a text may be broken."""
    begin = start
    for place in range(start + step, end + step, step):
        stop = _line_end(file, place, end) if lines_only else _cut(file, place, end)
        if stop > begin:
            yield begin, stop, stop - begin
        begin = max(begin, stop)


def _cut(file: BinaryIO, place: int, end: int) -> int:
    """Where to break near a place: after the next line end, or else blank, or else whole character."""
    if place >= end:
        return end
    if place == 0:
        return 0
    file.seek(place - 1)
    window = file.read(min(CUT_WITHIN, end - place) + 1)
    for sign in (b"\n", b" "):
        if (found := window.find(sign)) >= 0:
            return place + found
    inside = next((i for i in range(1, len(window)) if window[i] & 0xC0 != 0x80), len(window))
    return min(end, place - 1 + inside)


def _line_end(file: BinaryIO, place: int, end: int) -> int:
    if place >= end:
        return end
    file.seek(place - 1)
    line = file.readline(LONGEST_LINE)
    if len(line) == LONGEST_LINE:
        raise DataError(f"{file.name}: the line at byte offset {place} has more than {LONGEST_LINE:,} bytes")
    return place - 1 + len(line)


def _text_pieces(one: Range) -> Iterator[Piece]:
    assert one.split is not None, "text is split by place"
    with one.path.open("rb") as file:
        for begin, end, size in _cells(file, one.start, one.end, PIECE_BYTES):
            file.seek(begin)
            text = decode_text(file.read(size), str(one.path), begin)
            yield Piece(one.split, text, one.is_last and end == one.end, size)


def _json_documents(one: Range, column: str) -> Iterator[tuple[str, int]]:
    with one.path.open("rb") as file:
        file.seek(one.start)
        place = one.start
        while place < one.end:
            line = file.readline()
            if line.strip():
                yield _json_text(line, column, f"{one.path}, byte offset {place}"), len(line)
            place += len(line)


def _json_text(line: bytes, column: str, where: str) -> str:
    try:
        values = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where}: the line is not JSON ({error}); is it cut short?") from None
    if not isinstance(values, dict) or column not in values:
        names = ", ".join(values) if isinstance(values, dict) else f"none, it is a {type(values).__name__}"
        raise DataError(f"{where}: there is no {column!r} (there: {names}); say which it is with --column")
    return _checked(values[column], column, where)


def _parquet_documents(one: Range, column: str) -> Iterator[tuple[str, int]]:
    from pyarrow.parquet import ParquetFile

    with ParquetFile(one.path) as file:
        if column not in file.schema_arrow.names:
            names = ", ".join(file.schema_arrow.names)
            raise DataError(f"{one.path} has no column {column!r} (there: {names}); say which it is with --column")
        rows = sum(file.metadata.row_group(i).num_rows for i in range(one.start, one.end)) or 1
        number = 0
        for batch in file.iter_batches(ROWS, row_groups=list(range(one.start, one.end)), columns=[column]):
            for value in batch.column(0).to_pylist():
                yield _checked(value, column, f"{one.path}, row group {one.start}, row {number}"), one.size // rows
                number += 1


def _checked(value: object, column: str, where: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{where}: {column!r} holds {type(value).__name__}, not text; leave it out or choose --column")
    return value


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class HuggingFace:
    """The rows of one split of a Hugging Face data set, in its order, `part_rows` a part.

    Streamed: never more than a part of it is in memory, and nothing else is downloaded.
    The share `validation_fraction` of the documents is for validation, by `split_of`.
    Raises DataError where the library or the data set is missing.
    """

    def __init__(
        self,
        name: str,
        config: str | None,
        split: str,
        revision: str | None,
        column: str,
        validation_fraction: float,
        part_rows: int,
    ) -> None:
        self.name, self.config, self.split, self.revision = name, config, split, revision
        self.column, self.validation_fraction, self.part_rows = column, validation_fraction, part_rows
        self._rows: tuple[int, Iterator[dict[str, Any]]] | None = None

    @property
    def total(self) -> None:
        return None

    def facts(self) -> list[dict[str, Any]]:
        return self.state()

    def state(self) -> list[dict[str, Any]]:
        """Without a revision the data set's owner may change it at any time."""
        return [{"dataset": self.name, "config": self.config, "split": self.split, "revision": self.revision}]

    def part(self, number: int) -> Iterator[Piece] | None:
        rows = self._from(number * self.part_rows)
        first = next(rows, None)
        return None if first is None else self._pieces(first, rows, number)

    def _pieces(self, row: dict[str, Any] | None, rows: Iterator[dict[str, Any]], number: int) -> Iterator[Piece]:
        end = (number + 1) * self.part_rows
        for place in range(number * self.part_rows, end):
            if row is None:
                break
            text = self._text(row, place)
            yield Piece(split_of(text, self.validation_fraction), text, True, 1)
            row = next(rows, None) if place + 1 < end else None
        self._rows = (end, rows)

    def _from(self, place: int) -> Iterator[dict[str, Any]]:
        """The rows from a place on; those that the part before left are gone on with, not skipped again."""
        if self._rows is not None and self._rows[0] == place:
            return self._rows[1]
        # The library's own skip() begins again where it should end: datasets 4.8 gives rows past the last.
        return islice(open_stream(self.name, self.config, self.split, self.revision), place, None)

    def _text(self, row: dict[str, Any], place: int) -> str:
        value = row.get(self.column)
        if not isinstance(value, str):
            found = ", ".join(f"{name} ({type(of).__name__})" for name, of in row.items())
            raise DataError(
                f"{self.name}, row {place}: there is no text in {self.column!r} (there: {found}); say where with "
                "--column"
            )
        return value


def open_stream(name: str, config: str | None, split: str, revision: str | None) -> Iterable[dict[str, Any]]:
    """The rows of a data set as a stream. Raises DataError where it cannot be had."""
    try:
        from datasets import load_dataset  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise DataError(_MISSING) from None
    try:
        return load_dataset(name, config, split=split, revision=revision, streaming=True)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"the data set {name} (config {config}, split {split}) cannot be had: {error}") from None
