"""What is in a token file, by reading all of it: once for each version of the file, then remembered beside it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from src.data.shards.layout import Layout
from src.errors import DataError
from src.record import write_atomically

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
