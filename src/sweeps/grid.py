"""What a sweep's command varies (Hydra's comma lists, and lists of settings that vary together), and its points.

heads=1,2,4 seed=range(3)                    two axes: 9 points
"(heads,kv_heads)=(8,8),(8,2),(8,1)"         one axis of two settings: 3 points
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from src.arguments import parsed
from src.compose import check_overrides, composed, config_of, groups, settle
from src.config import Config
from src.errors import ConfigError, first_line
from src.origins import COMMAND_LINE

PAIRS_KEY = "hydra.sweeper.pairs"
_PAIRED = re.compile(r"^\((?P<names>[\w.]+(?:\s*,\s*[\w.]+)+)\)=(?P<values>.*)$", re.DOTALL)
_FILE = "sweeps/{}.yaml"
_ONE_FOR_ALL = ("group", "runs_dir", "resume", "sweeps", "sweep", "hydra")


@dataclass(frozen=True)
class Choice:
    """One value of a setting: as an override writes it, and as the configuration holds it."""

    text: str
    value: Any


@dataclass(frozen=True)
class Axis:
    """Settings that vary together: the names, and for each position along the axis one choice a name."""

    names: tuple[str, ...]
    positions: tuple[tuple[Choice, ...], ...]


@dataclass(frozen=True)
class Request:
    """What a sweep's command asks for: overrides that hold for all jobs, and the axes along which jobs differ."""

    fixed: tuple[str, ...]
    axes: tuple[Axis, ...]
    of_file: frozenset[str] = frozenset()
    """The settings whose lists are the sweep file's own."""


def hide_pairs(arguments: Sequence[str]) -> list[str]:
    """The arguments with paired lists put where Hydra's grammar can carry them.

    >>> hide_pairs(["-m", "(heads,kv_heads)=(8,8),(8,1)", "seed=0"])
    ['-m', 'seed=0', "hydra.sweeper.pairs=['(heads,kv_heads)=(8,8),(8,1)']"]
    """
    pairs = [argument for argument in arguments if _PAIRED.match(argument)]
    if not pairs:
        return list(arguments)
    quoted = ",".join("'" + pair.replace("'", "\\'") + "'" for pair in pairs)
    return [argument for argument in arguments if argument not in pairs] + [f"{PAIRS_KEY}=[{quoted}]"]


def read_request(arguments: Sequence[str], params: Mapping[str, Any] | None = None) -> Request:
    """Reads a sweep's own lists (`params`, as in a sweep file) and the command's arguments, which win.

    A setting that stands in a paired list and on the command line leaves the pair and varies as the command says.
    Raises ConfigError for what is unknown, unreadable, given twice, or must be the same for all jobs.
    """
    listed = [f"{name}={_written(values)}" for name, values in (params or {}).items()]
    check_overrides(listed)
    check_overrides(arguments)
    of_file = [read for argument in listed for read in _read(argument)]
    of_command = [read for argument in arguments for read in _read(argument)]
    _refuse_repeated_lists(of_command)
    given = {name for names, _, _ in of_command for name in names}
    merged = [narrowed for read in of_file if (narrowed := _without(read, given)) is not None] + of_command
    fixed = tuple(line for _, line, axis in merged if axis is None and line)
    axes = tuple(axis for _, _, axis in merged if axis is not None)
    for axis in axes:
        _refuse_one_for_all(axis)
    return Request(fixed, axes, frozenset(name for read in of_file for name in read[0] if name not in given))


_Read = tuple[tuple[str, ...], str, Axis | None]


def _read(argument: str) -> Iterator[_Read]:
    paired = _PAIRED.match(argument)
    if paired:
        names = tuple(name.strip() for name in paired["names"].split(","))
        yield names, "", _paired(names, paired["values"])
        return
    override = parsed(argument)
    name = override.key_or_group
    value = override.value() if override.is_sweep_override() else None
    if isinstance(value, Glob):
        options = tuple((Choice(option, option),) for option in value.filter(groups()[name]))
        yield (name,), "", Axis((name,), options)
        return
    if not override.is_sweep_override():
        yield (name,), argument, None
        return
    if not override.is_discrete_sweep():
        raise ConfigError(f"{argument}: a sweep runs listed values; write a list such as {name}=1,2,4 or a range")
    yield (name,), "", Axis((name,), tuple((choice,) for choice in _choices(override)))


def _paired(names: tuple[str, ...], values: str) -> Axis:
    check_overrides([f"{name}=null" for name in names])
    written = f"({','.join(names)})={values}"
    if len(set(names)) < len(names):
        raise ConfigError(f"{written} names a setting twice")
    try:
        override = parsed("pair=" + values.replace("(", "[").replace(")", "]"))
    except HydraException:
        example = f"({','.join(names)})=({','.join('1' for _ in names)}),({','.join('2' for _ in names)})"
        raise ConfigError(f"{written} cannot be read; write {example}") from None
    rows: list[Any] = list(override.sweep_iterator()) if override.is_sweep_override() else [override.value()]
    for row in rows:
        if not isinstance(row, list) or len(row) != len(names):
            raise ConfigError(
                f"{written}: {row} is not one value for each of {', '.join(names)}; "
                f"write ({','.join(names)})=({','.join('1' for _ in names)}),..."
            )
    return Axis(names, tuple(tuple(map(_choice, row)) for row in rows))


