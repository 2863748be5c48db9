"""What is said of settings that are refused: what was got, the rule, and the way out, in a line for each setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from src.usual_names import near

if TYPE_CHECKING:
    from pydantic import ValidationError

_BOUNDS = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "greater than or equal to"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "less than or equal to"),
}
_KINDS = {"int_type": "a whole number", "float_type": "a number", "bool_type": "true or false", "string_type": "text"}


def lines(error: ValidationError, settings: Sequence[str]) -> Iterator[str]:
    """The lines of a refusal. `settings`: every setting there is, in dotted form."""
    parts = {part for name in settings for part in name.split(".")}
    rules: dict[tuple[str, str], dict[str, None]] = {}
    for problem in error.errors():
        # A union reports one problem for each of its members; the setting itself ends at the first of them.
        where = ".".join(str(part) for part in problem["loc"] if part in parts or isinstance(part, int))
        said = _whole_line(where, problem, settings)
        if said is not None:
            yield said
        else:
            rules.setdefault((where, repr(problem["input"])), {})[_rule(where, problem)] = None
    for (where, got), several in rules.items():
        first, *others = several
        rule = " or ".join([first, *(other.removeprefix("it should be ") for other in others)])
        yield f"{where}={got}: {rule}"


def _whole_line(where: str, problem: Mapping[str, Any], settings: Sequence[str]) -> str | None:
    """What is said of a setting or section that does not stand, or stands against another; None of a wrong value."""
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "extra_forbidden":
        return _extra(problem["loc"], settings)
    if kind == "union_tag_invalid":
        options = str(context.get("expected_tags")).replace("'", "")
        return f"{where}.name={context.get('tag')}: there is no such kind; choose one of {options}"
    if kind == "union_tag_not_found":
        return f"setting {where + '.name'!r} has no value; choose a kind with {where}=..."
    if kind == "missing":
        return f"setting {where!r} has no value; conf/ holds one for each setting (was it deleted?)"
    if kind in ("model_type", "model_attributes_type"):
        return f"{where}={problem['input']!r}: {where} is a section of settings, such as {_inside(where, settings)}"
    if kind == "value_error" and not str(context.get("error")).startswith("it should be "):
        return str(context.get("error"))
    return None


def _rule(where: str, problem: Mapping[str, Any]) -> str:
    kind, got, context = problem["type"], problem["input"], problem.get("ctx", {})
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"it should be {words} {_number(context[name])}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_type" and isinstance(got, bool | int | float):
        return f"it should be text; in quotes it is: \"{where}='{str(got).lower() if got in (True, False) else got}'\""
    if kind == "int_type" and isinstance(got, float) and got.is_integer():
        return f"it should be a whole number, written without a point or exponent: {where}={got:.0f}"
    if kind in _KINDS:
        return f"it should be {_KINDS[kind]}"
    return problem["msg"].replace("Input should", "it should")


def _number(limit: float) -> str:
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


def _inside(section: str, settings: Sequence[str]) -> str:
    return next((name for name in settings if name.startswith(f"{section}.")), section)


def _extra(location: tuple[int | str, ...], settings: Sequence[str]) -> str:
    """What to say of a setting that its section does not have; pydantic puts the section's kind before its name."""
    section, *kind, name = location if len(location) > 1 else ("", *location)
    full = f"{section}.{name}".lstrip(".")
    if full in settings:
        return (
            f"{full} is no setting of {section}={kind[0] if kind else '?'}; leave it out, or choose another {section}"
        )
    meant = next(iter(near(full, settings)), None)
    hint = f"did you mean {meant!r}?" if meant else "--help lists the settings"
    return f"unknown setting {full!r}; {hint}"
