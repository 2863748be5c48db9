"""Trains one model: `python -m src.train heads=8`; with -m, one for each combination of values."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from src.arguments import parsed, split
from src.compose import CONF_DIR, check_overrides, composed, config_of, register_root, settle
from src.config import Config
from src.errors import ConfigError, UserError, exit_code, fail
from src.geometry import Geometry
from src.recommend.rules import head_width_note
from src.record import Record, settings_text
from src.training.stop import StopFlag

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from src.sweeps.job import Outcome


class JobError(Exception):
    """One job of several did not finish; its record says why."""


def main() -> None:
    """The command. Its exit code says how it ended (`src.errors`); of several runs, the worst."""
    from src.sweeps.grid import hide_pairs
    from src.sweeps.launchers import refuse_missing_launcher

    try:
        flags, overrides = split(hide_pairs(sys.argv[1:]))
        refuse_missing_launcher(overrides)
        check_overrides(overrides, several=_asks_for_several(flags, overrides))
        _refuse_several_processes()
        if not _needs_hydra(flags, overrides):
            config = config_of(composed(overrides), overrides)
            if "--cfg" in flags:
                print(settings_text(config.model_dump(), config.origins), end="")
                return
            _start(config, Path.cwd())
        composed([word for word in overrides if _is_of_each_run(word)])  # what Hydra would refuse in words of its own
    except UserError as error:
        fail(error)
    sys.argv[1:] = [*flags, *overrides]
    _hand_to_hydra()


def _asks_for_several(flags: Sequence[str], overrides: Sequence[str]) -> bool:
    chosen = {word.lstrip("+").partition("=")[0]: word.partition("=")[2] for word in overrides}
    has_sweep_file = chosen.get("sweeps", "null") != "null"
    return bool({"-m", "--multirun"} & set(flags)) or has_sweep_file or chosen.get("hydra.mode") == "MULTIRUN"


def _needs_hydra(flags: Sequence[str], overrides: Sequence[str]) -> bool:
    """Whether something is asked that Hydra's own command has: several runs, its flags, its settings."""
    own = any(word.lstrip("+~").startswith("hydra") or "${hydra" in word for word in overrides)
    return own or _asks_for_several(flags, overrides) or list(flags) not in ([], ["--run"], ["-r"], ["--cfg", "job"])


def _is_of_each_run(word: str) -> bool:
    override = parsed(word)
    return not override.is_sweep_override() and not override.is_hydra_override() and "${hydra" not in word


def _hand_to_hydra() -> None:
    import hydra

    register_root()
    hydra.main(config_path=str(CONF_DIR), config_name="config", version_base="1.3")(job)()


def job(composed: DictConfig) -> str | None:
    """One job, as Hydra calls it: the only one, or one of many under a launcher that is not ours."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf import OmegaConf

    own = HydraConfig.get()
    launch_dir, overrides = Path(own.runtime.cwd), list(own.overrides.task)
    OmegaConf.set_struct(composed, False)
    try:
        settle(composed, overrides)
        config = config_of(composed, overrides)
        if own.mode == RunMode.MULTIRUN:
            return _one_of_many(config, launch_dir)
        _start(config, launch_dir)
    except UserError as error:
        if own.mode == RunMode.MULTIRUN:
            raise
        fail(error)


def _start(config: Config, launch_dir: Path) -> NoReturn:
    """Runs one run, refused before torch is imported. Raises UserError."""
    if config.sweep.dry_run:
        raise ConfigError("sweep.dry_run=true plans a sweep, and this is one run; add -m, or leave it out")
    note = head_width_note(Geometry.of(config).head_dim)
    if note is not None:
        print(note)
    _single(config, launch_dir)


def _single(config: Config, launch_dir: Path) -> NoReturn:
    from src.training.plan import plan_run

    with StopFlag() as stop:
        plan = plan_run(config, launch_dir)
        record = plan.finished_record()
        if record is not None:  # found before torch is imported
            _show_finished(record, plan.folder)
        else:
            from src.training.run import run
            from src.training.sinks import open_sinks

            record = run(plan, open_sinks, stop).record
    raise SystemExit(exit_code(record.status))


def _show_finished(record: Record, folder: Path) -> None:
    from rich.console import Console

    from src.training.sinks.console import print_ending

    console = Console()
    console.print("This run is finished; nothing is left to do. resume=never runs it again in a folder of its own.")
    print_ending(console, record, folder)


def _one_of_many(config: Config, launch_dir: Path) -> str:
    from src.sweeps.job import run_job
    from src.sweeps.plan import keep_data
    from src.sweeps.progress import open_job_sinks

    with StopFlag() as stop:
        outcome: Outcome = run_job(config, launch_dir, stop, keep_data(), open_job_sinks)
    if outcome.state not in ("finished", "running"):
        raise JobError(f"the job ended as {outcome.state}: {outcome.error}")
    return outcome.state


def _refuse_several_processes() -> None:
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        raise ConfigError(
            f"started as one of {world} processes (WORLD_SIZE={world}, torchrun?): a run is one process; "
            "start it without torchrun, and several runs with -m"
        )


if __name__ == "__main__":
    main()