def _choices(override: Override) -> Iterator[Choice]:
    for text, value in zip(override.sweep_string_iterator(), override.sweep_iterator(), strict=True):
        yield Choice(text, _plain(value))


def _choice(value: Any) -> Choice:
    return Choice(Override._get_value_element_as_str(value), _plain(value))


def _plain(value: Any) -> Any:
    return getattr(value, "text", value)  # Hydra keeps the quotes of 'a text' beside it


def _written(values: Any) -> str:
    if isinstance(values, list | tuple):
        return ",".join(_written(value) for value in values)
    if values is None or isinstance(values, bool):
        return {None: "null", True: "true", False: "false"}[values]
    return str(values)


def _without(read: _Read, given: set[str]) -> _Read | None:
    """What is left of a file's list when the command line gives some of its settings itself."""
    names, line, axis = read
    kept = [k for k, name in enumerate(names) if name not in given]
    if len(kept) == len(names):
        return read
    if not kept or axis is None:
        return None
    rest = tuple(names[k] for k in kept)
    return rest, line, Axis(rest, tuple(tuple(position[k] for k in kept) for position in axis.positions))


def _refuse_repeated_lists(reads: Sequence[_Read]) -> None:
    # Of a single value the last one counts, as ever; of lists one would be lost without a word.
    names = Counter(name for read in reads for name in read[0])
    for read_names, _, axis in reads:
        for name in read_names:
            if axis is not None and names[name] > 1:
                raise ConfigError(f"{name} is given twice; give one list, such as {name}=1,2,4")


def _refuse_one_for_all(axis: Axis) -> None:
    for name in axis.names:
        if name.partition(".")[0] in _ONE_FOR_ALL:
            raise ConfigError(f"{name} is one for a whole sweep; give it one value, and start one sweep for each")


Compose = Callable[[Sequence[str]], DictConfig]
"""Composes the settings of some overrides; raises ConfigError where they cannot be composed."""


def compose_with(loader: ConfigLoader, master: DictConfig) -> Compose:
    """Composes as Hydra's launchers do for a job of this multirun."""

    def compose(overrides: Sequence[str]) -> DictConfig:
        try:
            composed = loader.load_sweep_config(master, list(overrides))
        except (HydraException, OmegaConfBaseException) as error:
            raise ConfigError(f"the settings cannot be composed: {first_line(error)}") from None
        OmegaConf.set_struct(composed, False)
        del composed["hydra"]
        settle(composed, overrides)
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
    listed = {name: _FILE.format(_sweep_of(request)) for name in request.of_file}
    composed: dict[tuple[str, ...], _Composed] = {}
    for positions in product(*(axis.positions for axis in request.axes)):
        choices = {
            name: choice
            for axis, position in zip(request.axes, positions, strict=True)
            for name, choice in zip(axis.names, position, strict=True)
        }
        chosen = tuple(f"{name}={choice.text}" for name, choice in choices.items() if name in group_names)
        if chosen not in composed:
            composed[chosen] = _Composed.of(compose, [*request.fixed, *chosen])
        values = {name: choice.value for name, choice in choices.items() if name not in group_names}
        yield _point(choices, composed[chosen], values, {name: listed.get(name, COMMAND_LINE) for name in choices})


@dataclass
class _Composed:
    """The settings that some points share, or why there are none; and where the values came from, once it is known."""

    overrides: list[str]
    settings: DictConfig | ConfigError
    origins: Mapping[str, str] | None = None

    @classmethod
    def of(cls, compose: Compose, overrides: list[str]) -> _Composed:
        try:
            return cls(overrides, compose(overrides))
        except ConfigError as error:
            return cls(overrides, error)


def _sweep_of(request: Request) -> str:
    return next((word.partition("=")[2] for word in request.fixed if word.lstrip("+").startswith("sweeps=")), "")


def _point(choices: dict[str, Choice], shared: _Composed, values: dict[str, Any], places: Mapping[str, str]) -> Point:
    if isinstance(shared.settings, ConfigError):
        return Point(choices, None, str(shared.settings))
    # In place: every point sets the same names, so nothing of the last one is left.
    for name, value in values.items():
        OmegaConf.update(shared.settings, name, value, force_add=True)
    try:
        config = config_of(shared.settings, shared.overrides if shared.origins is None else None)
    except ConfigError as error:
        return Point(choices, None, str(error))
    if shared.origins is None:
        shared.origins = config.origins
    return Point(choices, config.came_from({**shared.origins, **places}))


def grid(overrides: Sequence[str]) -> Iterator[Config]:
    """The configurations of all combinations, the last list varying fastest; paired lists as in a sweep.

    Raises ConfigError for what is unknown, ill-typed or not readable.
    """
    for point in points(read_request(overrides), composed):
        if point.config is None:
            raise ConfigError(point.reason or f"{point.overrides} cannot be")
        yield point.config
