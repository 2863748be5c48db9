"""All kinds of vocabulary answer the same calls alike."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src.data.vocabulary import (
    BpeVocabulary,
    ByteVocabulary,
    CharacterVocabulary,
    IdVocabulary,
    Vocabulary,
    vocabulary_of,
)
from src.errors import DataError

TEXT = "To be, or not to be — that is the question: né\n" * 8
BPE = BpeVocabulary.learn([TEXT], 280)
KINDS: list[Vocabulary] = [CharacterVocabulary.of(TEXT), ByteVocabulary(), BPE, IdVocabulary(7)]
each_kind = pytest.mark.parametrize("vocabulary", KINDS, ids=lambda one: type(one).__name__)


@each_kind
class TestEveryKind:
    def test_it_travels_as_plain_values(self, vocabulary: Vocabulary) -> None:
        values = json.loads(json.dumps(vocabulary.to_dict()))
        assert vocabulary_of(values) == vocabulary
        assert vocabulary_of(values).hash == vocabulary.hash
        assert json.loads(json.dumps(vocabulary.facts)) == vocabulary.facts
        assert len(json.dumps(vocabulary.facts)) < 500

    def test_a_continuation_can_begin_from_its_start(self, vocabulary: Vocabulary) -> None:
        tokens = vocabulary.encode(vocabulary.start)
        assert len(tokens) >= 1
        assert vocabulary.decode(tokens) == vocabulary.start

    @pytest.mark.parametrize("outside", [-1, 10**6])
    def test_a_token_that_it_does_not_have_is_refused(self, vocabulary: Vocabulary, outside: int) -> None:
        with pytest.raises(DataError, match=f"token {outside} is none of the vocabulary's {vocabulary.size} "):
            vocabulary.decode([0, outside])

    def test_another_kind_is_not_taken_for_it(self, vocabulary: Vocabulary) -> None:
        for other in KINDS:
            if type(other) is not type(vocabulary):
                with pytest.raises(DataError, match="not a"):
                    type(vocabulary).from_dict(other.to_dict())  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("vocabulary", KINDS[:3], ids=lambda one: type(one).__name__)
def test_a_text_comes_back_and_its_bytes_are_counted(vocabulary: Vocabulary) -> None:
    tokens = vocabulary.encode(TEXT)
    assert vocabulary.decode(tokens) == TEXT
    assert vocabulary.bytes_of(tokens) == len(TEXT.encode())
    assert tokens.max() < vocabulary.size


@settings(max_examples=100)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_bytes_and_byte_pairs_have_tokens_for_any_text(text: str) -> None:
    for vocabulary in (ByteVocabulary(), BPE):
        tokens = vocabulary.encode(text)
        assert vocabulary.decode(tokens) == text
        assert vocabulary.bytes_of(tokens) == len(text.encode())


def test_bytes_that_are_no_text_read_as_a_replacement_sign() -> None:
    assert ByteVocabulary().decode([0xC3, 0x28, 0xFF]) == "\ufffd(\ufffd"


@pytest.mark.parametrize("kind", ["words", None])
def test_an_unknown_kind_is_refused(kind: str | None) -> None:
    with pytest.raises(DataError, match=f"kind={kind!r}, and only characters, bytes, bpe, ids are known"):
        vocabulary_of({"kind": kind})


class TestBpe:
    def test_it_learns_the_size_that_was_asked_for_and_always_the_same(self) -> None:
        assert BPE.size == 280
        assert BpeVocabulary.learn([TEXT], 280) == BPE
        assert BpeVocabulary.learn(iter([TEXT]), 270).hash != BPE.hash
        assert len(BPE.encode(TEXT)) < len(TEXT) / 2

    def test_a_text_without_more_pairs_gives_fewer_tokens(self) -> None:
        assert BpeVocabulary.learn(["ab"], 5000).size == 258

    def test_the_mark_between_documents_is_a_token_of_its_own_and_no_text(self) -> None:
        assert BPE.end_of_text == 0
        assert BPE.bytes_of(np.array([0, 0])) == 0
        assert BPE.decode([0]) == "<|endoftext|>"

    def test_the_mark_inside_a_text_is_spelt_like_any_word(self) -> None:
        tokens = BPE.encode("so <|endoftext|> it goes")
        assert 0 not in tokens
        assert BPE.decode(tokens) == "so <|endoftext|> it goes"

    def test_the_hash_is_of_the_meaning_not_of_the_spelling(self) -> None:
        compact = json.dumps(json.loads(BPE.definition))
        assert compact != BPE.definition
        assert BpeVocabulary(compact).hash == BPE.hash

    def test_a_lone_surrogate_becomes_a_question_mark(self) -> None:
        assert BPE.decode(BPE.encode("a\udcc3b")) == "a?b"

    def test_too_small_a_size_is_refused(self) -> None:
        with pytest.raises(DataError, match="of 256 tokens: 257 are needed"):
            BpeVocabulary.learn([TEXT], 256)

    @pytest.mark.parametrize("definition", ["", "{}", "[1]", BPE.definition[:-20]])
    def test_what_is_no_tokenizer_is_refused(self, definition: str) -> None:
        with pytest.raises(DataError, match=r"not a tokenizer\.json"):
            BpeVocabulary(definition)

    def test_a_tokenizer_that_is_not_of_bytes_has_no_byte_counts(self) -> None:
        values = json.loads(BPE.definition)
        values["decoder"] = {"type": "BPEDecoder", "suffix": "</w>"}
        assert BpeVocabulary(json.dumps(values)).bytes_of(np.array([5])) is None

    def test_without_the_library_the_error_says_how_to_install_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
        with pytest.raises(DataError, match="pip install 'tokenizers"):
            BpeVocabulary.learn([TEXT], 300)


class TestIds:
    @pytest.mark.parametrize("text", ["3 x", "-1", "1.5", "٣", "9" * 30])
    def test_what_is_no_number_is_refused(self, text: str) -> None:
        with pytest.raises(DataError, match="is no token id"):
            IdVocabulary(7).encode(text)

    def test_a_number_beyond_the_vocabulary_is_refused(self) -> None:
        with pytest.raises(DataError, match="token 7 is none of the vocabulary's 7"):
            IdVocabulary(7).encode("3 7")

    @pytest.mark.parametrize("values", [{"kind": "ids"}, {"kind": "ids", "size": 0}, {"kind": "ids", "size": "7"}])
    def test_what_is_no_vocabulary_is_refused(self, values: dict[str, Any]) -> None:
        with pytest.raises(DataError, match="not a vocabulary of ids"):
            vocabulary_of(values)

    def test_numbers_stand_for_no_text(self) -> None:
        assert IdVocabulary(7).bytes_of(np.array([1, 2])) is None
        assert IdVocabulary(7).hash != IdVocabulary(8).hash
