"""`python -m src.bench heads=16 kv_heads=1,4,16 context_length=1024`: does sharing kv-heads pay in decoding?"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from src.config import Config
from src.errors import ConfigError, UserError, fail
from src.geometry import Geometry
from src.io_spec import TokenSpec
from src.sweeps.grid import grid

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
DEFAULTS = {"heads": "heads=8", "kv_heads": "kv_heads=1,2,8", "context_length": "context_length=512"}


@app.command()
def main(
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings as in src.train, with comma lists for what varies.")
    ] = None,
    batch: Annotated[str, typer.Option(help="Sequences decoded at once; a comma list.")] = "1",
    decode_tokens: Annotated[int, typer.Option(min=1, help="Tokens decoded at the end of the context.")] = 32,
    rounds: Annotated[int, typer.Option(min=1, help="Counted rounds; each arm has a turn in each.")] = 5,
    vocabulary_size: Annotated[int, typer.Option(min=1, help="Tokens in the vocabulary.")] = 65,
    as_json: Annotated[Path | None, typer.Option("--json", help="Writes the rows to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Writes the picture to this file (.png, .svg).")] = None,
) -> None:
    """Measures prefill and decode with random weights, turn by turn, beside code that repeats keys and values.

    python -m src.bench heads=16 kv_heads=1,4,16 context_length=1024 --batch 1,8 --plot decode.png

    python -m src.bench attention=latent,grouped heads=8 context_length=1024 device=cuda
    """
    asked = list(overrides or [])
    given = {override.partition("=")[0] for override in asked}
    if not given & set(DEFAULTS):
        asked += DEFAULTS.values()
    try:
        run(list(grid(asked)), _counts(batch), decode_tokens, rounds, vocabulary_size, as_json, plot)
    except UserError as error:
        fail(error)


def run(
    configs: list[Config],
    batches: list[int],
    decode_tokens: int,
    rounds: int,
    vocabulary_size: int,
    as_json: Path | None,
    picture: Path | None,
) -> None:
    """Measures, prints the table, and writes what was asked for."""
    from src.bench.measure import make_arms, measure, read_bandwidth
    from src.bench.show import mixed_kernels, plot, table
    from src.model.kernel_report import check_kernel
    from src.training.runtime import choose_runtime, thread_count

    console, first = Console(highlight=False), configs[0]
    runtime = choose_runtime(first, Geometry.of(first), TokenSpec(vocabulary_size))
    for config in configs:
        check_kernel(config.attention_kernel, runtime.device, runtime.torch_dtype, Geometry.of(config))
    with thread_count(runtime.threads), Progress(console=console, transient=True) as progress:
        arms = list(make_arms(configs, runtime, vocabulary_size, batches))
        task = progress.add_task("warming up", total=len(arms) * (rounds + 1))
        bandwidth = read_bandwidth(runtime, time.perf_counter)
        rows = measure(
            arms,
            decode_tokens=decode_tokens,
            rounds=rounds,
            bandwidth=bandwidth,
            clock=time.perf_counter,
            tick=lambda what: progress.update(task, advance=1, description=what),
        )
    console.print(table(rows, bandwidth))
    warning = mixed_kernels(rows)
    if warning:
        console.print(f"note: {warning}")
    if as_json is not None:
        content = {"read_bandwidth_bytes_per_second": bandwidth, "rows": [row.as_dict() for row in rows]}
        as_json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        console.print(f"rows     {as_json}")
    if picture is not None:
        plot(rows, picture)
        console.print(f"picture  {picture}")


def _counts(written: str) -> list[int]:
    try:
        counts = [int(part) for part in written.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise ConfigError(f"--batch {written}: it should be whole numbers of at least 1, such as 1 or 1,8")
    return counts


if __name__ == "__main__":
    app(prog_name="python -m src.bench")
