"""What every synthetic task answers; and draws from random words, for making examples: numbers, members of a set."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar

import numpy as np
from jaxtyping import Float32, Float64, Int64, UInt64
from pydantic import Field

from src.io_spec import IOSpec
from src.section import Positive, Section

NO_ANSWER = -100
"""The target where nothing is asked: what torch's cross-entropy leaves out. The answer mask is `targets != -100`."""

Symbols = Annotated[int, Field(ge=2)]


class Task(Section):
    """A family of examples, each a pure function of random words. Its fields are its settings under `data`.

    Training draws from a stream of its own for each seed, without end or the first `train_examples` of it; one set of
    `test_examples` is for all. A subclass gives its `name` a value, and raises `version` when its examples change:
    results before and after are then of different data.
    """

    train_examples: Positive | None
    test_examples: Positive
    name: Any  # in each task a Literal, which tells it apart
    version: ClassVar[int] = 1

    @property
    @abstractmethod
    def io_spec(self) -> IOSpec:
        """What a model reads and what it answers."""

    def check_length(self, length: int) -> None:
        """Raises ConfigError where no example is `length` positions long."""

    @abstractmethod
    def words(self, length: int) -> int:
        """Random words that one example is made from."""

    @abstractmethod
    def examples(
        self, words: UInt64[np.ndarray, "B W"], length: int
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Inputs and targets, one example a row of words.

        Tokens: both (B, T) whole numbers, a target `NO_ANSWER` where nothing is asked.
        Vectors: inputs (B, T, features), targets (B, answers, outputs).
        """

    def loss_floor(self, inputs: np.ndarray[Any, Any], targets: np.ndarray[Any, Any]) -> float:
        """The least mean loss that any model can expect on these examples."""
        return 0.0

    @property
    def landmarks(self) -> dict[str, float]:
        """Losses to read a result by, each with who would have it: chance, say, or one head. From theory."""
        return {}


def below(words: UInt64[np.ndarray, "*N"], bound: int) -> Int64[np.ndarray, "*N"]:
    """Whole numbers from 0 to bound - 1; even to within bound / 2^64.

    >>> below(np.array([3, 11, 24], dtype=np.uint64), 10).tolist()
    [3, 1, 4]
    """
    return (words % np.uint64(bound)).astype(np.int64)


def uniforms(words: UInt64[np.ndarray, "*N"]) -> Float64[np.ndarray, "*N"]:
    """Numbers between 0 and 1, never either of them: 52 bits of a word and half a step."""
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def exponentials(words: UInt64[np.ndarray, "*N"]) -> Float64[np.ndarray, "*N"]:
    """Exponential numbers of mean 1."""
    return -np.log(uniforms(words))


def normals(words: UInt64[np.ndarray, "B W"]) -> Float32[np.ndarray, "B W"]:
    """Independent normal numbers of mean 0 and variance 1, by rows; W must be even.

    Single precision, which is several times faster; no number is beyond 5.8. Source: Box and Muller 1958.
    """
    step = np.float32(2.0**-23)
    chances = ((words >> np.uint64(41)).astype(np.float32) + np.float32(0.5)) * step  # 23 bits and half a step
    half = words.shape[1] // 2
    radius = np.sqrt(np.float32(-2) * np.log(chances[:, :half]))
    angle = np.float32(2 * np.pi) * chances[:, half:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def members(words: UInt64[np.ndarray, "B W"], size: int) -> Int64[np.ndarray, "B M"]:
    """Half as many different members of range(size) as there are words, in random order, by rows.

    Costs what the members cost, not what the set does. Source: Floyd's sampling, Bentley and Floyd 1987.

    >>> words = np.array([[0, 1, 2, 30, 10, 20]], dtype=np.uint64)  # the set {0, 1, 2}, then its order
    >>> members(words, 3).tolist()
    [[1, 2, 0]]
    """
    count = words.shape[1] // 2
    chosen = np.full((len(words), count), -1, dtype=np.int64)
    for i in range(count):
        last = size - count + i
        drawn = below(words[:, i], last + 1)
        is_taken = (chosen[:, :i] == drawn[:, None]).any(axis=1)
        chosen[:, i] = np.where(is_taken, last, drawn)
    order = np.argsort(words[:, count:], axis=1, kind="stable")
    return np.take_along_axis(chosen, order, axis=1)


def weighted_members(
    words: UInt64[np.ndarray, "B S"], weights: Float64[np.ndarray, " S"], count: int
) -> Int64[np.ndarray, "B M"]:
    """`count` different places, one after the other, each drawn in proportion to the weights that are left; by rows.

    Source: Efraimidis and Spirakis 2006: the smallest of exponential times with these rates.
    """
    return np.argsort(exponentials(words) / weights, axis=1, kind="stable")[:, :count]
