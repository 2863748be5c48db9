import json
from typing import Any

import pytest
import torch

from src.compose import compose
from src.config import TrainingConfig
from src.data.corpus import Corpus, training_share
from src.data.vocabulary import CharacterVocabulary, IdVocabulary
from src.errors import DataError
from src.io_spec import TokenSpec


def corpus_of(text: str, fraction: float | None = 0.1, **changes: Any) -> Corpus:
    vocabulary = CharacterVocabulary.of(text or "a")
    share = training_share(len(text), fraction or 0.1)
    values: dict[str, Any] = {
        "name": "c",
        "source": "a test",
        "hash": "h",
        "vocabulary": vocabulary,
        "train_tokens": vocabulary.encode(text[:share]),
        "val_tokens": vocabulary.encode(text[share:]),
        "val_bytes": len(text[share:].encode()),
        "order": "shuffled",
        "stride": None,
        "validation_fraction": fraction,
    }
    return Corpus(**values | changes)


def test_a_text_that_is_too_short_is_refused_with_the_sizes_needed() -> None:
    with pytest.raises(DataError, match="training split holds 4 tokens, but context_length=8 needs at least 9"):
        corpus_of("To be").check_length(8)


def test_a_short_validation_split_is_refused_with_the_text_length_that_would_do() -> None:
    with pytest.raises(DataError, match=r"validation split holds 5 tokens.* at least 161 tokens \(this one has 100\)"):
        corpus_of("x" * 100, fraction=0.05).check_length(8)
    corpus_of("x" * 161, fraction=0.05).check_length(8)
    with pytest.raises(DataError, match="validation split holds 8 tokens"):
        corpus_of("x" * 160, fraction=0.05).check_length(8)


@pytest.mark.parametrize("fraction", [0.0001, 0.1, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("context_length", [1, 8, 64])
def test_the_length_it_asks_for_is_the_least_that_passes(fraction: float, context_length: int) -> None:
    def fits(n: int) -> bool:
        train = training_share(n, fraction)
        return min(train, n - train) > context_length

    corpus = corpus_of("", fraction)
    with pytest.raises(DataError) as error:
        corpus.check_length(context_length)
    asked = int(str(error.value).split("text of at least ")[1].split()[0].replace(",", ""))
    assert fits(asked)
    assert not fits(asked - 1)


def test_a_fixed_split_can_only_be_answered_by_a_smaller_context() -> None:
    corpus = corpus_of("x" * 100, fraction=None)
    corpus.check_length(9)
    with pytest.raises(DataError, match=r"validation split holds 10 tokens.*; choose a smaller context_length"):
        corpus.check_length(10)


def test_facts_are_plain_and_complete() -> None:
    corpus = corpus_of("to be or not to be", fraction=0.5)
    facts = corpus.facts
    assert json.loads(json.dumps(facts)) == facts
    assert facts["train_tokens"] + facts["val_tokens"] == 18
    assert facts["vocabulary_size"] == len(facts["vocabulary"]["characters"])
    assert (facts["hash"], facts["bytes_per_token"]) == ("h", 1.0)


def test_bytes_a_token_are_none_where_tokens_stand_for_no_text() -> None:
    corpus = corpus_of("abab", vocabulary=IdVocabulary(2), val_bytes=None)
    assert corpus.bytes_per_token is None
    assert corpus.facts["bytes_per_token"] is None
    assert corpus.io_spec == TokenSpec(2)


class TestBatches:
    @pytest.fixture
    def training(self) -> TrainingConfig:
        return compose(["training.batch_size=3", "training.eval_batch_size=2", "training.eval_stride=4"]).training

    def test_training_reads_the_training_split_in_the_corpus_order(self, training: TrainingConfig) -> None:
        corpus = corpus_of("abcdefghijklmnopqrstuvwxyz", 0.5, order="sequential", stride=2)
        inputs, targets = corpus.training_batches(4, training, seed=0).batch(0)
        assert [corpus.vocabulary.decode(row.tolist()) for row in inputs] == ["abcd", "cdef", "efgh"]
        assert torch.equal(targets, inputs + 1)

    def test_evaluation_reads_the_validation_split_in_the_settings_steps(self, training: TrainingConfig) -> None:
        corpus = corpus_of("abcdefghijklmnopqrstuvwxyz", 0.5, order="sequential", stride=2)
        windows = corpus.evaluation_batches(4, training)
        rows = [corpus.vocabulary.decode(row.tolist()) for inputs, _ in windows for row in inputs]
        assert rows == ["nopq", "rstu", "vwxy"]
        assert windows.loss_floor() is None
