"""Keys under `hydra.` and choices of `hydra/`, held against what Hydra, the chosen launcher and the sweeper know.

Hydra itself takes `++hydra.launcher.njobs=3` without a word, and nobody ever reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any

from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from src.errors import ConfigError, did_you_mean
from src.origins import plain_value
from src.usual_names import near

_BY_HYDRA = ("hydra.runtime", "hydra.overrides", "hydra.job.num", "hydra.job.id", "hydra.job.override_dirname")
"""What Hydra itself writes, over whatever was given."""
_OURS = {
    "hydra.run.dir": "runs_dir=... group=...",
    "hydra.sweep.dir": "runs_dir=... group=...",
    "hydra.sweep.subdir": "runs_dir=... group=...",
    "hydra.sweeper.params": "a list such as heads=1,2 with -m",
    "hydra.searchpath": "a file in conf/",
    "hydra.defaults": "a file in conf/",
}
"""What would be taken and change nothing, and what does it here."""
_LEAST = {
    **dict.fromkeys(("n_jobs", "time", "timeout_min", "cpus_per_task", "array_parallelism", "num_cpus"), 1),
    **dict.fromkeys(("gpus_per_node", "num_gpus", "signal_delay_s"), 0),
}
_FREE = {"hydra_plugins.hydra_joblib_launcher.joblib_launcher.JoblibLauncher"}
"""Where a number below the least means something: joblib's n_jobs=-1 takes every core."""

_ASKED_FIRST = ("processes", "ray", "slurm", "joblib", "submitit_local", "submitit_slurm")
MOST_TRIED = 4
LEAST_LIKENESS = 0.7
MOST_NAMED = 8

Compose = Callable[[Sequence[str]], DictConfig]
Options = Callable[[str], list[str]]


def check_hydra(overrides: Sequence[Override], choices: Sequence[str], compose: Compose, options: Options) -> None:
    """Refuses what nobody would read, and values of the wrong type or beyond what can be.

    `choices`: the arguments that choose files, which decide what there is; `compose` composes them, Hydra's own
    settings included; `options` lists the options of a group such as hydra/launcher. Raises ConfigError.
    """
    asked = [override for override in overrides if override.is_hydra_override() or override.key_or_group == "hydra"]
    for override in asked:
        if "/" in override.key_or_group:
            _check_choice(override, options)
    keys = [override for override in asked if "/" not in override.key_or_group]
    if not keys:
        return
    settings = compose(choices)
    for override in keys:
        try:
            _check_key(override, settings)
        except UnknownKey as error:
            elsewhere = _of_another_launcher(override, choices, compose, options)
            raise elsewhere or error from None


class UnknownKey(ConfigError):
    """A key under hydra. that nobody reads."""


def _of_another_launcher(
    override: Override, choices: Sequence[str], compose: Compose, options: Options
) -> ConfigError | None:
    """What to say of a launcher's setting that the chosen one does not have, where another one has it."""
    key = override.key_or_group
    there, others = options("hydra/launcher"), [word for word in choices if not word.startswith("hydra/launcher=")]
    if not key.startswith("hydra.launcher."):
        return None
    for launcher in [name for name in _ASKED_FIRST if name in there]:
        settings = compose([*others, f"hydra/launcher={launcher}"])
        own = [name for name in hydra_keys(settings) if name.startswith("hydra.launcher.")]
        for name in [key] if key in own else _alike(key, own):
            try:
                _check_key(replace(override, key_or_group=name, type=OverrideType.CHANGE), settings)
            except ConfigError:
                continue
            return ConfigError(
                f"{key}: the chosen launcher has no such setting; hydra/launcher={launcher} has "
                f"{name}: hydra/launcher={launcher} {name}={_written(override)}"
            )
    return None


def hydra_keys(settings: DictConfig) -> Iterator[str]:
    """Every setting under hydra. that can be given, in dotted form."""
    for name in _names_under(settings.hydra, "hydra"):
        if not name.startswith(_BY_HYDRA) and name not in _OURS:
            yield name


def _check_choice(override: Override, options: Options) -> None:
    group, value = override.key_or_group, override.value()
    there = options(group)
    if not there:
        known = [name for name in ("hydra/launcher", "hydra/sweeper") if options(name)]
        raise ConfigError(f"unknown setting {group!r}{did_you_mean(group, known)}")
    if override.is_delete():
        raise ConfigError(f"~{group}: it cannot be left out; choose one of {', '.join(there)}")
    if override.is_sweep_override() or not isinstance(value, str):
        raise ConfigError(f"{group} is one for a whole sweep; choose one of {', '.join(there)}")
    if value not in there:
        raise ConfigError(
            f"{group}={value}: no such option{did_you_mean(value, there)}; choose one of {', '.join(there)}"
        )


