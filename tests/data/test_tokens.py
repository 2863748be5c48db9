"""A sequence of tokens reads like one array, wherever its pieces lie."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src.config import Order
from src.data.batches import EvaluationWindows, TrainingBatches
from src.data.tokens import TokenFile, TokenSequence, chunks
from src.errors import DataError

TOKENS = (np.arange(1000) * 7919 % 50_257).astype("<u2")
HEAD = b"\xff" * 6


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "t.bin"
    path.write_bytes(HEAD + TOKENS.tobytes())
    return path


def token_file(path: Path, first: int = 0, count: int = 1000, vocabulary_size: int = 50_257) -> TokenFile:
    return TokenFile(path, TOKENS.dtype, len(HEAD) + 2 * first, count, vocabulary_size)


places = st.none() | st.integers(-1200, 1200)


@settings(max_examples=100)
@given(places, places)
def test_a_file_slices_like_an_array(file: Path, start: int | None, stop: int | None) -> None:
    assert np.array_equal(token_file(file)[start:stop], TOKENS[start:stop])


@settings(max_examples=100)
@given(places, places, st.lists(st.integers(0, 1000), max_size=5))
def test_pieces_slice_like_one_array(file: Path, start: int | None, stop: int | None, cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), 1000]
    parts = [(a, b - a) for a, b in pairwise(ends)]
    on_disk = TokenSequence([token_file(file, *part) for part in parts])
    in_memory = TokenSequence([TOKENS[a : a + n] for a, n in parts])
    assert len(on_disk) == len(in_memory) == 1000
    assert np.array_equal(on_disk[start:stop], TOKENS[start:stop])
    assert np.array_equal(in_memory[start:stop], TOKENS[start:stop])


@pytest.mark.parametrize("order", ["shuffled", "random", "sequential"])
def test_where_tokens_lie_does_not_change_a_batch(file: Path, order: Order) -> None:
    shards = TokenSequence([token_file(file, 0, 333), token_file(file, 333, 1), token_file(file, 334, 666)])
    sources = [TrainingBatches(tokens, 16, 5, order, 8, seed=1) for tokens in (TOKENS, token_file(file), shards)]
    for step in range(60):
        batches = [source.batch(step) for source in sources]
        assert all(np.array_equal(batches[0], batch) for batch in batches)
    windows = [list(EvaluationWindows(tokens, 16, 5, None, False)) for tokens in (TOKENS, shards)]
    assert all(
        np.array_equal(a, b) for ours, theirs in zip(*windows, strict=True) for a, b in zip(ours, theirs, strict=True)
    )


def test_an_empty_sequence_is_one_too() -> None:
    assert len(TokenSequence([])) == len(TokenSequence([])[0:5]) == 0


def test_chunks_are_the_whole_sequence(file: Path) -> None:
    assert np.array_equal(np.concatenate(list(chunks(token_file(file), 300))), TOKENS)


def test_backwards_or_with_gaps_it_is_not_read(file: Path) -> None:
    for tokens in (token_file(file), TokenSequence([TOKENS])):
        with pytest.raises(ValueError, match="step=2"):
            tokens[::2]


def test_a_token_beyond_the_vocabulary_is_named_with_file_and_offset(file: Path) -> None:
    place = int(np.argmax(TOKENS >= 40_000))
    for start in (0, place):
        with pytest.raises(DataError) as error:
            token_file(file, vocabulary_size=40_000)[start : place + 50]
        offset = len(HEAD) + 2 * place
        for part in (str(file), f"token {TOKENS[place]} at byte offset {offset} ", "vocabulary's 40000 ", "uint16"):
            assert part in str(error.value)


def test_the_largest_token_is_one_less_than_the_vocabulary(file: Path) -> None:
    largest = int(TOKENS.max())
    token_file(file, vocabulary_size=largest + 1)[:]
    with pytest.raises(DataError, match=f"token {largest} at byte offset"):
        token_file(file, vocabulary_size=largest)[:]


def test_a_file_cut_short_under_a_run_is_an_error_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(HEAD + TOKENS.tobytes())
    tokens = token_file(path)
    tokens[0:10]
    with path.open("r+b") as file:
        file.truncate(len(HEAD) + 500)
    with pytest.raises(DataError, match=rf"t\.bin ends at byte offset {len(HEAD) + 500}, before its last token"):
        tokens[240:260]


def test_a_file_that_went_away_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.bin does not exist any more"):
        token_file(tmp_path / "gone.bin")[0:1]
