"""A corpus by its name: the text, split in two, as tokens, with a hash that names its content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt

from src import ROOT
from src.config import DataConfig
from src.data import plays
from src.data.download import PublishedFile, download
from src.data.text import decode_text, read_bytes, read_text
from src.data.vocabulary import CharacterVocabulary
from src.errors import DataError

TINYSHAKESPEARE = PublishedFile(
    address="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    size=1_115_394,
    sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
)
DOWNLOAD_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Corpus:
    """Two splits that share a vocabulary. `hash` depends on the text and its split, not on where it lay."""

    name: str
    source: str
    hash: str
    vocabulary: CharacterVocabulary
    train_tokens: UInt[np.ndarray, " N"]
    val_tokens: UInt[np.ndarray, " M"]
    held_out: tuple[str, ...]
    validation_fraction: float | None

    @property
    def facts(self) -> dict[str, Any]:
        """What the record keeps of a corpus, as plain values."""
        return {
            "name": self.name,
            "source": self.source,
            "hash": self.hash,
            "train_tokens": len(self.train_tokens),
            "val_tokens": len(self.val_tokens),
            "validation_fraction": self.validation_fraction,
            "held_out": list(self.held_out),
            "vocabulary_size": self.vocabulary.size,
            "vocabulary_hash": self.vocabulary.hash,
            "vocabulary": self.vocabulary.to_dict(),
        }


@dataclass(frozen=True)
class _Splits:
    train: str
    validation: str
    source: str
    held_out: tuple[str, ...] = ()


def load_corpus(data: DataConfig, launch_dir: Path | None = None) -> Corpus:
    """The corpus that `data` names.

    A relative `data.path` starts at `launch_dir`, the folder where the command was typed (null: the
    current one), so that it means the same file under every launcher.
    Raises DataError where the text is missing, unreadable or not as published, or a setting does not fit it.
    """
    splits = _LOADERS[data.name](data, launch_dir or Path.cwd())
    vocabulary = CharacterVocabulary.of(splits.train + splits.validation)
    return Corpus(
        name=data.name,
        source=splits.source,
        hash=_content_hash(splits.train, splits.validation),
        vocabulary=vocabulary,
        train_tokens=_read_only(vocabulary.encode(splits.train)),
        val_tokens=_read_only(vocabulary.encode(splits.validation)),
        held_out=splits.held_out,
        validation_fraction=data.validation_fraction,
    )


def check_lengths(corpus: Corpus, context_length: int) -> None:
    """Raises DataError, with the sizes needed, unless each split holds a context and the token after it."""
    needed = context_length + 1
    for split, tokens in (("training", corpus.train_tokens), ("validation", corpus.val_tokens)):
        if len(tokens) < needed:
            raise DataError(
                f"data={corpus.name}: the {split} split holds {len(tokens):,} tokens, but "
                f"context_length={context_length} needs at least {needed:,} (a context and the token after it); "
                + _longer(corpus, needed)
            )


def _longer(corpus: Corpus, needed: int) -> str:
    total = len(corpus.train_tokens) + len(corpus.val_tokens)
    fraction = corpus.validation_fraction
    if fraction is None:
        return "choose a smaller context_length"
    nearly = int(max((needed - 1) / fraction, needed / (1 - fraction))) - 1  # rounding decides the rest
    enough = next(n for n in count(nearly) if min(_n_train(n, fraction), n - _n_train(n, fraction)) >= needed)
    return (
        f"use a text of at least {enough:,} tokens (this one has {total:,}) at "
        f"data.validation_fraction={fraction}, or another fraction, or a smaller context_length"
    )


def _shakespeare(data: DataConfig, launch_dir: Path) -> _Splits:
    if data.path is not None:
        raise DataError(
            f"data.path={data.path} with data=shakespeare: the plays come from a package; "
            "leave it null, or choose data=text_file"
        )
    if data.validation_fraction is not None:
        raise DataError(
            f"data.validation_fraction={data.validation_fraction} with data=shakespeare: whole plays are held out "
            f"({', '.join(plays.HELD_OUT)}); leave it null"
        )
    train, validation = plays.read_plays()
    return _Splits(train, validation, plays.source(), plays.HELD_OUT)


def _tinyshakespeare(data: DataConfig, launch_dir: Path) -> _Splits:
    if data.path is not None:
        path = _resolved(data.path, launch_dir)
        content = read_bytes(path)
    else:
        path, content = _find_or_download(launch_dir)
    if not TINYSHAKESPEARE.matches(content):
        raise DataError(
            f"{path} is not the published tinyshakespeare: it has {len(content):,} bytes and sha256 "
            f"{hashlib.sha256(content).hexdigest()}, not {TINYSHAKESPEARE.size:,} bytes and sha256 "
            f"{TINYSHAKESPEARE.sha256} (changed line endings are enough); put that one in its place, "
            "or use it as data=text_file data.path=..."
        )
    return _contiguous(decode_text(content, str(path)), data, str(path))


def _text_file(data: DataConfig, launch_dir: Path) -> _Splits:
    if data.path is None:
        raise DataError("data=text_file needs a file: data.path=my.txt (any UTF-8 text)")
    path = _resolved(data.path, launch_dir)
    return _contiguous(read_text(path), data, str(path))


_LOADERS: dict[str, Callable[[DataConfig, Path], _Splits]] = {
    "shakespeare": _shakespeare,
    "tinyshakespeare": _tinyshakespeare,
    "text_file": _text_file,
}


def _find_or_download(launch_dir: Path) -> tuple[Path, bytes]:
    folders = dict.fromkeys((ROOT / "data", launch_dir / "data"))
    places = [folder / "tinyshakespeare.txt" for folder in folders]
    for place in places:
        if place.is_file():
            return place, read_bytes(place)
    # Once installed, ROOT is site-packages and has no data folder: then the file goes where the command was typed.
    place = next((place for place in places if place.parent.is_dir()), places[-1])
    try:
        return place, download(TINYSHAKESPEARE, place, DOWNLOAD_TIMEOUT_S)
    except OSError as error:
        raise DataError(
            f"data=tinyshakespeare is not at {' or '.join(map(str, places))} and cannot be downloaded ({error}); "
            f"put the file ({TINYSHAKESPEARE.size:,} bytes, from {TINYSHAKESPEARE.address}) there, "
            "or use data=shakespeare, which needs no network"
        ) from None


def _contiguous(text: str, data: DataConfig, source: str) -> _Splits:
    fraction = data.validation_fraction
    if fraction is None:
        raise DataError(f"data={data.name} needs data.validation_fraction, the share kept for validation, such as 0.1")
    n_train = _n_train(len(text), fraction)
    return _Splits(text[:n_train], text[n_train:], source)


def _n_train(n: int, validation_fraction: float) -> int:
    return int(n * (1 - validation_fraction))


def _resolved(path: str, launch_dir: Path) -> Path:
    return Path(os.path.abspath(launch_dir / os.path.expanduser(path)))


def _content_hash(*splits: str) -> str:
    digest = hashlib.sha256()
    for split in splits:
        content = split.encode()
        digest.update(len(content).to_bytes(8, "big"))  # so that moving the split changes the hash
        digest.update(content)
    return digest.hexdigest()


def _read_only(tokens: UInt[np.ndarray, " N"]) -> UInt[np.ndarray, " N"]:
    tokens.flags.writeable = False
    return tokens
