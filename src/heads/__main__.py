"""Heads from inside: `python -m src.heads roles RUN`, and what goes before it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from src.attention_kinds import registered
from src.errors import ConfigError, DataError, UserError, fail
from src.heads.show import draw, random_weights, trained_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="What attention heads compute, do and are worth: of random weights, or of a run.",
)
Json = Annotated[bool, typer.Option("--json", help="The numbers as JSON.")]
Layer = Annotated[int | None, typer.Option(help="Only this layer, counted from 0.")]
Seed = Annotated[int, typer.Option(min=0, help="Which random weights.")]


@contextmanager
def mistakes_in_one_line() -> Iterator[None]:
    """A mistake of the user ends the command with one line and exit code 2."""
    try:
        yield
    except UserError as error:
        fail(error)


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar on standard error while something is measured; small models want one thread, not all."""
    from rich.console import Console
    from rich.progress import Progress

    from src.training.runtime import thread_count

    with thread_count(1), Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("measuring", total=total)
        yield lambda what: bar.update(task, advance=1, description=what)


def counts_of(written: str) -> list[int]:
    """The whole numbers of a comma list. Raises ConfigError for anything else."""
    if not all(part.strip().isdecimal() and int(part) > 0 for part in written.split(",")):
        raise ConfigError(f"--keep {written}: it should be whole numbers of at least 1, such as 4,2,1")
    return [int(part) for part in written.split(",")]


def check_picture(out: Path | None) -> None:
    """Raises ConfigError, before anything is measured, for a picture that could not be written."""
    if out is not None and out.suffix not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"--out {out}: a picture ends in .png, .svg or .pdf")


def save_picture(figure: Figure, out: Path) -> None:
    """Writes it, and the folder that it lies in."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out)
    except OSError as error:
        raise ConfigError(f"--out {out} cannot be written: {error}") from None


@app.command()
def example(as_json: Json = False) -> None:
    """Two heads on three tokens, written out number by number."""
    from src.heads.example import as_dict, written

    print(json.dumps(as_dict(), indent=2) if as_json else written())


@app.command()
def inside(
    run: Annotated[Path | None, typer.Argument(help="A run's folder; without one, a layer of the sizes below.")] = None,
    d_model: Annotated[int | None, typer.Option(min=1, help="Width of the layer (200).")] = None,
    heads: Annotated[int | None, typer.Option(min=1, help="Query heads (5).")] = None,
    kv_heads: Annotated[int | None, typer.Option(min=1, help="Key/value heads (as many as heads).")] = None,
    tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of a sequence (32).")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Sequences.")] = 128,
    memory_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens of another sequence, which keys and values come from.")
    ] = None,
    causal: Annotated[
        bool, typer.Option("--causal", help="Each token sees only itself and what is before it.")
    ] = False,
    wrong_scale: Annotated[
        bool, typer.Option("--wrong-scale", help="What scaling scores by the whole width does.")
    ] = False,
    layer: Annotated[int | None, typer.Option(help="Of a run: which layer, counted from 0 (0).")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Every stage of one layer of attention with its shape: the layer's own intermediates.

    python -m src.heads inside --d-model 200 --heads 5 --tokens 32 --memory-tokens 50
    """
    from src.heads.inside import inside_of_run, inside_of_sizes

    sizes = {"--d-model": d_model, "--heads": heads, "--kv-heads": kv_heads, "--memory-tokens": memory_tokens}
    given = [f"{name} {value}" for name, value in sizes.items() if value is not None]
    given += [name for name, is_given in (("--causal", causal), ("--wrong-scale", wrong_scale)) if is_given]
    with mistakes_in_one_line():
        if run is not None and given:
            raise ConfigError(f"{' '.join(given)} with the run {run}: the run decides; leave one of the two out")
        if run is None and layer is not None:
            raise ConfigError(
                f"--layer {layer} without a run: there is one layer; name a run's folder, or leave it out"
            )
        if run is not None:
            shown = inside_of_run(run, layer or 0, batch, tokens)
        else:
            shown = inside_of_sizes(
                d_model or 200,
                heads or 5,
                kv_heads,
                tokens or 32,
                batch,
                memory_tokens,
                is_causal=causal,
                shows_wrong_scale=wrong_scale,
                seed=seed,
            )
        print(json.dumps(shown.as_dict(), indent=2) if as_json else "\n".join(shown.lines()))


