import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from src.randomness import random_words

WHOLE = np.random.Philox(key=99).random_raw(300)
FAR_IN = [12211250008180494089, 15119653073352862528]


@settings(max_examples=100)
@given(st.integers(0, 200), st.integers(0, 100))
def test_a_stream_can_be_entered_anywhere(first: int, count: int) -> None:
    assert np.array_equal(random_words(99, first, count), WHOLE[first : first + count])


def test_the_words_are_those_of_every_machine() -> None:
    assert random_words(1, 10**15, 2).tolist() == FAR_IN
