"""One part into tokens, and the tokens of each split into a file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import UInt

from src.data.prepare.sources import Piece, Split
from src.data.shards.fingerprint import sampled_sha256
from src.data.shards.layout import WIDTHS, header
from src.data.shards.manifest import ShardEntry
from src.data.vocabulary import BpeVocabulary, ByteVocabulary

ENCODED_AT_ONCE = 1 << 22  # characters: enough to keep all cores busy
FILE_NAMES: dict[Split, str] = {"train": "train_{:06d}.bin", "validation": "val_{:06d}.bin"}


@dataclass
class _Tokens:
    arrays: list[UInt[np.ndarray, " T"]] = field(default_factory=list)
    text_bytes: int = 0


def write_part(
    folder: Path,
    number: int,
    pieces: Iterable[Piece],
    vocabulary: BpeVocabulary | ByteVocabulary,
    report: Callable[[int], None],
) -> dict[Split, ShardEntry]:
    """Encodes the pieces of a part and writes a file for each split that got tokens; its entries for the manifest.

    A mark follows each document: the vocabulary's end of text (none where it has none), or NUL between bytes.
    `report` hears how much has been read.
    """
    splits: dict[Split, _Tokens] = {"train": _Tokens(), "validation": _Tokens()}
    waiting: list[Piece] = []
    for piece in pieces:
        waiting.append(piece)
        if sum(len(one.text) for one in waiting) >= ENCODED_AT_ONCE or len(waiting) >= ENCODED_AT_ONCE >> 12:
            _encode(waiting, vocabulary, splits)
            report(sum(one.read for one in waiting))
            waiting = []
    _encode(waiting, vocabulary, splits)
    report(sum(one.read for one in waiting))
    entries: dict[Split, ShardEntry] = {}
    for split, tokens in splits.items():
        if any(array.size for array in tokens.arrays):
            entries[split] = _write(folder, FILE_NAMES[split].format(number), tokens, vocabulary)
    return entries


def _encode(pieces: Sequence[Piece], vocabulary: BpeVocabulary | ByteVocabulary, splits: dict[Split, _Tokens]) -> None:
    texts = [piece.text for piece in pieces]
    if isinstance(vocabulary, ByteVocabulary):
        encoded, end = [vocabulary.encode(text) for text in texts], 0
    else:
        encoded, end = vocabulary.encode_all(texts), vocabulary.end_of_text
    for piece, tokens in zip(pieces, encoded, strict=True):
        into = splits[piece.split]
        into.arrays.append(tokens)
        into.text_bytes += len(piece.text.encode("utf-8", "replace"))
        if piece.is_end and end is not None:
            into.arrays.append(np.array([end], dtype=tokens.dtype))


def _write(folder: Path, name: str, tokens: _Tokens, vocabulary: BpeVocabulary | ByteVocabulary) -> ShardEntry:
    width = WIDTHS["uint16" if vocabulary.size <= 1 << 16 else "uint32"]
    numbers = np.concatenate(tokens.arrays, dtype=width)
    path, temporary = folder / name, folder / f".{name}.tmp"
    digest = hashlib.sha256()
    with temporary.open("wb") as file:
        for content in (header(numbers.size, width), numbers.tobytes()):
            file.write(content)
            digest.update(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return ShardEntry(
        file=name,
        tokens=numbers.size,
        text_bytes=tokens.text_bytes,
        sha256=digest.hexdigest(),
        sampled_sha256=sampled_sha256(path),
    )
