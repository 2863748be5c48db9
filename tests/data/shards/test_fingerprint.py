"""A file is read whole once for each version of it, and no change of it goes unseen."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from src.data import shards
from src.data.shards import REMEMBERED, Fingerprints, read_fingerprint, sampled_sha256
from src.data.tokens import read_layout
from src.errors import DataError

TOKENS = (np.arange(5000) * 7919 % 50_257).astype("<u2")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "t.bin"
    path.write_bytes(TOKENS.tobytes())
    return path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were read whole; files count as settled at once."""
    found: list[str] = []

    def reading(layout):
        found.append(layout.path.name)
        return read_fingerprint(layout)

    monkeypatch.setattr(shards, "read_fingerprint", reading)
    monkeypatch.setattr(shards, "SETTLED_NS", -1)
    return found


def test_it_is_the_hash_of_the_file_and_its_largest_token(file: Path) -> None:
    found = Fingerprints(file.parent).of(read_layout(file, None))
    assert found.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert found.largest == TOKENS.max()


@pytest.mark.parametrize("piece", [4, 64, 4096])
def test_the_pieces_it_is_read_in_do_not_matter(file: Path, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_fingerprint(read_layout(file, None))
    monkeypatch.setattr(shards, "CHUNK_BYTES", piece)
    assert read_fingerprint(read_layout(file, None)) == whole


def test_an_unchanged_file_is_read_once(file: Path, reads: list[str]) -> None:
    found = [Fingerprints(file.parent).of(read_layout(file, None)) for _ in range(3)]
    assert found[0] == found[1] == found[2]
    assert reads == ["t.bin"]


def test_a_change_is_seen_even_with_the_old_size_and_time(file: Path, reads: list[str]) -> None:
    before = Fingerprints(file.parent).of(read_layout(file, None))
    times = file.stat()
    with file.open("r+b") as content:
        content.seek(4444)
        content.write(b"\x00\x00")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (times.st_size, times.st_mtime_ns)
    assert Fingerprints(file.parent).of(read_layout(file, None)) != before
    assert reads == ["t.bin"] * 2


def test_a_file_that_changed_just_now_is_read_again(
    file: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SETTLED_NS", 10**12)
    for _ in range(2):
        Fingerprints(file.parent).of(read_layout(file, None))
    assert reads == ["t.bin"] * 2


@pytest.mark.parametrize("memory", ["", "[]", "{", '{"t.bin": {}}', '{"t.bin": {"state": 1, "fingerprint": {}}}'])
def test_a_broken_memory_is_no_memory(file: Path, reads: list[str], memory: str) -> None:
    (file.parent / REMEMBERED).write_text(memory)
    Fingerprints(file.parent).of(read_layout(file, None))
    assert reads == ["t.bin"]
    assert set(json.loads((file.parent / REMEMBERED).read_text())) == {"t.bin"}


def test_tokens_of_32_bits_are_not_taken_for_twice_as_many_of_16(file: Path) -> None:
    file.write_bytes(TOKENS.astype("<u4").tobytes())
    with pytest.raises(DataError, match=r"t\.bin: every second token is 0.*set data\.dtype=uint32"):
        Fingerprints(file.parent).of(read_layout(file, None))
    assert Fingerprints(file.parent).of(read_layout(file, "uint32")).largest == TOKENS.max()


@pytest.mark.parametrize("size", [1, 1000, 70_000, 5_000_000])
def test_a_sample_sees_size_both_ends_and_what_it_reads_in_between(tmp_path: Path, size: int) -> None:
    path = tmp_path / "s.bin"
    content = bytearray(np.random.default_rng(0).bytes(size))

    def sample(changed: bytes | bytearray) -> str:
        path.write_bytes(changed)
        return sampled_sha256(path)

    plain = sample(content)
    assert sample(content) == plain
    assert sample(content[:-1]) != plain
    sampled = list(shards._sample_places(size))
    for place in {0, sampled[len(sampled) // 2], size - 1}:
        changed = bytearray(content)
        changed[place] ^= 1
        assert sample(changed) != plain
