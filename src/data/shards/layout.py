"""Two layouts of a token file: bare numbers, as nanoGPT writes them, and numbers after a header, as llm.c does.

nanoGPT   tokens, little-endian
llm.c     256 numbers of 32 bits (magic, version, number of tokens, then zeros), and the tokens
          magic 20240520 version 1: 16 bits a token;  magic 20240801 version 7: 32 bits a token
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from src.errors import DataError

HEADER = np.dtype("<i4")
HEADER_NUMBERS = 256
HEADER_BYTES = HEADER_NUMBERS * HEADER.itemsize
WIDTHS: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
LAYOUTS = {(20240520, 1): WIDTHS["uint16"], (20240801, 7): WIDTHS["uint32"]}
MAGICS = {magic for magic, _ in LAYOUTS}
MOST_TOKENS = 2**31 - 1
"""Of one file with a header, whose count has 32 bits."""


@dataclass(frozen=True)
class Layout:
    """Where the tokens of a file lie: `tokens` of them, of one width, from byte `offset` to its end."""

    path: Path
    dtype: np.dtype[Any]
    offset: int
    tokens: int


def read_layout(path: Path, dtype: str | None) -> Layout:
    """The layout of a token file. A bare one has tokens of `dtype` (null: uint16).

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


def header(tokens: int, dtype: np.dtype[Any]) -> bytes:
    """What stands before the tokens in a file as llm.c reads it."""
    assert 0 <= tokens <= MOST_TOKENS, "the writer cuts files long before this"
    magic, version = next(key for key, width in LAYOUTS.items() if width == dtype)
    numbers = np.zeros(HEADER_NUMBERS, dtype=HEADER)
    numbers[:3] = magic, version, tokens
    return numbers.tobytes()