def _check_key(override: Override, settings: DictConfig) -> None:
    key = override.key_or_group
    if override.is_delete():
        raise ConfigError(f"~{key}: a setting of Hydra's cannot be left out; give it a value")
    for name, ours in _OURS.items():
        if f"{key}.".startswith(f"{name}."):
            raise ConfigError(f"{key} has no effect here; {ours} does that")
    if key.startswith(_BY_HYDRA):
        raise ConfigError(f"{key} is written by Hydra itself; leave it out")
    if override.is_sweep_override():
        raise ConfigError(f"{key} is one for a whole sweep; give it one value, and start one sweep for each")
    is_open = _find(override, settings)
    value = plain_value(override)
    if is_open and not override.is_add() and OmegaConf.select(settings, key) is None:
        raise ConfigError(f"{key}: this place takes any name, which is added with a '+': +{key}={_written(override)}")
    least = None if is_open else _LEAST.get(key.rpartition(".")[2])
    is_free = str(OmegaConf.select(settings, "hydra.launcher._target_", default="")) in _FREE
    if least is not None and not is_free and isinstance(value, int | float) and not value >= least:
        raise ConfigError(f"{key}={value}: it should be at least {least}")
    if override.is_add() and not is_open:
        raise ConfigError(f"{key} is there already; leave out the '+': {key}={_written(override)}")
    try:
        OmegaConf.update(settings, key, value, force_add=True)
    except OmegaConfBaseException as error:
        raise ConfigError(f"{key}={_written(override)}: {_type_rule(str(error), key)}") from None


def _find(override: Override, settings: DictConfig) -> bool:
    """Whether the key lies in a place that takes any name. Raises ConfigError where it is unknown."""
    key, node, walked = override.key_or_group, settings, ""
    for part in key.split("."):
        if not isinstance(node, DictConfig):
            raise _unknown(override, settings)
        if _takes_any_name(node):
            return True
        if part not in node:
            raise _unknown(override, settings)
        walked = f"{walked}.{part}".lstrip(".")
        node = node._get_node(part)
        if node is None or (isinstance(node, DictConfig) and (node._is_none() or node._is_missing())):
            return walked != key
    if isinstance(node, DictConfig) and not _takes_any_name(node):
        first = next((name for name in hydra_keys(settings) if name.startswith(f"{key}.")), None)
        raise ConfigError(f"{key} is a section of settings" + (f", such as {first}" if first else ""))
    return False


def _meant(override: Override, settings: DictConfig) -> str | None:
    """The way out of a key that nobody reads: a near one that takes the value that was given; None where none is."""
    for name in _alike(override.key_or_group, [*hydra_keys(settings), *_OURS])[:MOST_TRIED]:
        if name in _OURS:
            return f"; {name} has no effect here: {_OURS[name]} does that"
        try:
            _check_key(replace(override, key_or_group=name, type=OverrideType.CHANGE), deepcopy(settings))
        except ConfigError:
            continue
        return f"; did you mean {name!r}?"
    return None


def _unknown(override: Override, settings: DictConfig) -> ConfigError:
    key = override.key_or_group
    said = _meant(override, settings)
    section = next(
        part for part in _sections_above(key) if part == "hydra" or OmegaConf.select(settings, part) is not None
    )
    siblings = [name.removeprefix(f"{section}.") for name in hydra_keys(settings) if name.startswith(f"{section}.")]
    more = ", ..." if len(siblings) > MOST_NAMED else ""
    others = (
        f"; {section} has {', '.join(siblings[:MOST_NAMED])}{more}"
        if siblings
        else f"; {section} has no settings as it is chosen"
    )
    kind = ConfigError if said else UnknownKey
    return kind(f"unknown setting {key!r}" + (said or others))


def _sections_above(key: str) -> Iterator[str]:
    while key := key.rpartition(".")[0]:
        yield key


def _alike(key: str, names: Sequence[str]) -> list[str]:
    """Those whose last part is much like that of the key, the likeliest first."""
    leaf = _leaf(key)
    likely = [name for name in near(key, names) if name in names]
    return [name for name in likely if SequenceMatcher(None, leaf, _leaf(name)).ratio() >= LEAST_LIKENESS]


def _leaf(name: str) -> str:
    return name.rpartition(".")[2]


def _takes_any_name(node: DictConfig) -> bool:
    return OmegaConf.get_type(node) is dict and node._get_parent() is not None


def _names_under(node: Any, prefix: str) -> Iterator[str]:
    for name in list(node.keys()):
        child = node._get_node(name)
        full = f"{prefix}.{name}"
        if str(name).startswith("_"):
            continue
        is_there = isinstance(child, DictConfig) and not child._is_none() and not child._is_missing()
        if is_there and len(child) and not _takes_any_name(child):
            yield from _names_under(child, full)
        else:
            yield full


def _type_rule(message: str, key: str) -> str:
    first = message.splitlines()[0]
    for theirs, ours in {
        "converted to Integer": "it should be a whole number",
        "converted to Float": "it should be a number",
        "valid bool": "it should be true or false",
        "converted to string": "it should be text",
    }.items():
        if theirs in first:
            return ours
    if "is not a ListConfig" in first:
        return f"it should be a list: {key}=[...]"
    if "Invalid value" in first and "expected one of" in first:
        return "it should be one of " + first.partition("expected one of ")[2].strip("[]").replace("'", "")
    return first


def _written(override: Override) -> str:
    return override.get_value_element_as_str()
