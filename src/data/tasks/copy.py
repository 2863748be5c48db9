"""Copy: say a random text back."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Int64, UInt64

from src.data.tasks.task import NO_ANSWER, Symbols, Task, below
from src.errors import ConfigError
from src.io_spec import TokenSpec


class Copy(Task):
    """Random symbols, a separator, and the same symbols again, which are the answers.

    Where to look is a matter of position alone: half a context back. One layer with one head can do it.

        symbols=4 (4 itself is the separator), context_length=6
        inputs    2  0  3  4  2  0
        targets   .  .  .  2  0  3          . asks nothing

    >>> words = np.array([[2, 0, 3]], dtype=np.uint64)
    >>> task = Copy(symbols=4, train_examples=None, test_examples=1)
    >>> [part.tolist() for part in task.examples(words, length=6)]
    [[[2, 0, 3, 4, 2, 0]], [[-100, -100, -100, 2, 0, 3]]]
    """

    name: Literal["copy"] = "copy"
    symbols: Symbols

    @property
    def io_spec(self) -> TokenSpec:
        return TokenSpec(self.symbols + 1)

    def check_length(self, length: int) -> None:
        if length % 2:
            raise ConfigError(
                f"context_length={length} with data=copy: a text and its copy are equally long; "
                f"choose an even one, such as {length + 1}"
            )

    def words(self, length: int) -> int:
        return length // 2

    def examples(
        self, words: UInt64[np.ndarray, "B W"], length: int
    ) -> tuple[Int64[np.ndarray, "B T"], Int64[np.ndarray, "B T"]]:
        text = below(words, self.symbols)  # B T/2
        separator = np.full((len(text), 1), self.symbols)
        inputs = np.concatenate([text, separator, text[:, :-1]], axis=1)  # B T
        return inputs, np.concatenate([np.full_like(text, NO_ANSWER), text], axis=1)
