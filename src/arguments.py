"""What is typed after a command: flags and overrides, and how a word that Hydra's grammar cannot read is written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from src.errors import ConfigError

_WITH_VALUE = {"--cfg", "-c", "--package", "-p"}
_ALONE = {"--help", "-h", "--hydra-help", "--version", "--resolve", "--run", "-r", "--multirun", "-m"}
_ALONE |= {"--shell-completion", "-sc"}
_INFO = {"--info", "-i"}
_INFO_KINDS = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
_ELSEWHERE = {"--config-path", "-cp", "--config-name", "-cn", "--config-dir", "-cd", "--experimental-rerun"}
_SHOWN = {"job", "hydra", "all"}
_PARTS = re.compile(r"^(?P<prefix>\+\+|\+|~)?(?P<key>[^=]*?)\s*(?:=(?P<value>.*))?$", re.DOTALL)
_PAIRED = re.compile(r"^\([\w.,\s]+\)=")
_CLOSES = {"(": ")", "[": "]", "{": "}"}


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The flags, with their values, and the overrides, whatever their order.

    Raises ConfigError for a flag that there is not, and for a word that is neither.

    >>> split(["heads=1,2", "-m", "seed=0", "--cfg", "job"])
    (['-m', '--cfg', 'job'], ['heads=1,2', 'seed=0'])
    """
    flags: list[str] = []
    overrides: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name = word.partition("=")[0]
        if name in _ELSEWHERE:
            raise ConfigError(f"{name} is not used here: put a file into {_place(name)}, and choose it as group=option")
        if not word.startswith("-") or word == "-":
            overrides.append(_with_equals(word, rest))
        elif word in _ALONE:
            flags.append(word)
        elif name in _WITH_VALUE:
            flags += _with_value(word, rest)
        elif name in _INFO:
            flags.append(word)
            if word in _INFO and rest and rest[0] in _INFO_KINDS:
                flags.append(rest.pop(0))
        else:
            raise ConfigError(_no_flag(word, rest))
    return flags, overrides


def parsed(argument: str) -> Override:
    """An override as Hydra reads it. Raises HydraException where it cannot."""
    return _parser().parse_override(argument)


@cache
def _parser() -> OverridesParser:
    return OverridesParser.create()


def is_readable(argument: str) -> bool:
    try:
        parsed(argument)
    except HydraException:
        return False
    return True


def parts(argument: str) -> tuple[str, str, str | None]:
    """Prefix (+, ++, ~ or nothing), key and value as they are typed; no value where there is no equals sign.

    >>> parts("++data.path=a=b"), parts("~seed")
    (('++', 'data.path', 'a=b'), ('~', 'seed', None))
    """
    match = _PARTS.match(argument)
    assert match is not None, "the pattern matches any text"
    return match["prefix"] or "", match["key"].strip(), match["value"]


def is_paired(argument: str) -> bool:
    """Whether it is a paired list, (heads,kv_heads)=(8,8),(8,1), which is no word of Hydra's."""
    return _PAIRED.match(argument) is not None


def obstacle(argument: str) -> str:
    """What stands in the way of reading a word, for people."""
    _, key, value = parts(argument)
    if value is None:
        return "it has no '='; write a setting and its value"
    if not re.fullmatch(r"[\w./@:-]+", key):
        return f"{key!r} cannot be the name of a setting"
    if (quote := _open_quote(value)) is not None:
        return f"the quote {quote} is not closed"
    if (bracket := _open_bracket(value)) is not None:
        return bracket
    if _has_empty_element(value):
        return "an element of the list is empty"
    foreign = next((letter for letter in value if not letter.isascii()), None)
    if foreign is not None:
        return f"its value holds {foreign!r}, a character outside ASCII, and stands in no quotes"
    marks = [mark for mark in "=,()[]{}'\":;&|<>#!$`^~" if mark in value]
    held = " and ".join(filter(None, [", ".join(repr(m) for m in marks[:-1]), *(repr(m) for m in marks[-1:])]))
    return f"its value holds {held or 'what has a meaning of its own'} and stands in no quotes"


