"""A folder of token files: the corpus that it makes, what is in its files, and the manifest that its maker left.

Every file is read whole once for each version of it, and what was found is remembered beside it. A prepared folder
has a manifest that names its files, their hashes and their vocabulary; other folders are taken as they are.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from src.config import ShardsConfig
from src.data.corpus import Corpus
from src.data.text import resolved
from src.data.tokens import Layout, TokenFile, TokenSequence, chunks, read_layout
from src.data.vocabulary import BpeVocabulary, ByteVocabulary, IdVocabulary, Vocabulary
from src.errors import DataError
from src.record import write_atomically
from src.section import Count, Positive, Section

SHARD_MANIFEST = "manifest.json"
PREPARATION = "prepare.json"  # lies in a folder from the first step of its preparation on
TOKENIZER = "tokenizer.json"
VERSION = 1

REMEMBERED = ".verified.json"
CHUNK_BYTES = 1 << 24
SAMPLES, SAMPLE_BYTES = 64, 1 << 16
SETTLED_NS = 2_000_000_000  # a file changed this recently could change again without its times showing it

logger = logging.getLogger("headcount")


@dataclass(frozen=True)
class _Split:
    name: str
    layouts: list[Layout]
    hashes: list[str]

    def tokens(self, vocabulary: Vocabulary) -> TokenFile | TokenSequence:
        files = [TokenFile(it.path, it.dtype, it.offset, it.tokens, vocabulary.size) for it in self.layouts]
        return files[0] if len(files) == 1 else TokenSequence(files)

    @property
    def identity(self) -> list[tuple[int, str]]:
        return [(layout.tokens, sha256) for layout, sha256 in zip(self.layouts, self.hashes, strict=True)]


def token_shards(data: ShardsConfig, launch_dir: Path) -> Corpus:
    """A prepared folder, or the files in a folder that `data.train` and `data.validation` match.

    Each split is one sequence, its files in the order of their names. With `data.verify=full` every file is read
    whole, once for each version of it; with `sampled` only blocks of it, and tokens are checked as they are used.
    Raises DataError where a file is missing, cut short, of other tokens, or not what its manifest says.
    """
    if data.path is None:
        raise DataError("data=token_shards needs a folder: data.path=my_shards (see python -m src.data.prepare --help)")
    folder = resolved(data.path, launch_dir)
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; data.path names the one that holds the token files")
    manifest = ShardManifest.read(folder)
    if manifest is None and (folder / PREPARATION).exists():
        raise DataError(
            f"{folder} is not prepared to its end; run its python -m src.data.prepare command again, which goes on "
            "where it stopped"
        )
    vocabulary = _vocabulary(data, folder, manifest)
    train, validation = _splits(data, folder, manifest, vocabulary)
    val_tokens = validation.tokens(vocabulary)
    if manifest is not None:
        val_bytes = sum(entry.text_bytes for entry in manifest.validation)
    else:
        val_bytes = _bytes_of(vocabulary, val_tokens)
    content = {"vocabulary": vocabulary.hash, "train": train.identity, "validation": validation.identity}
    return Corpus(
        name=data.name,
        source=str(folder),
        hash=hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest(),
        vocabulary=vocabulary,
        train_tokens=train.tokens(vocabulary),
        val_tokens=val_tokens,
        val_bytes=val_bytes,
        order=data.order,
        stride=data.stride,
    )


def _vocabulary(data: ShardsConfig, folder: Path, manifest: ShardManifest | None) -> Vocabulary:
    own = manifest.read_vocabulary(folder) if manifest is not None else read_tokenizer(folder)
    if own is not None:
        if data.vocabulary_size is not None:
            raise DataError(
                f"data.vocabulary_size={data.vocabulary_size}, but {folder} has a vocabulary of its own with "
                f"{own.size} tokens; leave it null"
            )
        return own
    if data.vocabulary_size is None:
        raise DataError(
            f"{folder} has neither a {SHARD_MANIFEST} nor a tokenizer.json, so nothing says which tokens there are; "
            "give data.vocabulary_size (GPT-2's is 50257), or put the tokenizer.json there"
        )
    return IdVocabulary(data.vocabulary_size)


def _splits(
    data: ShardsConfig, folder: Path, manifest: ShardManifest | None, vocabulary: Vocabulary
) -> tuple[_Split, _Split]:
    fingerprints = Fingerprints(folder)
    if manifest is None:
        train, validation = _matching(folder, "train", data.train), _matching(folder, "validation", data.validation)
        if both := sorted({path.name for path in train} & {path.name for path in validation}):
            raise DataError(
                f"{folder / both[0]} is matched by data.train={data.train} and by data.validation={data.validation}: "
                "what is trained on cannot validate; choose patterns that tell them apart"
            )
        found = [_found(data, paths, vocabulary, fingerprints) for paths in (train, validation)]
    else:
        found = [
            _promised(data, folder, entries, vocabulary, fingerprints)
            for entries in (manifest.train, manifest.validation)
        ]
    train, validation = (
        _Split(name, *layouts_and_hashes)
        for name, layouts_and_hashes in zip(("train", "validation"), found, strict=True)
    )
    return train, validation


def _matching(folder: Path, split: str, pattern: str) -> list[Path]:
    paths = sorted(path for path in folder.glob(pattern) if path.is_file())
    if not paths:
        there = ", ".join(sorted(path.name for path in folder.glob("*.bin"))[:5]) or "none"
        raise DataError(
            f"no file of {folder} matches data.{split}={pattern} (.bin files there: {there}); give the pattern of the "
            f"{split} split's files"
        )
    return paths


def _found(
    data: ShardsConfig, paths: Sequence[Path], vocabulary: Vocabulary, fingerprints: Fingerprints
) -> tuple[list[Layout], list[str]]:
    layouts, hashes = [], []
    for path in paths:
        layout = read_layout(path, data.dtype)
        if data.verify == "sampled":
            hashes.append("sampled " + sampled_sha256(path))
        else:
            fingerprint = fingerprints.of(layout)
            _check_largest(layout, fingerprint.largest, vocabulary)
            hashes.append(fingerprint.sha256)
        layouts.append(layout)
    return layouts, hashes


def _promised(
    data: ShardsConfig,
    folder: Path,
    entries: Sequence[ShardEntry],
    vocabulary: Vocabulary,
    fingerprints: Fingerprints,
) -> tuple[list[Layout], list[str]]:
    layouts, hashes = [], []
    for entry in entries:
        layout = read_layout(folder / entry.file, None)
        if layout.tokens != entry.tokens:
            raise _changed(layout.path, f"it holds {layout.tokens:,} tokens, not {entry.tokens:,}")
        if data.verify == "sampled":
            if sampled_sha256(layout.path) != entry.sampled_sha256:
                raise _changed(layout.path, "a sample of its blocks differs")
        else:
            fingerprint = fingerprints.of(layout)
            if fingerprint.sha256 != entry.sha256:
                raise _changed(layout.path, f"its sha256 is {fingerprint.sha256}, not {entry.sha256}")
            _check_largest(layout, fingerprint.largest, vocabulary)
        layouts.append(layout)
        hashes.append(entry.sha256)
    return layouts, hashes


def _changed(path: Path, how: str) -> DataError:
    return DataError(
        f"{path} is not the file that {SHARD_MANIFEST} names ({how}); put that one back, or prepare the data again"
    )


def _check_largest(layout: Layout, largest: int, vocabulary: Vocabulary) -> None:
    if largest >= vocabulary.size:
        tokens = TokenFile(layout.path, layout.dtype, layout.offset, layout.tokens, vocabulary.size)
        for _ in chunks(tokens):  # raises where the first such token lies
            pass


def _bytes_of(vocabulary: Vocabulary, tokens: TokenFile | TokenSequence) -> int | None:
    if vocabulary.bytes_of(tokens[:0]) is None:  # known without reading the rest
        return None
    return sum(vocabulary.bytes_of(piece) or 0 for piece in chunks(tokens))


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


class ShardManifest(Section):
    """All that is known of a prepared folder. `sources` and `settings` say where its text came from."""

    version: int
    vocabulary: VocabularyEntry
    train: list[ShardEntry]
    validation: list[ShardEntry]
    sources: list[dict[str, Any]]
    settings: dict[str, Any]

    def write(self, folder: Path) -> None:
        write_atomically(folder / SHARD_MANIFEST, self.model_dump_json(indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> ShardManifest | None:
        """The manifest of a folder, or None where there is none.

        Raises DataError for one that is broken or of another version.
        """
        path = folder / SHARD_MANIFEST
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
    """The tokenizer.json of a folder, or None where there is none."""
    path = folder / TOKENIZER
    try:
        return BpeVocabulary(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error}); put a tokenizer.json there") from None
