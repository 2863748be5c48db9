"""Looking at heads: `python -m src.heads show --text "To be, or not to be"`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from src.attention_kinds import registered
from src.errors import ConfigError, DataError, UserError, fail
from src.heads.show import draw, random_weights, trained_weights

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, help="Looking at the heads of a run, or of random weights."
)


@app.callback()
def commands() -> None:
    """Keeps `show` a command of its own: more will stand beside it."""


@app.command()
def show(
    run: Annotated[Path | None, typer.Argument(help="A run's folder; without one, random weights.")] = None,
    text: Annotated[str, typer.Option(help="What the heads look at.")] = "To be, or not to be",
    heads: Annotated[int | None, typer.Option(help="Query heads of the random weights (4).")] = None,
    kv_heads: Annotated[
        int | None, typer.Option(help="Key/value heads of the random weights (as many as heads).")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Size of the random weights: an option of conf/model (nano).")
    ] = None,
    attention: Annotated[
        str | None, typer.Option(help=f"{' or '.join(registered())}, for the random weights (grouped).")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Which random weights (0).")] = None,
    layer: Annotated[int | None, typer.Option(help="Only this layer, counted from 0.")] = None,
    out: Annotated[Path, typer.Option(help="The picture to write.")] = Path("heads.png"),
) -> None:
    """Draws each head's attention map: a row a token that looks, a column a token that is looked at."""
    choices = {"heads": heads, "kv_heads": kv_heads, "model": model, "attention": attention, "seed": seed}
    chosen = [f"{name}={value}" for name, value in choices.items() if value is not None]
    try:
        if not text:
            raise DataError("an empty text has nothing to look at; give --text at least one character")
        if run is None:
            source, network, vocabulary = random_weights(text, chosen)
        elif chosen:
            raise ConfigError(
                f"{' '.join(chosen)} with the run {run}: the run decides; leave them out, or leave the run out"
            )
        else:
            source, network, vocabulary = trained_weights(run)
        print(draw(network, vocabulary, text, source, layer, out))
    except UserError as error:
        fail(error)


if __name__ == "__main__":
    app(prog_name="python -m src.heads")
