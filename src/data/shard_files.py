"""Two layouts of a token file: bare numbers, as nanoGPT writes them, and numbers after a header, as llm.c does.

nanoGPT   tokens, little-endian
llm.c     256 numbers of 32 bits (magic, version, number of tokens, then zeros), and the tokens
          magic 20240520 version 1: 16 bits a token;  magic 20240801 version 7: 32 bits a token
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from src.config import Count, Positive, Section
from src.data.vocabulary import BpeVocabulary, ByteVocabulary, Vocabulary
from src.errors import DataError
from src.record import write_atomically

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


# What is in a token file, by reading all of it: once for each version of the file, then remembered beside it.
REMEMBERED = ".verified.json"
CHUNK_BYTES = 1 << 24
SAMPLES, SAMPLE_BYTES = 64, 1 << 16
SETTLED_NS = 2_000_000_000  # a file changed this recently could change again without its times showing it

logger = logging.getLogger("headcount")


@dataclass(frozen=True)
class Fingerprint:
    """The SHA-256 of a whole file and the largest token in it."""

    sha256: str
    largest: int


class Fingerprints:
    """The fingerprints of the files of one folder. Reading is needed again where a file's size, times or inode
    changed; nothing is remembered where the folder cannot be written to."""

    def __init__(self, folder: Path) -> None:
        self._place = folder / REMEMBERED
        self._remembered: dict[str, dict] = {}
        with contextlib.suppress(OSError, ValueError):
            content = json.loads(self._place.read_text(encoding="utf-8"))
            self._remembered = content if isinstance(content, dict) else {}

    def of(self, layout: Layout) -> Fingerprint:
        """Raises DataError where the file looks like one of other numbers than `layout` says."""
        state, dtype = _state(layout.path), str(layout.dtype)
        known = self._remembered.get(layout.path.name, {})
        if known.get("state") == state and known.get("dtype") == dtype:
            with contextlib.suppress(TypeError, KeyError):
                return Fingerprint(**known["fingerprint"])
        logger.info("reading %s once to check it (%.2f GB)", layout.path, state["size"] / 1e9)
        fingerprint = read_fingerprint(layout)
        if _state(layout.path) == state and time.time_ns() - state["changed"] > SETTLED_NS:
            entry = {"state": state, "dtype": dtype, "fingerprint": asdict(fingerprint)}
            self._remember(layout.path.name, entry)
        return fingerprint

    def _remember(self, name: str, entry: dict) -> None:
        self._remembered[name] = entry
        with contextlib.suppress(OSError):
            write_atomically(self._place, json.dumps(self._remembered, indent=1) + "\n")


def read_fingerprint(layout: Layout) -> Fingerprint:
    """Reads a whole file, a piece at a time.

    Raises DataError for a file of uint32 tokens that is read as uint16: every second one would be 0.
    """
    digest, largest, odd_places_used = hashlib.sha256(), 0, False
    with layout.path.open("rb") as file:
        digest.update(file.read(layout.offset))
        for piece in iter(lambda: file.read(CHUNK_BYTES), b""):
            digest.update(piece)
            tokens = np.frombuffer(piece, dtype=layout.dtype, count=len(piece) // layout.dtype.itemsize)
            largest = max(largest, int(tokens.max(initial=0)))
            odd_places_used = odd_places_used or bool(tokens[1::2].any())
    if layout.dtype.itemsize == 2 and layout.offset == 0 and not odd_places_used and largest and layout.tokens > 100:
        raise DataError(f"{layout.path}: every second token is 0; are they uint32? Then set data.dtype=uint32")
    return Fingerprint(digest.hexdigest(), largest)


def sampled_sha256(path: Path) -> str:
    """SHA-256 of a file's size and of blocks spread evenly over it, first and last included: cheap at any size.

    A change between the blocks goes unseen.
    """
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for place in _sample_places(size):
            file.seek(place)
            digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()


def _sample_places(size: int) -> Iterator[int]:
    last = max(0, size - SAMPLE_BYTES)
    yield from sorted({last * i // (SAMPLES - 1) for i in range(SAMPLES)})


def _state(path: Path) -> dict[str, int]:
    """What of a file changes when its content does; setting `modified` back cannot hide a change from `changed`."""
    found = path.stat()
    return {
        "size": found.st_size,
        "modified": found.st_mtime_ns,
        "changed": found.st_ctime_ns,
        "inode": found.st_ino,
    }


# What a prepared folder holds, as its maker left it: the files of each split, their hashes, their vocabulary.
MANIFEST = "manifest.json"
PLAN = "prepare.json"  # lies in a folder from the first step of its preparation on
TOKENIZER = "tokenizer.json"
VERSION = 1


class ShardEntry(Section):
    """One file. `text_bytes` are the UTF-8 bytes of the text that its tokens stand for."""

    file: str
    tokens: Positive
    text_bytes: Count
    sha256: str
    sampled_sha256: str


class VocabularyEntry(Section):
    kind: str
    size: Positive
    hash: str


class Manifest(Section):
    """All that is known of a prepared folder. `sources` and `settings` say where its text came from."""

    version: int
    vocabulary: VocabularyEntry
    train: list[ShardEntry]
    validation: list[ShardEntry]
    sources: list[dict[str, Any]]
    settings: dict[str, Any]

    def write(self, folder: Path) -> None:
        write_atomically(folder / MANIFEST, self.model_dump_json(indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest of a folder, or null where there is none.

        Raises DataError for one that is broken or of another version.
        """
        path = folder / MANIFEST
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            version = values.get("version") if isinstance(values, dict) else None
            if version != VERSION:
                raise DataError(
                    f"{path} is of version {version!r}, and this code reads {VERSION}; prepare the data again"
                )
            return cls.model_validate(values)
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, json.JSONDecodeError, ValidationError) as error:
            reason = str(error).replace("\n", " ")
            raise DataError(f"{path} is no manifest ({reason}); prepare the data again") from None

    def read_vocabulary(self, folder: Path) -> Vocabulary:
        """The vocabulary that the shards were written with. Raises DataError where it is not the same any more."""
        vocabulary = ByteVocabulary() if self.vocabulary.kind == "bytes" else read_tokenizer(folder)
        if vocabulary is None:
            raise DataError(f"{folder / TOKENIZER} is missing, which the manifest names; prepare the data again")
        if vocabulary.hash != self.vocabulary.hash:
            raise DataError(
                f"{folder / TOKENIZER} is not the one that the manifest names (hash {vocabulary.hash[:12]}, not "
                f"{self.vocabulary.hash[:12]}): the tokens would be read with other meanings; put the right one back, "
                "or prepare the data again"
            )
        return vocabulary


def read_tokenizer(folder: Path) -> BpeVocabulary | None:
    """The tokenizer.json of a folder, or null where there is none."""
    path = folder / TOKENIZER
    try:
        return BpeVocabulary(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error}); put a tokenizer.json there") from None
