"""A folder under preparation: what it is made from, which parts are done, and the manifest once all are.

prepare.json    what it is made from and how; written first, and a continuation must agree with it
parts.jsonl     a line a finished part, written after its files
manifest.json   written last: only a folder that has one can be trained on
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from src.data.prepare.parts import write_part
from src.data.prepare.sources import Piece, Source, Split
from src.data.shards.manifest import PLAN, TOKENIZER, VERSION, Manifest, ShardEntry, VocabularyEntry, read_tokenizer
from src.data.vocabulary import BpeVocabulary, ByteVocabulary
from src.errors import DataError
from src.record import write_atomically

PARTS = "parts.jsonl"


def prepare(
    folder: Path,
    source: Source,
    settings: dict[str, Any],
    make_vocabulary: Callable[[], BpeVocabulary | ByteVocabulary],
    report: Callable[[int], None],
) -> Manifest:
    """Makes of a folder what is missing, and gives its manifest; `report` hears how much has been read.

    Interrupted at any moment, it goes on with the first part that was not finished. Raises DataError where the
    folder was begun from something else, or a split would be empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    facts = _begin(folder, source, settings)
    if (manifest := Manifest.read(folder)) is not None:
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
    manifest = Manifest(
        version=VERSION,
        vocabulary=VocabularyEntry(kind=kind, size=vocabulary.size, hash=vocabulary.hash),
        train=splits["train"],
        validation=splits["validation"],
        sources=facts,
        settings=settings,
    )
    manifest.write(folder)
    return manifest


def _begin(folder: Path, source: Source, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Writes down what the folder is made from, or holds it against what was written; gives the source's facts."""
    path = folder / PLAN
    plan = {"version": VERSION, "settings": settings, "state": source.state()}
    try:
        begun = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        strange = sorted(one.name for one in folder.iterdir() if one.name not in (PLAN, PARTS))
        if strange:
            raise DataError(
                f"{folder} is not empty ({', '.join(strange[:3])}{' ...' if len(strange) > 3 else ''}); "
                "give --out a new folder"
            ) from None
        begun = plan | {"facts": source.facts()}
        write_atomically(path, json.dumps(begun, indent=1) + "\n")
        return begun["facts"]
    except ValueError as error:
        raise DataError(f"{path} is broken ({error}); prepare into another folder") from None
    for part, now in plan.items():
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


def _parts(source: Source, first: int) -> Iterator[tuple[int, Iterable[Piece]]]:
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
