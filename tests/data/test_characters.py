import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src.data.vocabulary import CharacterVocabulary
from src.errors import DataError

fuzz = settings(max_examples=100)
any_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)


def test_tokens_are_places_among_the_sorted_characters() -> None:
    vocabulary = CharacterVocabulary.of("ROMEO:\nO!")
    assert vocabulary.characters == "\n!:EMOR"
    assert vocabulary.encode("ROME").tolist() == [6, 5, 4, 3]
    assert vocabulary.size == 7


@fuzz
@given(any_text)
def test_encoding_and_decoding_give_the_text_back(text: str) -> None:
    vocabulary = CharacterVocabulary.of(text)
    tokens = vocabulary.encode(text)
    assert vocabulary.decode(tokens) == text
    assert vocabulary.decode(tokens.tolist()) == text
    assert vocabulary.size == len(set(text)) == tokens.max() + 1


@fuzz
@given(any_text, any_text)
def test_a_character_has_a_token_exactly_if_it_was_in_the_text(known: str, text: str) -> None:
    vocabulary = CharacterVocabulary.of(known)
    unseen = [(i, c) for i, c in enumerate(text) if c not in known]
    if not unseen:
        assert vocabulary.decode(vocabulary.encode(text)) == text
        return
    position, character = unseen[0]
    with pytest.raises(DataError) as error:
        vocabulary.encode(text)
    assert f"{character!r} (U+{ord(character):04X}) at position {position} " in str(error.value)


def test_an_unseen_prompt_character_is_named_with_what_is_known() -> None:
    with pytest.raises(DataError, match=r"'¿' \(U\+00BF\) at position 3 is not among the 4 .*' \?no'.*leave it out"):
        CharacterVocabulary.of("no on?").encode("no ¿no?")


def test_a_lone_surrogate_from_the_command_line_is_an_unseen_character() -> None:
    with pytest.raises(DataError, match=r"\\udcc3"):
        CharacterVocabulary.of("abc").encode("a\udcc3")


def test_an_empty_prompt_has_no_tokens() -> None:
    assert CharacterVocabulary.of("abc").encode("").tolist() == []
    assert CharacterVocabulary.of("abc").decode([]) == ""


@pytest.mark.parametrize(
    ("characters", "dtype"), [(1, np.uint8), (256, np.uint8), (257, np.uint16), (65536, np.uint16), (65537, np.uint32)]
)
def test_tokens_take_the_smallest_type_that_holds_them(characters: int, dtype: type) -> None:
    text = "".join(map(chr, [i + 0x10000 for i in range(characters)]))
    tokens = CharacterVocabulary.of(text).encode(text)
    assert tokens.dtype == dtype
    assert np.array_equal(tokens, np.arange(characters))


@pytest.mark.parametrize("token", [-1, 3])
def test_a_token_outside_the_vocabulary_is_refused(token: int) -> None:
    with pytest.raises(DataError, match=f"token {token} is none of the vocabulary's 3"):
        CharacterVocabulary.of("abc").decode([0, token])


def test_it_travels_as_plain_values() -> None:
    vocabulary = CharacterVocabulary.of("Ay, there's the rub—\n")
    values = json.loads(json.dumps(vocabulary.to_dict()))
    assert CharacterVocabulary.from_dict(values) == vocabulary
    assert CharacterVocabulary.from_dict(values).hash == vocabulary.hash


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"kind": "bpe", "characters": "ab"},
        {"kind": "characters"},
        {"kind": "characters", "characters": "ba"},
        {"kind": "characters", "characters": "aab"},
        {"kind": "characters", "characters": ""},
    ],
)
def test_what_is_no_vocabulary_is_refused(values: dict[str, str]) -> None:
    with pytest.raises(DataError, match="vocabulary"):
        CharacterVocabulary.from_dict(values)


def test_a_vocabulary_of_the_same_size_with_other_characters_has_another_hash() -> None:
    ours, theirs = CharacterVocabulary.of("abc"), CharacterVocabulary.of("abd")
    assert ours.size == theirs.size
    assert ours.hash != theirs.hash


def test_an_empty_text_has_no_vocabulary() -> None:
    with pytest.raises(DataError, match="is no vocabulary"):
        CharacterVocabulary.of("")
