"""`python -m src.audit heads=1,2,4,8 regime=equal_params`: what a comparison holds equal, before training it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, RenderableType

from src.audit.memory import Asked, Plan, plans
from src.audit.memory import plot as draw_plans
from src.audit.memory import tables as plan_tables
from src.audit.published import as_dict, models
from src.audit.published import tables as published_tables
from src.audit.rows import Refused, Row, audit
from src.audit.table import tables
from src.errors import ConfigError, UserError, fail
from src.geometry import Geometry
from src.memory import parse_bytes
from src.published import Published
from src.sweeps.grid import grid

ALL_HEADS = "heads=range(1,17)"

app = typer.Typer(add_completion=False)


@app.command()
def main(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Settings as in src.train, with comma lists; heads are 1 to 16 unless given."),
    ] = None,
    vocabulary_size: Annotated[int, typer.Option(min=1, help="Tokens in the vocabulary; 65: tinyshakespeare.")] = 65,
    as_json: Annotated[bool, typer.Option("--json", help="Rows as JSON: exact integers and the reasons.")] = False,
    published: Annotated[
        str | None, typer.Option(help="Published models instead, by name, with commas: llama3_70b,gpt2.")
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Plan for a device of this size, such as 80GiB.")] = None,
    batch: Annotated[str, typer.Option(help="With --memory: sequences served at once; a comma list.")] = "1",
    context: Annotated[
        str | None, typer.Option(help="With --memory: tokens of context; a comma list. The model's own unless given.")
    ] = None,
    cache_dtype: Annotated[str, typer.Option(help="With --memory: fp16, bf16, fp8, fp32; a comma list.")] = "fp16",
    plot: Annotated[Path | None, typer.Option(help="With --memory: writes the picture to this file.")] = None,
) -> None:
    """Shows what every head count costs beside the reference, what is held equal, and what cannot be met.

    python -m src.audit regime=equal_params

    python -m src.audit heads=8 kv_heads=8,2,1 regime=equal_cache,equal_cost model=mini

    python -m src.audit attention=latent latent_dim=32,64,128 heads=8 --json

    python -m src.audit --published llama3_70b,deepseek_v2_lite,gpt2

    python -m src.audit --published llama3_8b --memory 80GiB --batch 1,8,64 --context 2048,32768 --cache-dtype fp16,fp8
    """
    asked = list(overrides or [])
    try:
        if published is not None and asked:
            raise ConfigError(f"{' '.join(asked)} with --published: its shapes are final; leave out one of the two")
        chosen = None if published is None else models(published)
        if memory is None:
            _refuse_without_memory(batch, context, cache_dtype, plot)
            rows = None if chosen else _audited(asked, vocabulary_size)
        else:
            wanted = Asked.read(parse_bytes(memory, "--memory"), batch, context, cache_dtype)
            rows = plans(_shapes(asked, chosen, vocabulary_size), wanted)
            if plot is not None:
                draw_plans(rows, plot)
    except UserError as error:
        fail(error)
    _show(rows, chosen, vocabulary_size, as_json)
    if plot is not None and not as_json:
        print(f"picture  {plot}")


def _audited(asked: list[str], vocabulary_size: int) -> list[Row | Refused]:
    return audit(grid(asked if _gives_heads(asked) else [*asked, ALL_HEADS]), vocabulary_size)


def _shapes(
    asked: list[str], chosen: Sequence[Published] | None, vocabulary_size: int
) -> Iterator[tuple[str, Geometry, int]]:
    """Name, shape and vocabulary of what a device is planned for: the head counts that were asked, or the model's."""
    for model in chosen or ():
        yield model.name, model.geometry, model.vocabulary_size
    for config in grid(asked) if chosen is None else ():
        geometry = Geometry.of(config)
        yield f"{config.model.name}, heads={geometry.heads}", geometry, vocabulary_size


def _show(
    rows: Sequence[Row | Refused] | Sequence[Plan] | None,
    chosen: Sequence[Published] | None,
    vocabulary_size: int,
    as_json: bool,
) -> None:
    if as_json:
        plain = [as_dict(model) for model in chosen or ()] if rows is None else [row.as_dict() for row in rows]
        print(json.dumps(plain, indent=2))
    else:
        console = Console()
        for part in _parts(rows, chosen, vocabulary_size, console.width):
            console.print(part)
    if rows is not None and all(isinstance(row, Refused) for row in rows):
        raise typer.Exit(2)


def _parts(
    rows: Sequence[Row | Refused] | Sequence[Plan] | None,
    chosen: Sequence[Published] | None,
    vocabulary_size: int,
    width: int,
) -> Iterator[RenderableType]:
    if rows is None:
        return published_tables(chosen or ())
    planned = [row for row in rows if isinstance(row, Plan)]
    audited = [row for row in rows if not isinstance(row, Plan)]
    return plan_tables(planned) if planned else tables(audited, vocabulary_size, width)


def _gives_heads(asked: list[str]) -> bool:
    return any(override.lstrip("+").startswith("heads=") for override in asked)


def _refuse_without_memory(batch: str, context: str | None, cache_dtype: str, plot: Path | None) -> None:
    given = {"--batch": batch != "1", "--context": context, "--cache-dtype": cache_dtype != "fp16", "--plot": plot}
    named = [option for option, is_given in given.items() if is_given]
    if named:
        raise ConfigError(f"{', '.join(named)} without --memory: a device is planned for; add --memory, such as 80GiB")


if __name__ == "__main__":
    app(prog_name="python -m src.audit")
