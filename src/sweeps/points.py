"""From a request to its points: Hydra composes once for each choice of groups, values are set on what it composed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from src.config import Config
from src.errors import ConfigError
from src.settings import config_of, groups
from src.sweeps.axes import Choice, Request

Compose = Callable[[Sequence[str]], DictConfig]
"""Composes the settings of some overrides; raises ConfigError where they cannot be composed."""


def compose_with(loader: ConfigLoader, master: DictConfig) -> Compose:
    """Composes as Hydra's launchers do for a job of this multirun."""

    def compose(overrides: Sequence[str]) -> DictConfig:
        try:
            composed = loader.load_sweep_config(master, list(overrides))
        except HydraException as error:
            raise ConfigError(f"the settings cannot be composed: {error}") from None
        OmegaConf.set_struct(composed, False)
        del composed["hydra"]
        return composed

    return compose


@dataclass(frozen=True)
class Point:
    """One point of a grid: what it sets, and the configuration, or why there is none."""

    choices: dict[str, Choice]
    config: Config | None
    reason: str | None = None

    @property
    def overrides(self) -> list[str]:
        """As on a command line."""
        return [f"{name}={choice.text}" for name, choice in self.choices.items()]

    @property
    def values(self) -> dict[str, Any]:
        return {name: choice.value for name, choice in self.choices.items()}


def points(request: Request, compose: Compose) -> Iterator[Point]:
    """All combinations, the last axis varying fastest. A point that cannot be is yielded with its reason."""
    group_names = set(groups())
    composed: dict[tuple[str, ...], DictConfig | ConfigError] = {}
    for positions in product(*(axis.positions for axis in request.axes)):
        choices = {
            name: choice
            for axis, position in zip(request.axes, positions, strict=True)
            for name, choice in zip(axis.names, position, strict=True)
        }
        chosen = tuple(f"{name}={choice.text}" for name, choice in choices.items() if name in group_names)
        if chosen not in composed:
            composed[chosen] = _composed(compose, [*request.fixed, *chosen])
        values = {name: choice.value for name, choice in choices.items() if name not in group_names}
        yield _point(choices, composed[chosen], values)


def _composed(compose: Compose, overrides: list[str]) -> DictConfig | ConfigError:
    try:
        return compose(overrides)
    except ConfigError as error:
        return error


def _point(choices: dict[str, Choice], composed: DictConfig | ConfigError, values: dict[str, Any]) -> Point:
    if isinstance(composed, ConfigError):
        return Point(choices, None, str(composed))
    # In place: every point sets the same names, so nothing of the last one is left.
    for name, value in values.items():
        OmegaConf.update(composed, name, value, force_add=True)
    try:
        return Point(choices, config_of(composed))
    except ConfigError as error:
        return Point(choices, None, str(error))
