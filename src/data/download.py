"""A published file, fetched once, checked and kept."""

from __future__ import annotations

import hashlib
import http.client
import os
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

CHUNK = 1 << 16


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
