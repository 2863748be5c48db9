"""A corpus: two splits of tokens that share a vocabulary, with a hash that names their content."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

from src.config import Order, TrainingConfig
from src.data.batches import EvaluationWindows, TrainingBatches
from src.data.tokens import Tokens
from src.data.vocabulary import Vocabulary
from src.errors import DataError
from src.io_spec import TokenSpec


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Tokens to train on and tokens to validate on.

    `hash` depends on the content and its split, not on where it lay. `val_bytes` are the bytes of text that the
    validation tokens stand for, None where that is not known.
    """

    name: str
    source: str
    hash: str
    vocabulary: Vocabulary
    train_tokens: Tokens
    val_tokens: Tokens
    val_bytes: int | None
    order: Order
    stride: int | None
    held_out: tuple[str, ...] = ()
    validation_fraction: float | None = None

    @property
    def io_spec(self) -> TokenSpec:
        return TokenSpec(self.vocabulary.size)

    @property
    def has_answers(self) -> bool:
        """A text goes on in many ways: none of them is the right one."""
        return False

    @property
    def bytes_per_token(self) -> float | None:
        """Mean bytes of text that a validation token stands for; what makes losses of two vocabularies comparable."""
        return None if self.val_bytes is None else self.val_bytes / len(self.val_tokens)

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "source": self.source,
            "hash": self.hash,
            "train_tokens": len(self.train_tokens),
            "val_tokens": len(self.val_tokens),
            "bytes_per_token": self.bytes_per_token,
            "validation_fraction": self.validation_fraction,
            "held_out": list(self.held_out),
            "vocabulary_size": self.vocabulary.size,
            "vocabulary_hash": self.vocabulary.hash,
            "vocabulary": self.vocabulary.facts,
        }

    def check_length(self, context_length: int) -> None:
        """Raises DataError, with the sizes needed, unless each split holds a context and the token after it."""
        needed = context_length + 1
        for split, tokens in (("training", self.train_tokens), ("validation", self.val_tokens)):
            if len(tokens) < needed:
                raise DataError(
                    f"data={self.name}: the {split} split holds {len(tokens):,} tokens, but "
                    f"context_length={context_length} needs at least {needed:,} (a context and the token after it); "
                    + self._longer(needed)
                )

    def epoch_tokens(self, context_length: int) -> float:
        windows = len(self.train_tokens) / (self.stride or context_length)
        return windows * context_length

    def training_batches(self, context_length: int, training: TrainingConfig, seed: int) -> TrainingBatches:
        """Windows of the training split, by step."""
        return TrainingBatches(self.train_tokens, context_length, training.batch_size, self.order, self.stride, seed)

    def evaluation_batches(self, context_length: int, training: TrainingConfig) -> EvaluationWindows:
        """The whole validation split."""
        return EvaluationWindows(
            self.val_tokens,
            context_length,
            training.eval_batch_size,
            training.eval_stride,
            training.eval_drop_partial_batch,
        )

    def _longer(self, needed: int) -> str:
        total = len(self.train_tokens) + len(self.val_tokens)
        fraction = self.validation_fraction
        if fraction is None:
            return "choose a smaller context_length"
        nearly = int(max((needed - 1) / fraction, needed / (1 - fraction))) - 1  # rounding decides the rest
        enough = next(
            n for n in count(nearly) if min(training_share(n, fraction), n - training_share(n, fraction)) >= needed
        )
        return (
            f"use a text of at least {enough:,} tokens (this one has {total:,}) at "
            f"data.validation_fraction={fraction}, or another fraction, or a smaller context_length"
        )


def training_share(n: int, validation_fraction: float) -> int:
    """How many of n tokens, from the first on, are for training."""
    return int(n * (1 - validation_fraction))
