"""Farthest point: for each point of a sphere, the one that points least its way."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float32, UInt64
from pydantic import Field

from src.data.tasks.task import Task, normals
from src.errors import ConfigError
from src.io_spec import VectorSpec


class FarthestPoint(Task):
    """Positions hold points spread evenly on the unit sphere; each answer is the point x_j with the least x_i . x_j.

    One head whose query-key matrix has full rank compares all of x_i with all of x_j; heads that share the width
    each see a projection, and many of them do not make up for it: more heads hurt.
    Source: Amsel, Yehudai and Bruna, ICLR 2025.

        features=2, context_length=3
        inputs    (1, 0)  (0, 1)  (-0.8, -0.6)
        targets   (-0.8, -0.6)  (-0.8, -0.6)  (1, 0)

    >>> points = np.array([[[1, 0], [0, 1], [-0.8, -0.6]]])
    >>> farthest(points).tolist()
    [[[-0.8, -0.6], [-0.8, -0.6], [1.0, 0.0]]]
    """

    name: Literal["farthest_point"] = "farthest_point"
    features: Annotated[int, Field(ge=2)]

    @property
    def io_spec(self) -> VectorSpec:
        return VectorSpec(self.features, outputs=self.features, is_pooled=False)

    def check_length(self, length: int) -> None:
        if length < 2:
            raise ConfigError(f"context_length={length} with data=farthest_point: choose at least 2 points")

    def words(self, length: int) -> int:
        return 2 * -(-length * self.features // 2)  # normal numbers come in pairs

    def examples(
        self, words: UInt64[np.ndarray, "B W"], length: int
    ) -> tuple[Float32[np.ndarray, "B T F"], Float32[np.ndarray, "B T F"]]:
        points = normals(words)[:, : length * self.features].reshape(-1, length, self.features)
        points /= np.sqrt((points**2).sum(axis=2, keepdims=True))
        return points, farthest(points)


def farthest(points: np.ndarray) -> np.ndarray:
    """For each point of a set, the one of the set with the least inner product: (B, N, F) to (B, N, F)."""
    least = (points @ points.transpose(0, 2, 1)).argmin(axis=2)  # B N
    return np.take_along_axis(points, least[:, :, None], axis=1)
