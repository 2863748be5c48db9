"""From the command line to a checked `Config`: Hydra composes conf/, `src.config` judges.

Hydra itself lets `+head=4` through and trains with the default; here every name is looked up first,
before a folder is made or anything heavy is imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from src import ROOT
from src.config import Config, setting_names, settings_of_kind, unknown_setting
from src.errors import ConfigError, did_you_mean

CONF_DIR = ROOT / "conf"
_OVERRIDE = re.compile(r"^(?P<prefix>\+\+|\+|~)?(?P<key>[^=\s]+)(?:=(?P<value>.*))?$", re.DOTALL)
_BARE_WORDS = re.compile(r"^[\w./@:-]+$")


def groups() -> dict[str, list[str]]:
    """The config groups and their options, read from conf/ (and sweeps/)."""
    found = {path.name: _options(path) for path in CONF_DIR.iterdir() if path.is_dir()}
    found["sweeps"] = _options(ROOT / "sweeps")
    return found


def check_overrides(arguments: Sequence[str]) -> None:
    """Refuses an override whose setting or group does not exist, however it is written.

    Raises ConfigError with the nearest name.
    """
    known_groups = groups()
    known = set(setting_names()) | set(known_groups)
    for key in _override_keys(arguments):
        group = key.partition("@")[0].lstrip("/")
        if key.startswith(("hydra.", "hydra/")) or key == "hydra" or key in known or group in known_groups:
            continue
        raise unknown_setting(key, known_groups)
    _check_kinds(arguments)
    for key, value in _override_values(arguments):
        options = known_groups.get(key)
        if options is not None and _BARE_WORDS.match(value) and value not in {"null", *options}:
            raise ConfigError(
                f"{key}={value}: no such option{did_you_mean(value, options)}; choose one of {', '.join(options)}"
            )


def _check_kinds(arguments: Sequence[str]) -> None:
    """Refuses data=copy data.stride=3: Hydra would speak of a key that is not in a struct."""
    values = list(_override_values(arguments))
    for kind in [value for key, value in values if key == "data"]:
        settings = settings_of_kind("data", kind)
        for key, _ in values:
            section, _, name = key.partition(".")
            if settings is not None and section == "data" and name and name not in settings:
                raise ConfigError(
                    f"{key} is no setting of data={kind}; leave it out, or choose another data "
                    f"(data={kind} has {', '.join(sorted(set(settings) - {'name'}))})"
                )


def config_of(composed: DictConfig) -> Config:
    """The checked configuration of what Hydra composed."""
    try:
        values: Any = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(f"the settings cannot be resolved: {error}") from None
    for not_a_setting in ("experiment", "sweeps"):
        values.pop(not_a_setting, None)
    return Config.of(values)


def compose(overrides: Sequence[str] = ()) -> Config:
    """The configuration of some overrides, composed in this process; for tests, notebooks and planning."""
    check_overrides(overrides)
    return config_of(composed(overrides))


def composed(overrides: Sequence[str]) -> DictConfig:
    """What Hydra composes of some overrides, not yet judged. Raises ConfigError where it cannot."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException

    register_root()
    try:
        with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
            return hydra_compose("config", overrides=list(overrides))
    except HydraException as error:
        raise ConfigError(f"the settings cannot be composed: {error}") from None


def register_root() -> None:
    """Makes ${root:} known to Hydra's search path, so that sweeps/ is found from any folder."""
    OmegaConf.register_new_resolver("root", lambda: str(ROOT), replace=True)


def _options(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml"))


def _override_keys(arguments: Sequence[str]) -> Iterator[str]:
    for argument in arguments:
        match = None if argument.startswith("-") else _OVERRIDE.match(argument)
        if match and (match["value"] is not None or match["prefix"] == "~"):
            yield match["key"]


def _override_values(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    for argument in arguments:
        match = None if argument.startswith("-") else _OVERRIDE.match(argument)
        if match and match["value"] is not None:
            for value in match["value"].split(","):
                yield match["key"], value
