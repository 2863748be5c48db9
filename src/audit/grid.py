"""Every configuration that Hydra-style overrides with comma lists ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from src.config import Config
from src.errors import ConfigError
from src.settings import check_overrides, compose, groups


def grid(overrides: Sequence[str]) -> Iterator[Config]:
    """The configurations of all combinations, the last list varying fastest, config groups before settings.

    Hydra composes once for each choice of groups; plain values are set on what it composed, and checked.
    Raises ConfigError for what is unknown, ill-typed or not readable.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    check_overrides(overrides)
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise ConfigError(f"the settings cannot be read: {error}") from None
    lists = [override for override in parsed if override.is_sweep_override()]
    plain = [str(override.input_line) for override in parsed if not override.is_sweep_override()]
    of_groups = [override for override in lists if override.key_or_group in groups()]
    of_values = [override for override in lists if override.key_or_group not in groups()]
    names = [override.key_or_group for override in of_values]
    for choices in product(*(list(override.sweep_string_iterator()) for override in of_groups)):
        chosen = [f"{override.key_or_group}={choice}" for override, choice in zip(of_groups, choices, strict=True)]
        composed = compose([*plain, *chosen])
        for values in product(*(list(override.sweep_iterator()) for override in of_values)):
            yield _with(composed, dict(zip(names, values, strict=True)))


def _with(config: Config, changes: dict[str, Any]) -> Config:
    values = config.model_dump()
    for name, value in changes.items():
        *sections, leaf = name.split(".")
        section = values
        for part in sections:
            section = section[part]
        section[leaf] = getattr(value, "text", value)  # Hydra keeps the quotes of 'a text' beside it
    return Config.of(values)
