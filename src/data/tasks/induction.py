"""Induction: A B ... A asks for B."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Int64, UInt64

from src.data.tasks.task import NO_ANSWER, Symbols, Task, below, members
from src.errors import ConfigError
from src.io_spec import TokenSpec


class Induction(Task):
    """A random text whose symbols all differ, said again and again: each symbol asks for what followed it before.

    The text is a quarter to half a context long, anew for each example, so the place must be found by content and
    then shifted by one: two layers with one head each can do it (a previous-token head, then an induction head),
    one layer cannot. The second half of the context asks. Source: Elhage et al. 2021; Olsson et al. 2022.

        symbols=8, context_length=8, a text of 3
        inputs    5  1  7  5  1  7  5  1
        targets   .  .  .  .  7  5  1  7          . asks nothing

    >>> words = np.array([[1, *[5, 1, 6, 0], *[0, 10, 20, 30]]], dtype=np.uint64)  # a text of 2 + 1; symbols; order
    >>> task = Induction(symbols=8, train_examples=None, test_examples=1)
    >>> [part.tolist() for part in task.examples(words, length=8)]
    [[[0, 1, 6, 0, 1, 6, 0, 1]], [[-100, -100, -100, -100, 6, 0, 1, 6]]]
    """

    name: Literal["induction"] = "induction"
    symbols: Symbols

    @property
    def io_spec(self) -> TokenSpec:
        return TokenSpec(self.symbols)

    def check_length(self, length: int) -> None:
        if length < 4 or length % 2:
            raise ConfigError(
                f"context_length={length} with data=induction: half of it is shown and half asked for; choose an even "
                "one of at least 4"
            )
        if self.symbols < length // 2:
            raise ConfigError(
                f"data.symbols={self.symbols}: a text of up to {length // 2} different symbols (half of "
                f"context_length={length}) needs as many; choose more symbols or a smaller context_length"
            )

    def words(self, length: int) -> int:
        return 1 + 2 * (length // 2)

    def examples(
        self, words: UInt64[np.ndarray, "B W"], length: int
    ) -> tuple[Int64[np.ndarray, "B T"], Int64[np.ndarray, "B T"]]:
        shortest, longest = length // 4, length // 2
        period = shortest + below(words[:, 0], longest - shortest + 1)  # B
        text = members(words[:, 1:], self.symbols)  # B T/2
        said = np.take_along_axis(text, np.arange(length + 1) % period[:, None], axis=1)  # B T+1
        targets = said[:, 1:].copy()
        targets[:, :longest] = NO_ANSWER
        return said[:, :-1], targets
