"""Every configuration that Hydra-style overrides with comma lists ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from src.config import Config
from src.errors import ConfigError
from src.settings import composed


def grid(overrides: Sequence[str]) -> Iterator[Config]:
    """The configurations of all combinations, the last list varying fastest; paired lists as in a sweep.

    Raises ConfigError for what is unknown, ill-typed or not readable.
    """
    from src.sweeps.axes import read_request
    from src.sweeps.points import points

    for point in points(read_request(overrides), composed):
        if point.config is None:
            raise ConfigError(point.reason or f"{point.overrides} cannot be")
        yield point.config
