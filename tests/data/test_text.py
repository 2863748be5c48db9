import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src import ROOT
from src.data.text import decode_text, read_text
from src.errors import DataError

TEXT = "Thou whoreson zed!\nThou unnecessary letter — é\n"
fuzz = settings(max_examples=100)


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"], ids=["plain", "bom"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_newlines_and_a_byte_order_mark_leave_no_trace(tmp_path: Path, newline: str, bom: bytes) -> None:
    path = tmp_path / "play.txt"
    path.write_bytes(bom + TEXT.replace("\n", newline).encode())
    assert read_text(path) == TEXT


def test_only_a_leading_byte_order_mark_goes() -> None:
    assert decode_text("a\ufeffb".encode(), "x") == "a\ufeffb"


def test_mixed_newlines_keep_their_number() -> None:
    assert decode_text(b"a\r\n\r\nb\r\rc\n\rd", "x") == "a\n\nb\n\nc\n\nd"


def test_a_bad_byte_is_named_with_its_file_offset_value_and_way_out(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"\xef\xbb\xbfab\ncaf\xe9 noir")
    with pytest.raises(DataError) as error:
        read_text(path)
    for part in (str(path), "0xE9", "byte offset 9", "line 2", "iconv -f latin-1 -t utf-8"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("to be".encode("utf-16"), "iconv -f utf-16"),
        ("to be".encode("utf-16-le"), "byte offset 1 holds NUL"),
        (b"", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"\xed\xa0\x80", "byte 0xED at byte offset 0"),  # half of a surrogate pair
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "odd.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_text(path)


def test_a_missing_file_and_a_folder_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.txt does not exist"):
        read_text(tmp_path / "nowhere.txt")
    with pytest.raises(DataError, match=f"{tmp_path} cannot be read"):
        read_text(tmp_path)


def test_the_c_locale_reads_the_same_text(tmp_path: Path) -> None:
    path = tmp_path / "play.txt"
    path.write_bytes(TEXT.encode())
    code = (
        f"from pathlib import Path; from src.data.text import read_text; print(ascii(read_text(Path({str(path)!r}))))"
    )
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment.pop("PYTHONIOENCODING", None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == ascii(TEXT)


@fuzz
@given(st.binary(max_size=60))
def test_any_bytes_are_read_as_strict_utf8_or_refused_at_the_offset_of_the_fault(content: bytes) -> None:
    try:
        expected = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as fault:
        with pytest.raises(DataError, match=f"byte offset {fault.start} "):
            decode_text(content, "x")
        return
    if "\0" in expected or not expected:
        with pytest.raises(DataError):
            decode_text(content, "x")
    else:
        assert decode_text(content, "x") == "\n".join(expected.replace("\r\n", "\n").split("\r"))


@fuzz
@given(st.text(st.characters(exclude_characters="\0\r\ufeff", exclude_categories=["Cs"]), min_size=1, max_size=60))
def test_text_comes_back_whatever_its_line_ends(text: str) -> None:
    for newline in ("\n", "\r\n", "\r"):
        assert decode_text(text.replace("\n", newline).encode(), "x") == text
