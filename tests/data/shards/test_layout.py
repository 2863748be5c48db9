"""A token file is read as what it is, or refused with its name, the offset and the rule."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src.data.tokens import HEADER_BYTES, Layout, header, read_layout
from src.errors import DataError

TOKENS = np.arange(500)


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def llm_c(magic: int, version: int, count: int, dtype: str, tokens: int = 500) -> bytes:
    numbers = np.zeros(256, dtype="<i4")
    numbers[:3] = magic, version, count
    return numbers.tobytes() + np.arange(tokens).astype(dtype).tobytes()


@pytest.mark.parametrize(("dtype", "width"), [(None, "<u2"), ("uint16", "<u2"), ("uint32", "<u4")])
def test_bare_numbers_as_nanogpt_writes_them(tmp_path: Path, dtype: str | None, width: str) -> None:
    path = write(tmp_path / "train.bin", TOKENS.astype(width).tobytes())
    assert read_layout(path, dtype) == Layout(path, np.dtype(width), 0, 500)


@pytest.mark.parametrize(("magic", "version", "width"), [(20240520, 1, "<u2"), (20240801, 7, "<u4")])
@pytest.mark.parametrize("dtype", [None, "as it says"])
def test_numbers_after_a_header_as_llm_c_writes_them(
    tmp_path: Path, magic: int, version: int, width: str, dtype: str | None
) -> None:
    path = write(tmp_path / "train.bin", llm_c(magic, version, 500, width))
    said = None if dtype is None else np.dtype(width).name
    assert read_layout(path, said) == Layout(path, np.dtype(width), 1024, 500)
    assert header(500, np.dtype(width)) == path.read_bytes()[:1024]


@pytest.mark.parametrize(
    ("content", "dtype", "message"),
    [
        (b"", None, "is empty"),
        (b"\x01", None, r"1 bytes are no whole number of uint16 tokens: the last one breaks off at byte offset 0"),
        (bytes(1001), None, r"1,001 bytes .* breaks off at byte offset 1000"),
        (bytes(1002), "uint32", r"1,002 bytes are no whole number of uint32 tokens.* at byte offset 1000"),
        (
            llm_c(20240520, 1, 500, "<u2")[:-3],
            None,
            r"says 500 tokens, and 498\.5 lie between byte offset 1024 and its",
        ),
        (llm_c(20240520, 1, 500, "<u2") + b"\0\0", None, "says 500 tokens, and 501 lie"),
        (llm_c(20240520, 1, -1, "<u2", tokens=0), None, "says -1 tokens, and 0 lie"),
        (llm_c(20240520, 1, 500, "<u2")[:700], None, "cut short at byte offset 700, inside its header"),
        (llm_c(20240520, 2, 500, "<u2"), None, "magic 20240520 version 2, and only 20240520 version 1, 20240801"),
        (llm_c(20240520, 1, 500, "<u2"), "uint32", r"says uint16 tokens, and data\.dtype=uint32; leave data\.dtype"),
        (b"\x93NUMPY\x01\x00" + bytes(100), None, r"is a \.npy file; write its bare numbers"),
    ],
)
def test_what_is_no_whole_file_of_tokens_is_refused(
    tmp_path: Path, content: bytes, dtype: str | None, message: str
) -> None:
    path = write(tmp_path / "odd.bin", content)
    with pytest.raises(DataError, match=rf"odd\.bin.*{message}"):
        read_layout(path, dtype)


def test_a_missing_file_and_a_folder_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.bin does not exist"):
        read_layout(tmp_path / "gone.bin", None)
    with pytest.raises(DataError, match="cannot be read"):
        read_layout(tmp_path, None)


@settings(max_examples=100)
@given(
    st.binary(max_size=40)
    | st.builds(
        lambda start, rest: start + rest, st.sampled_from([llm_c(20240520, 1, 3, "<u2", 3)]), st.binary(max_size=9)
    ),
    st.sampled_from([None, "uint16", "uint32"]),
)
def test_any_bytes_are_whole_tokens_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, dtype: str | None
) -> None:
    path = write(tmp_path_factory.getbasetemp() / "any.bin", content)
    try:
        layout = read_layout(path, dtype)
    except DataError:
        with pytest.raises(DataError, match=r"any\.bin"):
            read_layout(path, dtype)
        return
    assert layout.offset in (0, HEADER_BYTES)
    assert layout.offset + layout.tokens * layout.dtype.itemsize == len(content)
    assert layout.tokens > 0 or layout.offset
