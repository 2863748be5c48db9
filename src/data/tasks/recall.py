"""Recall: keys and values first, then keys asked for again in any order (multi-query associative recall)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float64, Int64, UInt64
from pydantic import Field

from src.data.tasks.task import NO_ANSWER, Task, below, members, weighted_members
from src.errors import ConfigError
from src.io_spec import TokenSpec
from src.section import Positive, Rate


class Recall(Task):
    """`pairs` keys, each with its value after it; then each key once more, answered by its value.

    Keys are tokens of the lower half of the vocabulary (0 left out), values of the upper half, none twice in an
    example. A key is asked for after a gap of g pairs of places with a probability that falls as g^(power - 1), like
    the distance of repeated word pairs in text. Every other place after the pairs holds a random token and asks
    nothing. Source: Arora et al. 2023 (Zoology), section 4 and appendix.

        vocabulary_size=16, pairs=2, context_length=12
        inputs    3 14  5  9    3  8  1  0 15  6  5  2
        targets   .  .  .  .   14  .  .  .  .  .  9  .          . asks nothing

    >>> keys, values, gaps, others = [4, 2, 7, 6], [1, 6, 7, 6], [2**63, 0, 0, 2**62], [4, 8, 1, 0, 15, 6, 7, 2]
    >>> words = np.array([[*keys, *values, *gaps, *others]], dtype=np.uint64)
    >>> task = Recall(vocabulary_size=16, pairs=2, power=1.0, train_examples=None, test_examples=1)
    >>> inputs, targets = task.examples(words, length=12)
    >>> inputs.tolist(), targets[0, 4:].tolist()
    ([[3, 14, 5, 9, 3, 8, 1, 0, 15, 6, 5, 2]], [14, -100, -100, -100, -100, -100, 9, -100])
    """

    name: Literal["recall"] = "recall"
    vocabulary_size: Annotated[int, Field(ge=4)]
    pairs: Positive
    power: Rate

    @property
    def io_spec(self) -> TokenSpec:
        return TokenSpec(self.vocabulary_size)

    def check_length(self, length: int) -> None:
        least = 4 * self.pairs
        if length % 2 or length < least:
            raise ConfigError(
                f"context_length={length} with data=recall and data.pairs={self.pairs}: pairs and questions take two "
                f"places each; choose an even one of at least {least}, or fewer pairs"
            )
        keys = self.vocabulary_size // 2 - 1
        if self.pairs > keys:
            raise ConfigError(
                f"data.pairs={self.pairs}: a vocabulary of {self.vocabulary_size} has {keys} keys; "
                "choose fewer pairs or a larger data.vocabulary_size"
            )

    def words(self, length: int) -> int:
        rest = length - 2 * self.pairs
        return 4 * self.pairs + rest // 2 + rest

    def examples(
        self, words: UInt64[np.ndarray, "B W"], length: int
    ) -> tuple[Int64[np.ndarray, "B T"], Int64[np.ndarray, "B T"]]:
        pairs, half = self.pairs, self.vocabulary_size // 2
        rest = length - 2 * pairs
        of_keys, of_values, of_gaps, of_others = np.split(words, np.cumsum([2 * pairs, 2 * pairs, rest // 2]), axis=1)
        keys = 1 + members(of_keys, half - 1)  # B P
        values = half + members(of_values, self.vocabulary_size - half)  # B P
        gaps = weighted_members(of_gaps, self._gap_weights(rest // 2), pairs)  # B P
        asked = 2 * pairs + 2 * gaps  # B P
        inputs = np.concatenate([keys.repeat(2, axis=1), below(of_others, self.vocabulary_size)], axis=1)  # B T
        inputs[:, 1 : 2 * pairs : 2] = values
        np.put_along_axis(inputs, asked, keys, axis=1)
        targets = np.full_like(inputs, NO_ANSWER)
        np.put_along_axis(targets, asked, values, axis=1)
        return inputs, targets

    def _gap_weights(self, places: int) -> Float64[np.ndarray, " S"]:
        return np.arange(1, places + 1) ** (self.power - 1)
