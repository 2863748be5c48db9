"""One long sequence of tokens, in memory or on disk, in one piece or several; all read alike, by slices.

A token file has one of two layouts:

nanoGPT   tokens, little-endian
llm.c     256 numbers of 32 bits (magic, version, number of tokens, then zeros), and the tokens
          magic 20240520 version 1: 16 bits a token;  magic 20240801 version 7: 32 bits a token
"""

from __future__ import annotations

import os
import weakref
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Int64, Integer

from src.errors import DataError

CHUNK = 1 << 20
HEADER = np.dtype("<i4")
HEADER_NUMBERS = 256
HEADER_BYTES = HEADER_NUMBERS * HEADER.itemsize
WIDTHS: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
LAYOUTS = {(20240520, 1): WIDTHS["uint16"], (20240801, 7): WIDTHS["uint32"]}
MAGICS = {magic for magic, _ in LAYOUTS}
MOST_TOKENS = 2**31 - 1
"""Of one file with a header, whose count has 32 bits."""


class Tokens(Protocol):
    """What windows are cut from: a numpy array, or something on disk that answers like one."""

    def __len__(self) -> int: ...

    def __getitem__(self, places: slice, /) -> Integer[np.ndarray, " N"]:
        """The tokens of a slice of step 1, as an array."""
        ...


