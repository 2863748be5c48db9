"""Which file, or the command line, gave each setting its value; and that the command line wins over every file.

Hydra merges the files of an experiment after those of the groups, so `model=gpt2 experiment=copy` would train the
experiment's small model under the name gpt2. Here a group that the command line chooses is laid over the experiment
again, and what the command line sets by name over both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hydra.core.override_parser.types import Override, QuotedString
from omegaconf import DictConfig, OmegaConf

from src import ROOT

COMMAND_LINE = "command line"
BASE = "conf/config.yaml"
_LATER = ("experiment", "sweeps")
"""Groups whose files set what other groups set too."""


def chosen_groups(overrides: Sequence[Override], groups: Mapping[str, Any]) -> dict[str, str]:
    """The options that the command line itself chooses, by group."""
    found = {}
    for override in overrides:
        value = None if override.is_delete() or override.is_sweep_override() else override.value()
        if override.key_or_group in groups and isinstance(value, str):
            found[override.key_or_group] = value
    return found


def let_the_command_line_win(settings: DictConfig, overrides: Sequence[Override], groups: Mapping[str, Any]) -> None:
    """Lays the groups that were chosen on the command line, and then its single settings, over what files say."""
    chosen = chosen_groups(overrides, groups)
    if not any(chosen.get(later, "null") != "null" for later in _LATER):
        return
    for group, option in chosen.items():
        if group in _LATER or option == "null":
            continue
        values = file_values(group, option)
        if isinstance(settings.get(group), DictConfig):
            settings[group] = {}  # of another kind of data, say, nothing is left
        for name, value in values.items():
            OmegaConf.update(settings, name, value, force_add=True)
    for override in overrides:
        if override.key_or_group not in groups and not override.is_delete() and not override.is_hydra_override():
            OmegaConf.update(settings, override.key_or_group, plain_value(override), force_add=True)


def plain_value(override: Override) -> Any:
    """The value of an override, without the quotes that Hydra keeps beside it."""
    return _plain(override.value())


def _plain(value: Any) -> Any:
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value


def origins(overrides: Sequence[Override], groups: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, str]:
    """Where each setting's value came from: a file below the project, `command line`, or conf/config.yaml.

    `overrides`: all that was given, sweep points included; `settings`: the composed values, nested.
    """
    chosen = chosen_groups(overrides, groups)
    named = {**_defaults(), **{later: chosen.get(later, "null") for later in _LATER}}
    for later in _LATER:
        named |= _overridden(later, named[later])
    named |= chosen
    found: dict[str, str] = {}
    first = [(group, named[group]) for group in _defaults()]
    last = [(group, option) for group, option in chosen.items() if group not in _LATER]
    for group, option in [*first, ("", "config"), *((later, named[later]) for later in _LATER), *last]:
        if option != "null":
            found |= _file_origins(group, option)
    found |= {override.key_or_group: COMMAND_LINE for override in overrides if not override.is_delete()}
    names = dict(_flat(settings))
    return {name: _of(name, found) for name in names}


@cache
def file_values(group: str, option: str) -> dict[str, Any]:
    """What a file of conf/ or sweeps/ sets, those that it builds on included, by dotted name."""
    return {name: value for _, values in _layers(group, option) for name, value in values.items()}


def _file_origins(group: str, option: str) -> dict[str, str]:
    return {name: place for place, values in _layers(group, option) for name in values}


@cache
def _layers(group: str, option: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The files that a choice consists of, in the order in which they are laid over each other."""
    path = _path(group, option)
    text, content = _read(path)
    own = {name: value for name, value in content.items() if name not in ("defaults", "hydra")}
    prefix = "" if "@package _global_" in text or not group else f"{group.replace('/', '.')}."
    mine = (path.relative_to(ROOT).as_posix(), {prefix + name: value for name, value in _flat(own)})
    below: list[tuple[str, dict[str, Any]]] = []
    has_self = False
    for entry in content.get("defaults", []) if group else []:
        if entry == "_self_":
            below.append(mine)
            has_self = True
        elif isinstance(entry, str):
            below += _layers(group, entry)
    return tuple(below if has_self else [*below, mine])


def _path(group: str, option: str) -> Path:
    folder = ROOT if group == "sweeps" else ROOT / "conf"
    return folder / group / f"{option}.yaml"


@cache
def _read(path: Path) -> tuple[str, dict[str, Any]]:
    # Of a file that is not ours (another search path) nothing is known.
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return text, yaml.load(text, Loader=_Loader) or {}


class _Loader(yaml.SafeLoader):
    """YAML as OmegaConf reads it: 1e-3 is a number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d[\d_]*(?:\.[\d_]*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def _defaults() -> dict[str, str]:
    """The groups of conf/config.yaml and what they are where nothing is chosen."""
    _, content = _read(ROOT / BASE)
    found = {}
    for entry in content["defaults"]:
        if isinstance(entry, Mapping):
            ((name, option),) = entry.items()
            if not str(name).startswith(("override ", "optional ")):
                found[str(name)] = str(option)
    return found


def _overridden(group: str, option: str) -> dict[str, str]:
    """The choices that an experiment or a sweep's file makes of other groups."""
    if option == "null":
        return {}
    _, content = _read(_path(group, option))
    found = {}
    for entry in content.get("defaults", []):
        if isinstance(entry, Mapping):
            ((name, chosen),) = entry.items()
            found[str(name).removeprefix("override ").lstrip("/")] = str(chosen)
    return found


def _of(name: str, found: Mapping[str, str]) -> str:
    while name:
        if name in found:
            return found[name]
        name = name.rpartition(".")[0]
    return BASE


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
