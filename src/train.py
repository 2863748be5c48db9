"""Trains one model: `python -m src.train heads=8`; with -m, one for each combination of values."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from src.errors import ConfigError, UserError
from src.geometry import Geometry
from src.settings import CONF_DIR, check_overrides, config_of, fail, register_root
from src.training.stop import StopFlag

if TYPE_CHECKING:
    from src.training.plan import Result

EXIT_CODES = {"finished": 0, "interrupted": 130, "preempted": 143}


class JobError(Exception):
    """One job of several did not finish; its record says why."""


def main() -> None:
    """The command. Exit codes: 0 finished, 1 failed, 2 a setting is wrong, 130 interrupted, 143 preempted."""
    try:
        check_overrides(sys.argv[1:])
        _refuse_several_processes()
    except UserError as error:
        fail(error)
    register_root()
    job()


@hydra.main(config_path=str(CONF_DIR), config_name="config", version_base="1.3")
def job(composed: DictConfig) -> None:
    """One job, as Hydra calls it."""
    is_one_of_many = HydraConfig.get().mode == RunMode.MULTIRUN
    with StopFlag() as stop:
        try:
            config = config_of(composed)
            Geometry.of(config)  # refused before torch is imported
            from src.training.command import execute

            _leave(execute(config, Path(HydraConfig.get().runtime.cwd), stop), is_one_of_many)
        except UserError as error:
            if is_one_of_many:
                raise
            fail(error)


def _leave(result: Result, is_one_of_many: bool) -> None:
    status = result.record.status
    if status == "finished":
        return
    if is_one_of_many and status not in EXIT_CODES:
        raise JobError(f"{result.record.run_id} ended as {status}; see {result.folder}")
    raise SystemExit(EXIT_CODES.get(status, 1))


def _refuse_several_processes() -> None:
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        raise ConfigError(
            f"started as one of {world} processes (WORLD_SIZE={world}, torchrun?): a run is one process; "
            "start it without torchrun, and several runs with -m"
        )


if __name__ == "__main__":
    main()
