"""`python -m src.export runs/<group> --out exports/<name>`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from src.errors import UserError, fail
from src.export.read import Source, read_group
from src.export.write import summary, write_export

WANDB = "wandb:"


def main(
    source: Annotated[
        str,
        typer.Argument(
            help="runs/<group>; or a folder of W&B's offline run files; or wandb:<entity>/<project> for its server"
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="the export's folder; exports/<group> by default")] = None,
    from_wandb: Annotated[bool, typer.Option("--from-wandb", help="read W&B's files even where records lie")] = False,
    group: Annotated[str | None, typer.Option(help="of a W&B project: the runs of this group alone")] = None,
) -> None:
    """Writes runs and steps of a group as parquet and CSV, with a manifest that accounts for every planned run."""
    try:
        read = _read(source, from_wandb, group)
        name = group or source.removeprefix(WANDB).rstrip("/").rpartition("/")[2]
        target = out if out is not None else Path("exports") / name
        manifest = write_export(read, target)
    except UserError as error:
        fail(error)
    for line in summary(manifest):
        typer.echo(line)
    typer.echo(f"{target}\nnext: python -m analysis.report {target}")


def _read(source: str, from_wandb: bool, group: str | None) -> Source:
    if source.startswith(WANDB):
        from src.export.wandb_runs import read_project

        return read_project(source.removeprefix(WANDB), group)
    from src.export.wandb_runs import holds_only_wandb, read_files

    folder = Path(source)
    return read_files(folder) if from_wandb or holds_only_wandb(folder) else read_group(folder)


if __name__ == "__main__":
    typer.run(main)
