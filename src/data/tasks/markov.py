"""Markov: each example is a chain of its own, whose rule must be learnt from the example itself."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Float64, Int64, UInt64

from src.data.tasks.task import NO_ANSWER, Symbols, Task, below, exponentials, uniforms
from src.errors import ConfigError
from src.io_spec import TokenSpec
from src.section import Positive


class Markov(Task):
    """A chain of order `depth` over a few symbols: the last `depth` symbols decide how likely each next one is.

    The probabilities are drawn anew for each example, evenly among all there are (Dirichlet(1)), so a model must
    count what followed the same symbols earlier on. The best prediction is known: (count + 1) / (visits + symbols).
    Two layers with one head each can count for any depth. Source: Edelman et al. 2024; Rajaraman et al. 2024.

        symbols=2, depth=1, context_length=6; here 1 always follows 0, and after 1 both are as likely
        inputs    0  1  1  0  1  0
        targets   1  1  0  1  0  1          from the first `depth` symbols on, every next one is asked for

    >>> low, middle, high = 0, 2**62, 2**64 - 1
    >>> words = np.array([[high, middle, middle, middle, 0, high, high, low, high, low, high]], dtype=np.uint64)
    >>> task = Markov(symbols=2, depth=1, train_examples=None, test_examples=1)
    >>> [part.tolist() for part in task.examples(words, length=6)]
    [[[0, 1, 1, 0, 1, 0]], [[1, 1, 0, 1, 0, 1]]]
    """

    name: Literal["markov"] = "markov"
    symbols: Symbols
    depth: Positive

    @property
    def io_spec(self) -> TokenSpec:
        return TokenSpec(self.symbols)

    @property
    def contexts(self) -> int:
        """Rows of the table: what the last `depth` symbols can be."""
        return self.symbols**self.depth

    def check_length(self, length: int) -> None:
        if length < self.depth:
            raise ConfigError(
                f"context_length={length} with data=markov and data.depth={self.depth}: nothing could be predicted; "
                f"choose at least {self.depth}, and many times {self.contexts} for something to count"
            )

    def words(self, length: int) -> int:
        return self.contexts * self.symbols + length + 1

    def examples(
        self, words: UInt64[np.ndarray, "B W"], length: int
    ) -> tuple[Int64[np.ndarray, "B T"], Int64[np.ndarray, "B T"]]:
        of_tables, of_start, of_steps = np.split(words, np.cumsum([self.contexts * self.symbols, self.depth]), axis=1)
        rates = exponentials(of_tables).reshape(-1, self.contexts, self.symbols)
        bounds = np.cumsum(rates, axis=2) / rates.sum(axis=2, keepdims=True)  # B C V
        chain = np.empty((len(words), length + 1), dtype=np.int64)
        chain[:, : self.depth] = below(of_start, self.symbols)
        chances, rows = uniforms(of_steps), np.arange(len(words))
        for t in range(self.depth, length + 1):
            row = bounds[rows, self._context(chain[:, t - self.depth : t]), :-1]  # B V-1
            chain[:, t] = (chances[:, t - self.depth, None] > row).sum(axis=1)
        targets = chain[:, 1:].copy()
        targets[:, : self.depth - 1] = NO_ANSWER
        return chain[:, :-1], targets

    def loss_floor(self, inputs: Int64[np.ndarray, "B T"], targets: Int64[np.ndarray, "B T"]) -> float:
        """The mean loss in nats of the best prediction there is, from what each example has shown so far."""
        rows = np.arange(len(inputs))
        counts: Float64[np.ndarray, "B C V"] = np.ones((len(inputs), self.contexts, self.symbols))
        losses = []
        for t in range(self.depth - 1, inputs.shape[1]):
            seen = self._context(inputs[:, t - self.depth + 1 : t + 1])
            row = counts[rows, seen]  # B V
            losses.append(-np.log(row[rows, targets[:, t]] / row.sum(axis=1)))
            counts[rows, seen, targets[:, t]] += 1
        return float(np.mean(losses))

    def _context(self, last: Int64[np.ndarray, "B K"]) -> Int64[np.ndarray, " B"]:
        """The row of the table that the last symbols mean: their digits in base `symbols`."""
        return last @ self.symbols ** np.arange(self.depth - 1, -1, -1)