def other_forms(argument: str) -> Iterator[str]:
    """Ways to write what cannot be read, the likeliest first; whether they do what was meant, nobody knows here."""
    prefix, key, value = parts(argument)
    if value is None:
        return
    start = f"{prefix}{key}="
    if argument != start + value:
        yield start + value
    if _has_empty_element(value) and _open_bracket(value) is None:
        yield start + re.sub(r"(,\s*)+", ",", value).strip(", ")
    if _open_quote(value) is not None and value[0] in "'\"":
        yield start + value + value[0]
    if _open_bracket(value) is not None and _open_quote(value) is None:
        yield start + _balanced(value)
    yield start + quoted(value.strip("'\"") if value[:1] in ("'", '"') else value)
    yield start + quoted(value)
    if value.startswith("="):
        yield start + value.lstrip("=")


def quoted(value: str) -> str:
    r"""A value in quotes that Hydra's grammar reads as this very text.

    >>> print(quoted("a=b.txt"), quoted("O'Brien"), quoted("5 $"))
    'a=b.txt' 'O\'Brien' "5 $"
    """
    # The inner quotes that leave the shell's double or single quotes for the outer ones.
    quote = '"' if set(value) & set('"!`$') and "'" not in value else "'"
    inner = re.sub(rf"(\\*){quote}", lambda found: found[1] * 2 + "\\" + quote, value)
    inner += "\\" * (len(inner) - len(inner.rstrip("\\")))
    return quote + inner.replace("${", "\\${") + quote


def typed(argument: str) -> str:
    """An argument as one types it in a shell.

    >>> print(typed("heads=8"), typed("data.path='a=b c.txt'"))
    heads=8 "data.path='a=b c.txt'"
    """
    if re.fullmatch(r"[\w./@:,=+~-]+", argument) and not argument.startswith("~"):
        return argument
    if not set(argument) & set('"$`!') and "\\\\" not in argument:
        return f'"{argument}"'
    return shlex.quote(argument)


def _with_equals(word: str, rest: Sequence[str]) -> str:
    if "=" in word or word.startswith("~") or is_paired(word):
        return word
    follows = rest[0] if rest and re.fullmatch(r"[\w.,-]+", rest[0]) else "8" if word == "heads" else "..."
    raise ConfigError(
        f"{word!r} has no '='; a setting is written as name=value"
        + (f": {word}={follows}" if word.isidentifier() else "")
    )


def _with_value(word: str, rest: list[str]) -> list[str]:
    name, has_equals, value = word.partition("=")
    if not has_equals:
        value = rest.pop(0) if rest else ""
    if name in ("--cfg", "-c") and value not in _SHOWN:
        raise ConfigError(f"{name} {value}: it should be job, hydra or all; --cfg job shows the settings of a run")
    return [name, value]


def _no_flag(word: str, rest: Sequence[str]) -> str:
    name, has_equals, value = word.lstrip("-").partition("=")
    if not has_equals and rest and not rest[0].startswith("-") and "=" not in rest[0]:
        value = rest[0]
    meant = f"{name.replace('-', '_')}={value}" if value else f"{name.replace('-', '_')}=..."
    return f"there is no flag {word.partition('=')[0]}; settings are written without dashes: {meant}"


def _place(flag: str) -> str:
    return "conf/<group>/" if "experimental" not in flag else "sweeps/ or conf/experiment/"


def _open_quote(value: str) -> str | None:
    """The quote that is opened and not closed."""
    quote, before = None, ""
    for letter in value:
        if letter in "'\"" and before != "\\":
            quote = letter if quote is None else None if quote == letter else quote
        before = letter
    return quote


def _outside_quotes(value: str) -> str:
    return re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", "''", value)


def _open_bracket(value: str) -> str | None:
    """What is wrong with the brackets; None where they are closed as they were opened."""
    waiting: list[str] = []
    for letter in _outside_quotes(value):
        if letter in _CLOSES:
            waiting.append(letter)
        elif letter in _CLOSES.values() and (not waiting or _CLOSES[waiting.pop()] != letter):
            return f"the bracket {letter} closes none"
    return f"the bracket {waiting[-1]} is not closed" if waiting else None


def _balanced(value: str) -> str:
    waiting: list[str] = []
    for letter in value:
        if letter in _CLOSES:
            waiting.append(_CLOSES[letter])
        elif waiting and letter == waiting[-1]:
            waiting.pop()
    return value + "".join(reversed(waiting))


def _has_empty_element(value: str) -> bool:
    return re.search(r"(^|[,(\[])\s*,|,\s*($|[)\]])", _outside_quotes(value)) is not None