class TokenFile:
    """A part of a file that holds `count` tokens of one width, from byte `offset` on.

    Read, not mapped: a mapped file counts as the process's memory, page by page as it is touched, and a file cut
    short under a running job would kill it without a word.

    Raises DataError, with the file and the offset, where the file cannot be read, became shorter, or holds a token
    that is not below `vocabulary_size`.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], offset: int, count: int, vocabulary_size: int) -> None:
        self.path, self.dtype, self.offset, self.count = path, dtype, offset, count
        self.vocabulary_size = vocabulary_size
        self._file: int | None = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, places: slice) -> Integer[np.ndarray, " N"]:
        start, stop, step = places.indices(self.count)
        if step != 1:
            raise ValueError(f"step={step}; a file of tokens is read forwards, token by token")
        width, wanted = self.dtype.itemsize, max(0, stop - start)
        content = self._read(wanted * width, self.offset + start * width)
        tokens = np.frombuffer(content, dtype=self.dtype)
        check_tokens(tokens, self.vocabulary_size, self.path, self.offset + start * width)
        return tokens

    def _read(self, size: int, offset: int) -> bytes:
        if self._file is None:
            self._file = _open(self.path)
            weakref.finalize(self, os.close, self._file)
        content = bytearray()
        while len(content) < size:  # one call gives at most 2 GiB, and a network file system less
            piece = os.pread(self._file, size - len(content), offset + len(content))
            if not piece:
                raise DataError(
                    f"{self.path} ends at byte offset {offset + len(content)}, before its last token: it was cut "
                    "short while in use; put the whole file back"
                )
            if len(piece) == size:
                return piece
            content += piece
        return bytes(content)


class TokenSequence:
    """Pieces one after the other, as one sequence: where one ends and the next begins cannot be seen.

    >>> halves = TokenSequence([np.array([0, 1, 2]), np.array([3, 4])])
    >>> len(halves), halves[1:4].tolist()
    (5, [1, 2, 3])
    """

    def __init__(self, pieces: Sequence[Tokens]) -> None:
        self.pieces = pieces
        self._ends = list(accumulate(len(piece) for piece in pieces))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, places: slice) -> Integer[np.ndarray, " N"]:
        start, stop, step = places.indices(len(self))
        if step != 1:
            raise ValueError(f"step={step}; a sequence of tokens is read forwards, token by token")
        parts = []
        number = bisect_right(self._ends, start)
        while start < stop:
            begin = self._ends[number - 1] if number else 0
            end = min(stop, self._ends[number])
            parts.append(self.pieces[number][start - begin : end - begin])
            start, number = end, number + 1
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint8)


def chunks(tokens: Tokens, size: int = CHUNK) -> Iterator[Integer[np.ndarray, " N"]]:
    """The whole sequence, a piece at a time."""
    places = [*range(0, len(tokens), size), len(tokens)]
    for start, stop in pairwise(places):
        yield tokens[start:stop]


def known_tokens(tokens: Integer[np.ndarray, " T"] | Sequence[int], size: int) -> Int64[np.ndarray, " T"]:
    """The tokens as numbers. Raises DataError for one outside 0 to size - 1."""
    ids = np.asarray(tokens, dtype=np.int64)
    outside = (ids < 0) | (ids >= size)
    if outside.any():
        raise DataError(
            f"token {ids[outside][0]} is none of the vocabulary's {size} (0 to {size - 1}); "
            "were the tokens made with another vocabulary?"
        )
    return ids


def check_tokens(tokens: Integer[np.ndarray, " N"], vocabulary_size: int, path: Path, offset: int) -> None:
    """Raises DataError for the first token that the vocabulary does not have; `offset` is where they lie in bytes."""
    if tokens.size and int(tokens.max()) >= vocabulary_size:
        place = int(np.argmax(tokens >= vocabulary_size))
        raise DataError(
            f"{path}: token {tokens[place]} at byte offset {offset + place * tokens.itemsize} is none of the "
            f"vocabulary's {vocabulary_size} (0 to {vocabulary_size - 1}); is data.vocabulary_size right, and is it "
            f"a file of {tokens.dtype} tokens?"
        )


@dataclass(frozen=True)
class Layout:
    """Where the tokens of a file lie: `tokens` of them, of one width, from byte `offset` to its end."""

    path: Path
    dtype: np.dtype[Any]
    offset: int
    tokens: int


def read_layout(path: Path, dtype: str | None) -> Layout:
    """The layout of a token file. A bare one has tokens of `dtype` (None: uint16).

    Raises DataError where there is no such file, it is empty or cut short, its header is not known, or it
    contradicts `dtype`.
    """
    try:
        with path.open("rb") as file:
            start = file.read(HEADER_BYTES)
            size = file.seek(0, 2)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; a relative path starts at the folder of the command") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); give a readable file of tokens") from None
    if not size:
        raise DataError(f"{path} is empty; a file of tokens holds at least a few contexts of them")
    if start.startswith(b"\x93NUMPY"):
        raise DataError(f"{path} is a .npy file; write its bare numbers instead: numpy.load(OLD).tofile(NEW)")
    magic = int.from_bytes(start[:4], "little")
    if magic in MAGICS:
        return _with_header(path, start, size, dtype)
    width = WIDTHS[dtype or "uint16"]
    tokens, rest = divmod(size, width.itemsize)
    if rest:
        raise DataError(
            f"{path}: {size:,} bytes are no whole number of {width} tokens: the last one breaks off at byte offset "
            f"{size - rest}; is the file cut short, or data.dtype wrong?"
        )
    return Layout(path, width, 0, tokens)


def header(tokens: int, dtype: np.dtype[Any]) -> bytes:
    """What stands before the tokens in a file as llm.c reads it."""
    assert 0 <= tokens <= MOST_TOKENS, "the writer cuts files long before this"
    magic, version = next(key for key, width in LAYOUTS.items() if width == dtype)
    numbers = np.zeros(HEADER_NUMBERS, dtype=HEADER)
    numbers[:3] = magic, version, tokens
    return numbers.tobytes()


def _with_header(path: Path, start: bytes, size: int, dtype: str | None) -> Layout:
    if size < HEADER_BYTES:
        raise DataError(
            f"{path} is cut short at byte offset {size}, inside its header of {HEADER_BYTES} bytes; put the whole "
            "file back"
        )
    magic, version, tokens = np.frombuffer(start, dtype=HEADER)[:3].tolist()
    width = LAYOUTS.get((magic, version))
    if width is None:
        known = ", ".join(f"{magic} version {version}" for magic, version in LAYOUTS)
        raise DataError(f"{path}: the header says magic {magic} version {version}, and only {known} are known")
    if dtype is not None and WIDTHS[dtype] != width:
        raise DataError(f"{path}: its header says {width} tokens, and data.dtype={dtype}; leave data.dtype null")
    if size != HEADER_BYTES + tokens * width.itemsize:
        found = (size - HEADER_BYTES) / width.itemsize
        raise DataError(
            f"{path}: its header says {tokens:,} tokens, and {found:,.10g} lie between byte offset {HEADER_BYTES} and "
            f"its end at {size}; is the file cut short? Put the whole file back"
        )
    return Layout(path, width, HEADER_BYTES, tokens)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist any more; put it back") from None
    except OSError as error:
        raise DataError(
            f"{path} cannot be opened ({error.strerror}); is it readable, "
            "and are fewer files open than ulimit -n allows?"
        ) from None
