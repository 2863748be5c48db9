"""From the command line to a checked `Config`: Hydra composes conf/, `src.config` judges.

Hydra itself lets `+head=4` through and trains with the default, and speaks of lexers where a quote is missing; here
every word is read and every name looked up first, before a folder is made or anything heavy is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from src import ROOT
from src.arguments import is_paired, obstacle, other_forms, parsed, parts, typed
from src.config import Config, setting_names, settings_of_kind
from src.errors import ConfigError, did_you_mean, first_line
from src.hydra_settings import check_hydra
from src.origins import let_the_command_line_win, origins
from src.usual_names import OTHERWISE, near

_REFUSALS = (HydraException, OmegaConfBaseException, ValueError)
"""What Hydra raises for words that it does not compose: a ValueError where a group is given a number."""
CONF_DIR = ROOT / "conf"
MOST_TRIED = 3
"""Names, or ways to write a value, that are tried before an error says that it knows none."""


@cache
def groups() -> dict[str, list[str]]:
    """The config groups and their options, read from conf/ (and sweeps/)."""
    found = {path.name: _options(path) for path in CONF_DIR.iterdir() if path.is_dir()}
    found["sweeps"] = _options(ROOT / "sweeps")
    return found


def check_overrides(arguments: Sequence[str], several: bool = True) -> None:
    """Refuses an override that cannot be read, or whose setting, group or option does not exist, however it is written.

    `several`: lists are for many runs, as in a sweep. Raises ConfigError with the way out: a name or a form that was
    tried and works beside the other arguments.
    """
    words = [word for word in arguments if not word.startswith("-") and not is_paired(word)]
    known_groups = groups()
    overrides = []
    for word in words:
        _check_name(word, words, known_groups)
        override = _read(word, words)
        _check_choice(word, override, words, known_groups, several)
        overrides.append(override)
    _check_kinds(overrides)
    check_hydra(overrides, _choices(overrides, words), _with_hydra, _hydra_options)


def config_of(composed: DictConfig, overrides: Sequence[str] | None = None) -> Config:
    """The checked configuration of what Hydra composed of `overrides`; without them it knows no origins."""
    try:
        values: Any = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(f"the settings cannot be resolved: {first_line(error)}") from None
    for not_a_setting in ("experiment", "sweeps"):
        values.pop(not_a_setting, None)
    config = Config.of(values)
    if overrides is None:
        return config
    return config.came_from(origins([parsed(word) for word in overrides], groups(), config.model_dump()))


def compose(overrides: Sequence[str] = ()) -> Config:
    """The configuration of some overrides, composed in this process; for tests, notebooks and planning."""
    check_overrides(overrides, several=False)
    return config_of(composed(overrides), overrides)


def composed(overrides: Sequence[str]) -> DictConfig:
    """What Hydra composes of some overrides, not yet judged. Raises ConfigError where it cannot."""
    with _hydra_ready() as hydra_compose:
        try:
            settings = hydra_compose("config", overrides=list(overrides))
        except _REFUSALS as error:
            raise _cannot_be_composed(error, overrides) from None
    OmegaConf.set_struct(settings, False)
    settle(settings, overrides)
    return settings


def settle(settings: DictConfig, overrides: Sequence[str]) -> None:
    """Lets the command line win over the files of an experiment or a sweep, in place."""
    let_the_command_line_win(settings, [parsed(word) for word in overrides], groups())


def register_root() -> None:
    """Makes ${root:} known to Hydra's search path, so that sweeps/ is found from any folder."""
    OmegaConf.register_new_resolver("root", lambda: str(ROOT), replace=True)


