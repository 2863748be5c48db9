"""Text from bytes, alike on every platform and in every locale; where a path leads; a published file, fetched once."""

from __future__ import annotations

import hashlib
import http.client
import os
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from src.errors import DataError

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
CHUNK = 1 << 16  # bytes of a download taken at once


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, by the rules of `decode_text`. Raises DataError where it cannot be read."""
    return decode_text(read_bytes(path), str(path))


def read_bytes(path: Path) -> bytes:
    """A file's content. Raises DataError where there is none or it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; a relative path starts at the folder of the command") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); give the path of a readable UTF-8 file") from None


def decode_text(content: bytes, source: str, place: int = 0) -> str:
    r"""The text of UTF-8 bytes. A leading byte-order mark goes; CRLF and a lone CR become LF; all else stays.

    `place` is the byte offset of a piece of a longer source. Raises DataError, with `source` and the byte's offset
    in it, for bytes that are not UTF-8, for NUL and where nothing is left.

    >>> decode_text(b"\xef\xbb\xbfTo be,\r\nor not\rto be", "a file")
    'To be,\nor not\nto be'
    """
    start = len(_BOM) if content.startswith(_BOM) and not place else 0
    try:
        text = content[start:].decode("utf-8", errors="strict")
    except UnicodeDecodeError as error:
        raise DataError(_not_utf8(content, start + error.start, source, place)) from None
    if "\0" in text:
        raise DataError(
            f"{source}: byte offset {place + content.index(0)} holds NUL (0x00), which no text has; "
            "is it a binary file, or UTF-16? Give a UTF-8 text file"
        )
    if not text:
        raise DataError(f"{source} is empty; give a text file that holds at least a few contexts of text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _not_utf8(content: bytes, offset: int, source: str, place: int) -> str:
    encoding = "utf-16" if content.startswith(_UTF16_BOMS) else "latin-1"
    number = content.count(b"\n", 0, offset) + 1
    line = "" if place else f" (line {number})"  # nobody has counted the lines before a later piece
    return (
        f"{source}: byte 0x{content[offset]:02X} at byte offset {place + offset}{line} is not UTF-8; "
        f"convert the file, for example with: iconv -f {encoding} -t utf-8 OLD > NEW"
    )


def resolved(path: str, launch_dir: Path) -> Path:
    """The absolute form of a typed path; a relative one starts at the folder of the command, ~ at home."""
    return Path(os.path.abspath(launch_dir / os.path.expanduser(path)))


@dataclass(frozen=True)
class PublishedFile:
    """A file that is known byte for byte."""

    address: str
    size: int
    sha256: str

    def matches(self, content: bytes) -> bool:
        return hashlib.sha256(content).hexdigest() == self.sha256


def download(file: PublishedFile, destination: Path, timeout_s: float) -> bytes:
    """Fetches a file, checks it and puts it in place at once, under its name only when whole.

    Neither a silent nor a slow server holds it longer than `timeout_s` for each wait and in all.
    Raises OSError where the network or the disk fails, and where the bytes are not the published ones.
    """
    content = _fetch(file, timeout_s)
    if not file.matches(content):
        raise OSError(f"the server sent {len(content):,} bytes that are not the published file")
    destination.parent.mkdir(parents=True, exist_ok=True)
    temporary = destination.with_name(f".{destination.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(destination)
    finally:
        temporary.unlink(missing_ok=True)
    return content


def _fetch(file: PublishedFile, timeout_s: float) -> bytes:
    deadline = time.monotonic() + timeout_s
    content = bytearray()
    try:
        with urlopen(file.address, timeout=timeout_s) as response:
            # One byte more than expected is enough to see that it is another file.
            while len(content) <= file.size and (chunk := response.read1(CHUNK)):
                content += chunk
                if time.monotonic() > deadline:
                    raise TimeoutError(f"only {len(content):,} of {file.size:,} bytes came within {timeout_s:g} s")
    except http.client.HTTPException as error:
        raise OSError(f"the server's answer broke off: {error!r}") from None
    return bytes(content)
