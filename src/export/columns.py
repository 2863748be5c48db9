"""Which columns a table has and of what type. Decided by what src declares, never by what the values look like.

integer   64 bits: 8 is never 8.0 or "8"         flag   true or false
number    64-bit float, NaN and Infinity kept    text   also a setting that takes words and numbers ("auto" or 2)
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from src.config import Config, decides_result, sections
from src.costs import Costs
from src.geometry import Geometry
from src.metrics import METRICS, declared

Kind = Literal["integer", "number", "flag", "text"]
Columns = dict[str, Kind]

_RUN: Columns = {
    "run_id": "text",
    "group": "text",
    "status": "text",
    "seed": "integer",
    "heads": "integer",
    "kv_heads": "integer",
    "head_dim": "integer",
    "context_length": "integer",
    "regime": "text",
    "attention": "text",
    "latent_dim": "integer",
    "rope_dim": "integer",
    "attention_kernel": "text",
    "data_hash": "text",
    "config_hash": "text",
    "started_at": "text",
    "ended_at": "text",
    "segments": "integer",
    "error": "text",
    "parent": "text",
}
_CODE: Columns = {"version": "text", "source_hash": "text", "commit": "text", "uncommitted_hash": "text"}
_DATA: Columns = {
    "name": "text",
    "source": "text",
    "train_tokens": "integer",
    "val_tokens": "integer",
    "bytes_per_token": "number",
    "vocabulary_size": "integer",
    "vocabulary_hash": "text",
}
_ENVIRONMENT: Columns = {
    "python": "text",
    "platform": "text",
    "host": "text",
    "cpu_count": "integer",
    "launcher": "text",
    "device": "text",
    "device_name": "text",
    "dtype": "text",
    "autocast": "flag",
    "loss_scaling": "flag",
    "fused_optimizer": "flag",
    "compile": "flag",
    "threads": "integer",
    "micro_batch_size": "integer",
    "deterministic": "flag",
    "prefill_attention_kernel": "text",
    "decode_attention_kernel": "text",
    "packages.torch": "text",
    "packages.numpy": "text",
}
"""What of a run's surroundings may explain a number; process ids and command lines differ in any two runs."""

FORMER = {
    **{f"config.{name}": name for name in ("heads", "context_length", "attention", "seed", "group")},
    **{f"geometry.{name}": name for name in ("heads", "kv_heads", "head_dim", "context_length", "attention", "regime")},
    **{f"costs.{name}": f"cost/{name}" for name in ("parameters", "attention_parameters", "flops_per_token")},
    "data.hash": "data_hash",
}
"""Columns of older exports that repeated another one, which alone is left: former name -> the name that stays."""

_ONLY_OF_LATENT = {"geometry.latent_dim", "geometry.rope_dim"}  # latent_dim and rope_dim, but 0 where there is none
_OF_A_PLAN = {"config.sweep.control", "config.sweep.varying", "config.sweep.pilot"}
"""What a sweep asks for as a whole: the manifest's plans tell it."""
NO_COLUMNS = FORMER.keys() | _ONLY_OF_LATENT | _OF_A_PLAN

_WHOLE = {"bytes", "bytes/token", "tokens", "steps", "FLOPs/token"}


def run_columns() -> Columns:
    """Every column of the table of runs, in its order. They are all there, however few have values."""
    columns: Columns = {
        **_RUN,
        **{f"config.{name}": kind for name, kind in _settings(Config)},
        **{f"geometry.{name}": kind for name, kind in _fields_of(Geometry)},
        "geometry.attention_width": "integer",
        **{f"costs.{name}": kind for name, kind in _fields_of(Costs)},
        **{name: metric_kind(name) for name in METRICS},
        **{f"data.{name}": kind for name, kind in _DATA.items()},
        **{f"code.{name}": kind for name, kind in _CODE.items()},
        **{f"environment.{name}": kind for name, kind in _ENVIRONMENT.items()},
    }
    return {name: kind for name, kind in columns.items() if name not in NO_COLUMNS}


def identity(columns: Columns) -> list[str]:
    """The settings among these columns that decide a result: what runs are recognised by, and alike in if compared."""
    own = [name for name in columns if f"config.{name}" in FORMER and decides_result(name)]
    written = [name.removeprefix("config.") for name in columns if name.startswith("config.")]
    return [*own, *filter(decides_result, written), "data_hash"]


def step_columns(logged: set[str]) -> Columns:
    """The columns of the table of steps: where a row belongs, then each declared metric that some run logged."""
    places: Columns = {"run_id": "text", "step": "integer", "segment": "integer", "time": "number"}
    of_layers = sorted((name for name in logged - METRICS.keys() if declared(name)), key=_by_layer)
    names = [*(name for name in METRICS if name in logged), *of_layers]
    return {**places, **{name: metric_kind(name) for name in names}}


def _by_layer(name: str) -> tuple[int, int]:
    """By layer, then in the order of declaration: heads/layer_2/entropy before heads/layer_10/entropy."""
    _, layer, number = name.split("/")
    return int(layer.removeprefix("layer_")), list(METRICS).index(f"heads/{number}")


def metric_kind(name: str) -> Kind:
    """The type of a declared metric.

    >>> metric_kind("cache/bytes"), metric_kind("cost/parameters"), metric_kind("val/loss")
    ('integer', 'integer', 'number')
    """
    metric = declared(name)
    assert metric is not None, f"{name} is not declared"
    counted = metric.unit in _WHOLE or name.endswith("parameters")
    return "integer" if counted else "number"


def _settings(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Kind]]:
    found: dict[str, set[Kind]] = {}
    for name, kind in _declared(section, prefix):
        found.setdefault(name, set()).add(kind)
    for name, kinds in found.items():
        yield name, kinds.pop() if len(kinds) == 1 else "text"  # kinds of data may disagree on a setting


def _declared(section: type[BaseModel], prefix: str) -> Iterator[tuple[str, Kind]]:
    for name, field in section.model_fields.items():
        inner = list(sections(field.annotation))
        for kind in inner:
            yield from _declared(kind, f"{prefix}{name}.")
        if not inner:
            yield prefix + name, _kind_of(field.annotation)


def _fields_of(declared: type[Any]) -> Iterator[tuple[str, Kind]]:
    hints = get_type_hints(declared)
    for field in fields(declared):
        yield field.name, _kind_of(hints[field.name])


def _kind_of(annotation: Any) -> Kind:
    leaves = set(_leaves(annotation)) - {type(None)}
    if leaves == {int}:
        return "integer"
    if leaves <= {int, float}:
        return "number"
    return "flag" if leaves == {bool} else "text"


def _leaves(annotation: Any) -> Iterator[Any]:
    """The plain types that a value may have: of `int | Literal["auto"] | None`, int, str and NoneType."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _leaves(get_args(annotation)[0])
    elif origin is Literal:
        yield from (type(value) for value in get_args(annotation))
    elif origin in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _leaves(member)
    else:
        yield origin or annotation
