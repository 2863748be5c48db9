"""The corpus that a folder of token files makes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from src.config import ShardsConfig
from src.data.corpus import Corpus
from src.data.shard_files import (
    MANIFEST,
    PLAN,
    Fingerprints,
    Layout,
    Manifest,
    ShardEntry,
    read_layout,
    read_tokenizer,
    sampled_sha256,
)
from src.data.text import resolved
from src.data.tokens import TokenFile, TokenSequence, chunks
from src.data.vocabulary import IdVocabulary, Vocabulary
from src.errors import DataError


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
    manifest = Manifest.read(folder)
    if manifest is None and (folder / PLAN).exists():
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


def _vocabulary(data: ShardsConfig, folder: Path, manifest: Manifest | None) -> Vocabulary:
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
            f"{folder} has neither a {MANIFEST} nor a tokenizer.json, so nothing says which tokens there are; give "
            "data.vocabulary_size (GPT-2's is 50257), or put the tokenizer.json there"
        )
    return IdVocabulary(data.vocabulary_size)


def _splits(
    data: ShardsConfig, folder: Path, manifest: Manifest | None, vocabulary: Vocabulary
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
        f"{path} is not the file that {MANIFEST} names ({how}); put that one back, or prepare the data again"
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