@app.command()
def roles(
    run: Annotated[Path, typer.Argument(help="A finished run's folder.")],
    layer: Layer = None,
    sequences: Annotated[int, typer.Option(min=2, help="Held-out sequences, evenly spread.")] = 128,
    nulls: Annotated[int, typer.Option(min=19, help="Random models that a role must stand clear of.")] = 99,
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option(help="Draws the picture to this file (.png, .svg).")] = None,
) -> None:
    """What each head does and is worth: scores, roles, redundancy, ranks, and the loss without it.

    python -m src.heads roles runs/<group>/<run_id> --out roles.png
    """
    from src.heads.inside import check_layer
    from src.heads.trained import open_run

    with mistakes_in_one_line():
        check_picture(out)
        trained = open_run(run)
        check_layer(trained.loaded.geometry, layer)
        from src.heads.report import report_of
        from src.heads.table import role_lines

        with progress(trained.loaded.geometry.layers + nulls + 1) as tick:
            found = report_of(trained, sequences, nulls, tick)
        print(json.dumps(found.as_dict(layer), indent=2) if as_json else "\n".join(role_lines(found, layer)))
        if out is not None:
            from src.heads.picture import draw_roles

            save_picture(draw_roles(found, layer), out)
            print(f"picture  {out}", file=sys.stderr if as_json else sys.stdout)


@app.command()
def prune(
    run: Annotated[Path, typer.Argument(help="A finished run's folder, of tokens.")],
    keep: Annotated[str, typer.Option(help="Heads that each layer keeps; a comma list, such as 8,4,2,1.")],
    by: Annotated[str, typer.Option(help="How heads are chosen: ablation, gradient or random.")] = "ablation",
    retrain_steps: Annotated[int, typer.Option(min=0, help="Training steps of each pruned model.")] = 0,
    sequences: Annotated[int, typer.Option(min=2, help="Sequences that heads are chosen and judged on.")] = 128,
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option(help="Draws the curve to this file (.png, .svg).")] = None,
) -> None:
    """Train fewer heads, or prune to fewer: loss against kept heads, beside runs trained with so many.

    Each pruned model is a run of its own, runs/<group>-pruned/<run_id>.

    python -m src.heads prune runs/<group>/<run_id> --keep 4,2,1 --retrain-steps 100
    """
    from src.heads.trained import open_run

    with mistakes_in_one_line():
        check_picture(out)
        keeps = counts_of(keep)
        ways = ("ablation", "gradient", "random")
        if by not in ways:
            raise ConfigError(f"--by {by}: choose one of {', '.join(ways)}")
        trained = open_run(run)
        from src.heads.prune import prune_run
        from src.heads.prune_show import curve_dict, curve_lines, draw_curve

        g = trained.loaded.geometry
        with progress((g.heads - 1) * g.layers + len(keeps)) as tick:
            curve = prune_run(trained, keeps, by, retrain_steps, sequences, tick)
        print(json.dumps(curve_dict(curve), indent=2) if as_json else "\n".join(curve_lines(curve)))
        if out is not None:
            save_picture(draw_curve(curve), out)
            print(f"picture  {out}", file=sys.stderr if as_json else sys.stdout)


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
    layer: Layer = None,
    out: Annotated[Path, typer.Option(help="The picture to write.")] = Path("heads.png"),
) -> None:
    """Draws each head's attention map: a row a token that looks, a column a token that is looked at."""
    choices = {"heads": heads, "kv_heads": kv_heads, "model": model, "attention": attention, "seed": seed}
    chosen = [f"{name}={value}" for name, value in choices.items() if value is not None]
    with mistakes_in_one_line():
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


if __name__ == "__main__":
    app(prog_name="python -m src.heads")