def unknown_setting(name: str, words: Sequence[str] = (), also_known: Iterable[str] = ()) -> ConfigError:
    """The error for a setting that does not exist; a name that it suggests works with the value that was given."""
    known = [*setting_names(), *also_known, "hydra/launcher", "hydra/sweeper"]
    leaf = name.rpartition(".")[2].lower()
    if leaf in OTHERWISE:
        example, meaning = OTHERWISE[leaf]
        return ConfigError(f"unknown setting {name!r}; here it is {example} ({meaning})")
    others = [word for word in words if parts(word)[1] != name]
    value = next((parts(word)[2] for word in words if parts(word)[1] == name), None)
    troubles = []
    for meant in list(near(name, known))[:MOST_TRIED]:
        for extra in ([], ["hydra/launcher=processes"] if meant.startswith("hydra.launcher") else []):
            trouble = _trouble([*others, *extra], f"{meant}={value}") if value is not None else None
            if trouble is None:
                also = f" (with {extra[0]})" if extra else ""
                return ConfigError(f"unknown setting {name!r}; did you mean {meant!r}?{also}")
            troubles.append((meant, trouble))
    for meant, trouble in troubles[:1]:
        if trouble.startswith(f"{meant}="):  # the name is right, the value is not
            return ConfigError(f"unknown setting {name!r}; did you mean {meant!r}? Then {trouble}")
    return ConfigError(f"unknown setting {name!r}; --help lists the settings")


def _check_name(word: str, words: Sequence[str], known_groups: dict[str, list[str]]) -> None:
    _, key, value = parts(word)
    group = key.partition("@")[0].lstrip("/")
    if key.startswith(("hydra.", "hydra/")) or key == "hydra":
        return
    if key not in known_groups and group in known_groups:
        raise ConfigError(f"{word}: a group is chosen by its name alone: {group}={value or known_groups[group][0]}")
    if key == "sweep" and value is not None:
        raise unknown_setting(key, words, known_groups)
    if key not in known_groups and key not in set(setting_names()):
        raise unknown_setting(key, words, known_groups)


def _read(word: str, words: Sequence[str]) -> Override:
    try:
        return parsed(word)
    except HydraException:
        others = [other for other in words if other != word]
        seen: set[str] = set()
        for form in other_forms(word):
            if form not in seen and len(seen) < MOST_TRIED and _trouble(others, form) is None:
                raise ConfigError(f"{word} cannot be read: {obstacle(word)}; write {typed(form)}") from None
            seen.add(form)
        raise ConfigError(f"{word} cannot be read: {obstacle(word)}{_rule_of(word, others)}") from None


def _rule_of(word: str, others: Sequence[str]) -> str:
    """What the value should be, where no way of writing it will do."""
    _, key, _ = parts(word)
    trouble = _trouble(others, f"{key}='?'")
    rule = (trouble or "").partition(": it should")
    return f"; {key} {'should' + rule[2]}" if rule[1] else ""


def _check_choice(
    word: str, override: Override, words: Sequence[str], known_groups: dict[str, list[str]], several: bool
) -> None:
    prefix, key, value = parts(word)
    options = known_groups.get(override.key_or_group)
    if override.is_hydra_override() or override.is_delete():
        return
    if prefix and options is not None and override.type != OverrideType.CHANGE:
        if _trouble([w for w in words if w != word], f"{key}={value}") is None:
            raise ConfigError(f"{word}: a group is chosen without {prefix}: {typed(f'{key}={value}')}")
    elif override.is_add() and not override.is_force_add() and _is_there(key, words, word):
        raise ConfigError(f"{word}: {key} is there already; leave out the {prefix}: {typed(f'{key}={value}')}")
    if override.is_sweep_override() and not several:
        raise ConfigError(_a_list(word, override, words))
    is_glob = override.is_sweep_override() and not (override.is_choice_sweep() or override.is_range_sweep())
    if options is None:
        if "glob(" in (value or "") and override.is_choice_sweep() and not hasattr(override.value(), "list"):
            raise ConfigError(
                f"{word}: glob() is for the options of a group; list the values of {key}, as in {key}=1,2"
            )
        return
    if is_glob:
        return
    for option in _single_values(override):
        if isinstance(option, list) or (option is not None and str(option) not in {"null", *options}):
            raise ConfigError(
                f"{key}={_as_typed(option)}: no such option{did_you_mean(str(option), options)}; "
                f"choose one of {', '.join(options)}"
            )


def _single_values(override: Override) -> Iterator[Any]:
    if not override.is_sweep_override():
        yield _bare(override.value())
    elif override.is_choice_sweep() and hasattr(override.value(), "list"):
        yield from map(_bare, override.sweep_iterator())


def _bare(value: Any) -> Any:
    return getattr(value, "text", value)


