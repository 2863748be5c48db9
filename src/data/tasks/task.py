"""What every synthetic task answers, so that one loop, one record and one sweep serve them all."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from jaxtyping import UInt64

from src.ends import Ends

NO_ANSWER = -100
"""The target where nothing is asked: what torch's cross-entropy leaves out. The answer mask is `targets != -100`."""


class Task(Protocol):
    """A family of examples, each a pure function of random words.

    `version` changes with the examples: results before and after are then of different data.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    @property
    def ends(self) -> Ends:
        """What a model reads and what it answers."""
        ...

    def check_length(self, length: int) -> None:
        """Raises ConfigError where no example is `length` positions long."""
        ...

    def words(self, length: int) -> int:
        """Random words that one example is made from."""
        ...

    def examples(
        self, words: UInt64[np.ndarray, "B W"], length: int
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Inputs and targets, one example a row of words.

        Tokens: both (B, T) whole numbers, a target `NO_ANSWER` where nothing is asked.
        Vectors: inputs (B, T, features), targets (B, answers, outputs).
        """
        ...

    def optimum(self, inputs: np.ndarray[Any, Any], targets: np.ndarray[Any, Any]) -> float:
        """The least mean loss that any model can expect on these examples."""
        ...
