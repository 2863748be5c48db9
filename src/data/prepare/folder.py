"""A folder of shards in the making: what it is made from, its parts one by one, and the manifest once all are done.

Interrupted at any moment, it goes on with the first part that was not finished.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt

from src.data.prepare.sources import Piece, Split, TextSource
from src.data.shards import (
    PREPARATION,
    TOKENIZER,
    VERSION,
    ShardEntry,
    ShardManifest,
    VocabularyEntry,
    read_tokenizer,
    sampled_sha256,
)
from src.data.tokens import WIDTHS, header
from src.data.vocabulary import BpeVocabulary, ByteVocabulary
from src.errors import DataError
from src.record import write_atomically

ENCODED_AT_ONCE = 1 << 22  # characters: enough to keep all cores busy
FILE_NAMES: dict[Split, str] = {"train": "train_{:06d}.bin", "validation": "val_{:06d}.bin"}
PARTS = "parts.jsonl"  # a line for each part that is done


def prepare(
    folder: Path,
    source: TextSource,
    settings: dict[str, Any],
    make_vocabulary: Callable[[], BpeVocabulary | ByteVocabulary],
    report: Callable[[int], None],
) -> ShardManifest:
    """Makes of a folder what is missing, and gives its manifest; `report` hears how much has been read.

    Raises DataError where the folder was begun from something else, or a split would be empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    facts = _begin(folder, source, settings)
    if (manifest := ShardManifest.read(folder)) is not None:
        return manifest
    vocabulary = _vocabulary(folder, settings, make_vocabulary)
    done = list(_done(folder))
    for entries in done:
        report(sum(entry.text_bytes for entry in entries.values()))
    for number, pieces in _parts(source, len(done)):
        entries = write_part(folder, number, pieces, vocabulary, report)
        _append(folder, entries)
        done.append(entries)
    both: tuple[Split, ...] = ("train", "validation")
    splits = {split: [entries[split] for entries in done if split in entries] for split in both}
    for split, entries in splits.items():
        if not entries:
            raise DataError(
                f"no document fell into the {split} split at --validation-fraction {settings['validation_fraction']}; "
                f"prepare into another folder with {'a larger' if split == 'validation' else 'a smaller'} one"
            )
    kind = "bytes" if isinstance(vocabulary, ByteVocabulary) else "bpe"
    manifest = ShardManifest(
        version=VERSION,
        vocabulary=VocabularyEntry(kind=kind, size=vocabulary.size, hash=vocabulary.hash),
        train=splits["train"],
        validation=splits["validation"],
        sources=facts,
        settings=settings,
    )
    manifest.write(folder)
    return manifest


def _begin(folder: Path, source: TextSource, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Writes down what the folder is made from, or holds it against what was written; gives the source's facts."""
    path = folder / PREPARATION
    wanted = {"version": VERSION, "settings": settings, "state": source.state()}
    try:
        begun = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        strange = sorted(one.name for one in folder.iterdir() if one.name not in (PREPARATION, PARTS))
        if strange:
            raise DataError(
                f"{folder} is not empty ({', '.join(strange[:3])}{' ...' if len(strange) > 3 else ''}); "
                "give --out a new folder"
            ) from None
        begun = wanted | {"facts": source.facts()}
        write_atomically(path, json.dumps(begun, indent=1) + "\n")
        return begun["facts"]
    except ValueError as error:
        raise DataError(f"{path} is broken ({error}); prepare into another folder") from None
    for part, now in wanted.items():
        if begun.get(part) != now:
            raise DataError(
                f"{folder} was begun with other {part} ({_difference(begun.get(part), now)}); go on with those, or "
                "give --out a new folder"
            )
    return begun["facts"]


def _difference(before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        return "; ".join(f"{name}: {before.get(name)!r} then, {now.get(name)!r} now" for name in names)
    return f"{before!r} then, {now!r} now"


def _vocabulary(
    folder: Path, settings: dict[str, Any], make: Callable[[], BpeVocabulary | ByteVocabulary]
) -> BpeVocabulary | ByteVocabulary:
    vocabulary = None if settings["vocabulary"] == "bytes" else read_tokenizer(folder)
    if vocabulary is not None:
        return vocabulary
    vocabulary = make()
    if isinstance(vocabulary, BpeVocabulary):
        write_atomically(folder / TOKENIZER, vocabulary.definition)
    return vocabulary


def _parts(source: TextSource, first: int) -> Iterator[tuple[int, Iterable[Piece]]]:
    number = first
    while (pieces := source.part(number)) is not None:
        yield number, pieces
        number += 1


def _done(folder: Path) -> Iterator[dict[Split, ShardEntry]]:
    """The entries of the finished parts, in order; a torn last line is a part that was not finished."""
    path = folder / PARTS
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for line in lines[:-1]:
        yield {split: ShardEntry.model_validate(entry) for split, entry in json.loads(line).items()}
    if lines and lines[-1]:
        with path.open("r+b") as file:
            file.truncate(sum(len(line) + 1 for line in lines[:-1]))


def _append(folder: Path, entries: dict[Split, ShardEntry]) -> None:
    with (folder / PARTS).open("ab") as file:
        file.write(json.dumps({split: entry.model_dump() for split, entry in entries.items()}).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


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