def _as_typed(value: Any) -> str:
    return "[" + ",".join(map(_as_typed, value)) + "]" if isinstance(value, list) else str(value)


def _is_there(key: str, words: Sequence[str], word: str) -> bool:
    beside = [other for other in words if other != word]
    return _trouble(beside, f"{key}={parts(word)[2]}", or_alone=False) is None


def _a_list(word: str, override: Override, words: Sequence[str]) -> str:
    others = [other for other in words if other != word]
    said = f"{word} lists values, and this is one run; add -m for a run of each"
    _, key, value = parts(word)
    for form in other_forms(word):
        if form.endswith(("'", '"')) and _trouble(others, form) is None:
            return f"{said}, or quote the text: {typed(form)}"
    bracketed = f"{key}=[{value}]"
    if _trouble(others, bracketed) is None:
        return f"{said}, or write one list: {typed(bracketed)}"
    return said


def _check_kinds(overrides: Sequence[Override]) -> None:
    """Refuses data=copy data.stride=3: Hydra would speak of a key that is not in a struct."""
    kinds = [_single_values(override) for override in overrides if override.key_or_group == "data"]
    for kind in [str(value) for values in kinds for value in values]:
        settings = settings_of_kind("data", kind)
        for override in overrides:
            section, _, name = override.key_or_group.partition(".")
            if settings is not None and section == "data" and name and name not in settings:
                raise ConfigError(
                    f"{override.key_or_group} is no setting of data={kind}; leave it out, or choose another data "
                    f"(data={kind} has {', '.join(sorted(set(settings) - {'name'}))})"
                )


def _trouble(others: Sequence[str], word: str, or_alone: bool = True) -> str | None:
    """Why a word does not work beside the readable ones of the others, or alone; None where it does."""
    beside = [other for other in others if _is_known(other)]
    trouble = None
    for words in ([*beside, word], [word]) if beside and or_alone else ([*beside, word],):
        try:
            override = parsed(word)
            check_hydra([override], _choices([parsed(each) for each in words], words), _with_hydra, _hydra_options)
            single = [each for each in words[:-1] if _is_single(parsed(each))]
            for value in _each(override, word):
                config_of(composed([*single, value]))
        except HydraException:
            return "it cannot be read"
        except ConfigError as error:
            trouble = trouble or first_line(error)
        else:
            return None
    return trouble


def _is_single(override: Override) -> bool:
    return not override.is_sweep_override() and not override.key_or_group.startswith("hydra.")


def _each(override: Override, word: str) -> list[str]:
    if not override.is_sweep_override():
        return [word]
    if not override.is_discrete_sweep() or "glob(" in word:
        raise ConfigError("no list of values")
    return [f"{override.key_or_group}={text}" for text in list(override.sweep_string_iterator())[:MOST_TRIED]]


def _is_known(word: str) -> bool:
    try:
        key = parsed(word).key_or_group
    except HydraException:
        return False
    return key.startswith("hydra") or key in groups() or key in set(setting_names())


def _choices(overrides: Sequence[Override], words: Sequence[str]) -> list[str]:
    """The words that choose files, single options alone."""
    known = groups()
    return [
        word
        for word, override in zip(words, overrides, strict=True)
        if (override.key_or_group in known or override.key_or_group in ("hydra/launcher", "hydra/sweeper"))
        and not override.is_sweep_override()
    ]


@contextmanager
def _hydra_ready() -> Iterator[Any]:
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    register_root()
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        yield hydra_compose


def _with_hydra(choices: Sequence[str]) -> DictConfig:
    with _hydra_ready() as hydra_compose:
        try:
            return hydra_compose("config", overrides=list(choices), return_hydra_config=True)
        except _REFUSALS as error:
            raise _cannot_be_composed(error, choices) from None


def _hydra_options(group: str) -> list[str]:
    from hydra.core.global_hydra import GlobalHydra

    with _hydra_ready():
        return sorted(GlobalHydra.instance().config_loader().get_group_options(group))


def _cannot_be_composed(error: Exception, overrides: Sequence[str]) -> ConfigError:
    said = first_line(error).rstrip(".")
    return ConfigError(f"the settings cannot be composed ({' '.join(overrides)}): {said}")


def _options(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml"))
