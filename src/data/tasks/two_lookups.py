"""Two lookups: one answer needs what stands at two places, both chosen by content."""

from __future__ import annotations

from math import log
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Int64, UInt64
from pydantic import Field

from src.data.tasks.task import NO_ANSWER, Task, below, members
from src.errors import ConfigError
from src.io_spec import TokenSpec
from src.section import Positive


class TwoLookups(Task):
    """Items, each a key with its value in one token; then a question, an ordered pair of keys (a, b) in one token.

    The answer is one token too: the ordered pair of their values, one of `values`^2. In each example a key has one
    value; a and b stand 1 to `repeats` times each, other keys fill the rest, all in random order.

    Why one head of one layer is not enough: what it brings to the question is a weighted mean of the items, n_a copies
    of a's value and n_b copies of b's. An item does not know which of the two is asked for first, so the order can lie
    in the two weights alone, and the counts n_a and n_b, which are unknown and differ up to `repeats` times, scramble
    these. A head that is blind to the order still finds both values: its loss is (1 - 1/values) ln 2. One that weighs
    the first key more is right wherever the counts agree with it, so long training goes somewhat below that. Two heads
    look up one key each, whatever the counts, and solve the task: loss 0. Chance is 2 ln(values).

    Token ids: items key * values + value, then questions a * keys + b, then answers.

        keys=3, values=2, repeats=2, context_length=6: key 0 has value 1, key 1 has 0, key 2 has 1
        inputs    1  2  1  5  2   7           0:1 1:0 0:1 2:1 1:0, then the question (0, 1): 6 + 0 * 3 + 1
        targets   .  .  .  .  .  17           the answer (1, 0): 6 + 9 + 1 * 2 + 0;  . asks nothing
    """

    name: Literal["two_lookups"] = "two_lookups"
    keys: Annotated[int, Field(ge=3)]
    values: Annotated[int, Field(ge=2)]
    repeats: Positive

    @property
    def io_spec(self) -> TokenSpec:
        return TokenSpec(self.keys * self.values + self.keys**2 + self.values**2)

    def check_length(self, length: int) -> None:
        least = 2 * self.repeats + 1
        if length < least:
            raise ConfigError(
                f"context_length={length} with data=two_lookups and data.repeats={self.repeats}: the two keys that are "
                f"asked for take up to {self.repeats} places each, and the question one; choose at least {least}, or "
                "fewer repeats"
            )

    def words(self, length: int) -> int:
        return self.keys + 4 + 2 + 2 * (length - 1)

    def examples(
        self, words: UInt64[np.ndarray, "B W"], length: int
    ) -> tuple[Int64[np.ndarray, "B T"], Int64[np.ndarray, "B T"]]:
        items = length - 1
        cuts = np.cumsum([self.keys, 4, 2, items])
        of_values, of_asked, of_counts, of_others, of_order = np.split(words, cuts, axis=1)
        values = below(of_values, self.values)  # B K
        asked = members(of_asked, self.keys)  # B 2
        keys = self._keys(asked, 1 + below(of_counts, self.repeats), below(of_others, self.keys - 2))  # B T-1
        keys = np.take_along_axis(keys, of_order.argsort(axis=1, kind="stable"), axis=1)
        first, second = np.take_along_axis(values, asked, axis=1).T  # B each
        inputs = np.empty((len(words), length), dtype=np.int64)
        inputs[:, :items] = keys * self.values + np.take_along_axis(values, keys, axis=1)
        inputs[:, items] = self.keys * self.values + asked[:, 0] * self.keys + asked[:, 1]
        targets = np.full_like(inputs, NO_ANSWER)
        targets[:, items] = self.keys * self.values + self.keys**2 + first * self.values + second
        return inputs, targets

    @staticmethod
    def _keys(
        asked: Int64[np.ndarray, "B 2"], counts: Int64[np.ndarray, "B 2"], others: Int64[np.ndarray, "B I"]
    ) -> Int64[np.ndarray, "B I"]:
        """The key of each item, not yet shuffled: the first asked for, the second, then any but these two."""
        low, high = asked.min(axis=1, keepdims=True), asked.max(axis=1, keepdims=True)
        others = others + (others >= low)
        others = others + (others >= high)
        places = np.arange(others.shape[1])
        ends = counts.cumsum(axis=1)
        return np.where(places < ends[:, :1], asked[:, :1], np.where(places < ends[:, 1:], asked[:, 1:], others))

    @property
    def landmarks(self) -> dict[str, float]:
        return {
            "chance": 2 * log(self.values),
            "one head, blind to the order": (1 - 1 / self.values) * log(2),
            "solved": 0.0,
        }
