"""What a prepared folder holds, as its maker left it: the files of each split, their hashes, their vocabulary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from src.data.vocabulary import BpeVocabulary, ByteVocabulary, Vocabulary
from src.errors import DataError
from src.record import write_atomically
from src.section import Count, Positive, Section

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
