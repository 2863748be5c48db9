"""Induction: A B ... A asks for B."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Int64, UInt64

from src.data.tasks.draws import below
from src.data.tasks.task import NO_ANSWER
from src.ends import TokenEnds
from src.errors import ConfigError


@dataclass(frozen=True)
class Induction:
    """Random symbols, in which the last one has occurred once before: the answer is what followed it there.

    Neither the symbol nor the place is fixed, so the place must be found by content and then shifted by one:
    two layers with one head each can do it (a previous-token head, then an induction head), one layer cannot.
    Source: Elhage et al. 2021; Olsson et al. 2022.

        symbols=8, context_length=7
        inputs    3  5  1  7  0  7  5
        targets   .  .  .  .  .  .  1          . asks nothing

    >>> words = np.array([[5, 1, 3, 0, 1, 6, 0, 6, 0]], dtype=np.uint64)  # symbol 5 at place 1, then the others
    >>> [part.tolist() for part in Induction(symbols=8).examples(words, length=7)]
    [[[3, 5, 1, 7, 0, 7, 5]], [[-100, -100, -100, -100, -100, -100, 1]]]
    """

    symbols: int
    name: ClassVar[str] = "induction"
    version: ClassVar[int] = 1

    @property
    def ends(self) -> TokenEnds:
        return TokenEnds(self.symbols)

    def check_length(self, length: int) -> None:
        if length < 3:
            raise ConfigError(f"context_length={length} with data=induction: A B A needs at least 3 positions")

    def words(self, length: int) -> int:
        return length + 2

    def examples(
        self, words: UInt64[np.ndarray, "B W"], length: int
    ) -> tuple[Int64[np.ndarray, "B T"], Int64[np.ndarray, "B T"]]:
        rows = np.arange(len(words))
        symbol = below(words[:, 0], self.symbols)
        place = below(words[:, 1], length - 2)  # at most the third from last: B stands between
        inputs = below(words[:, 2:], self.symbols - 1)  # B T
        inputs += inputs >= symbol[:, None]  # every other symbol, evenly
        inputs[rows, place] = inputs[:, -1] = symbol
        targets = np.full_like(inputs, NO_ANSWER)
        targets[:, -1] = inputs[rows, place + 1]
        return inputs, targets

    def optimum(self, inputs: Int64[np.ndarray, "B T"], targets: Int64[np.ndarray, "B T"]) -> float:
        return 0.0
