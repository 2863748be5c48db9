"""Max-retrieval: along each of several directions, how far does the farthest position reach?"""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
from jaxtyping import Float, Float32, Float64, UInt64

from src.data.tasks.task import Task, normals
from src.errors import ConfigError
from src.io_spec import VectorSpec
from src.randomness import random_words, stream_seed
from src.section import Positive


class MaxRetrieval(Task):
    """Positions hold normal vectors x_t; the one answer is the sum over D directions a_i of max_t a_i . x_t.

    Each direction's maximum lies at a position of its own and a head looks at one position, so D heads do it and
    fewer need parameters without bound: more heads help, until heads = D. The directions are the same for every
    example and seed, and at right angles, so that none can stand in for another. The answer is shifted and scaled to
    mean 0 and variance 1: a constant answer has loss 1. Source: arXiv 2510.06662 (2025).

        directions=2 (here the axes), features=2, context_length=3
        inputs    (1, 0)  (-2, 3)  (0, 1)
        targets   4                             1 + 3, still to be shifted and scaled

    >>> sum_of_largest(np.array([[[1, 0], [-2, 3], [0, 1]]]), np.eye(2)).tolist()
    [4.0]
    """

    name: Literal["max_retrieval"] = "max_retrieval"
    directions: Positive
    features: Positive

    @property
    def io_spec(self) -> VectorSpec:
        return VectorSpec(self.features, outputs=1, is_pooled=True)

    def check_length(self, length: int) -> None:
        if self.directions > self.features:
            raise ConfigError(
                f"data.directions={self.directions}: vectors of data.features={self.features} have no more than "
                f"{self.features} directions at right angles; choose more features or fewer directions"
            )

    def words(self, length: int) -> int:
        return 2 * -(-length * self.features // 2)  # normal numbers come in pairs

    def examples(
        self, words: UInt64[np.ndarray, "B W"], length: int
    ) -> tuple[Float32[np.ndarray, "B T F"], Float32[np.ndarray, "B 1 1"]]:
        inputs = normals(words)[:, : length * self.features].reshape(-1, length, self.features)
        mean, variance = (self.directions * moment for moment in moments_of_largest(length))
        answer = (sum_of_largest(inputs, self.axes()) - mean) / np.sqrt(variance)
        return inputs, answer[:, None, None].astype(np.float32)

    def axes(self) -> Float64[np.ndarray, "D F"]:
        """The directions: random, of length 1, at right angles to one another."""
        count = self.directions * self.features
        words = random_words(stream_seed(0, "data", self.name, "directions"), 0, 2 * count)
        axes = normals(words[None])[0, :count].astype(np.float64).reshape(self.directions, self.features)
        for i in range(self.directions):  # Gram and Schmidt; a library's choice of signs could differ by machine
            for other in axes[:i]:
                axes[i] -= (axes[i] @ other) * other
            axes[i] /= np.sqrt(axes[i] @ axes[i])
        return axes


def sum_of_largest(vectors: Float[np.ndarray, "B T F"], axes: Float64[np.ndarray, "D F"]) -> Float64[np.ndarray, " B"]:
    """Over all directions, the sum of the largest inner product of any position with it."""
    return (vectors @ axes.T).max(axis=1).sum(axis=1)


@cache
def moments_of_largest(count: int) -> tuple[float, float]:
    """Mean and variance of the largest of `count` independent normal numbers.

    >>> [round(moment, 6) for moment in moments_of_largest(1)]
    [0.0, 1.0]
    >>> mean, variance = moments_of_largest(2)  # 1 / sqrt(pi) and 1 - 1 / pi
    >>> round(mean, 6), round(variance, 6)
    (0.56419, 0.68169)
    """
    from scipy.special import ndtr  # here, not above: naming a task needs no scipy

    x = np.linspace(-12, 12, 24_001)
    chance = np.diff(ndtr(x) ** count)  # of the largest lying in each cell
    middle = (x[1:] + x[:-1]) / 2
    mean = float(chance @ middle)
    return mean, float(chance @ (middle - mean) ** 2)
