"""What fits a device: the arithmetic, and how sizes are read."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src import memory
from src.errors import ConfigError
from src.memory import Device, Load, parse_bytes, parse_count, parse_tokens, parse_whole
from src.published import DEEPSEEK_V2_LITE, LLAMA_3_70B


def test_every_example_in_the_docstrings_holds() -> None:
    result = doctest.testmod(memory)
    assert result.attempted >= 3
    assert result.failed == 0


@given(
    st.sampled_from([LLAMA_3_70B, DEEPSEEK_V2_LITE]),
    st.integers(1, 2000),
    st.integers(1, 100),
    st.integers(1, 2**21),
    st.sampled_from(sorted(memory.CACHE_DTYPES.values())),
)
def test_the_largest_context_and_batch_fit_and_one_more_does_not(
    shape, gib: int, batch: int, context: int, dtype: str
) -> None:
    device, load = Device(gib * 2**30), Load(shape, 128256, context, batch, dtype)
    most = device.largest_context(load)
    assert most is not None
    assert device.fits(load) == (context <= most)
    assert (most == 0) or device.fits(Load(shape, 128256, most, batch, dtype))
    assert not device.fits(Load(shape, 128256, most + 1, batch, dtype))
    largest = device.largest_batch(load)
    assert largest is not None
    assert device.fits(load) == (batch <= largest)


def test_a_tenth_is_kept_free_and_weights_take_two_bytes_each() -> None:
    load = Load(LLAMA_3_70B, 128256, 8192, 1, "float16")
    assert load.weights == 2 * 70_553_706_496
    assert load.cache == 8192 * 327_680
    assert Device(1000).usable == 900
    exact = Device(load.total * 10 // 9 + 10)
    assert exact.fits(load)
    assert not Device(load.total).fits(load)


@pytest.mark.parametrize("text", ["", "0", "0GiB", "-1GiB", "24", "1Q", "GiB", "1.2.3GiB", "nanGiB", "1e999GiB"])
def test_an_amount_of_memory_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="such as 24GiB"):
        parse_bytes(text, "--memory")


@pytest.mark.parametrize("text", ["1Q", "0", "-1", "1.0000000001K", "B", "0.0001"])
def test_a_count_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--parameters .*such as 350M or 1B"):
        parse_count(text, "--parameters")


def test_tokens_and_whole_numbers_are_whole_and_above_zero() -> None:
    assert parse_tokens("1M", "--context") == 2**20
    for parse in (parse_tokens, parse_whole):
        for text in ("0", "1.5", "two", "-4"):
            with pytest.raises(ConfigError, match="whole number"):
                parse(text, "--context")
