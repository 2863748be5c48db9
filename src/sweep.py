"""`python -m src.sweep status runs/<group>`: how a sweep stands; `... retry runs/<group>`: what failed, once more."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from src.errors import RunError, UserError, fail
from src.sweep_file import read_plans
from src.sweeps.status import Group, status_table

REFRESH_S = 2.0

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
GroupFolder = Annotated[Path, typer.Argument(help="A sweep's folder: runs/<group>.", show_default=False)]


@app.command()
def status(
    group: GroupFolder,
    once: Annotated[bool, typer.Option("--once", help="Show it once, also on a terminal.")] = False,
) -> None:
    """Shows each arm's states and losses, what runs now and how far, what failed and why, and the time left.

    On a terminal the table stays up to date until nothing runs any more, or Ctrl-C.
    """
    console, watched = Console(), Group(group)
    try:
        runs = watched.look()
        if once or not console.is_terminal or not any(run.state == "running" for run in runs):
            console.print(status_table(group, runs))
            return
        with Live(status_table(group, runs), console=console, auto_refresh=False) as live:
            while any(run.state == "running" for run in runs):
                time.sleep(REFRESH_S)
                runs = watched.look()
                live.update(status_table(group, runs), refresh=True)
    except KeyboardInterrupt:
        return
    except UserError as error:
        fail(error)


@app.command()
def retry(group: GroupFolder) -> None:
    """Gives the sweep's own command again, and with it failed and diverged jobs, however often they failed.

    Where several commands planned runs into the folder, each is given again. The exit code is the highest of theirs.
    """
    try:
        plans = read_plans(group)
        if not plans:
            raise RunError(f"{group} holds no sweep.json; name a sweep's folder (runs/<group>)")
    except UserError as error:
        fail(error)
    codes = []
    for plan in plans:
        arguments = [word for word in plan["command"] if not word.startswith(("sweep.retry=", "sweep.dry_run="))]
        command = [sys.executable, "-m", "src.train", *arguments, "sweep.retry=true"]
        codes.append(subprocess.run(command, cwd=plan["launch_dir"], check=False).returncode)
    raise typer.Exit(max(codes))


if __name__ == "__main__":
    app(prog_name="python -m src.sweep")
