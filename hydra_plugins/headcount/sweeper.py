"""Hydra's door to sweeps: with -m or a file of sweeps/, the whole grid is planned, checked and then run."""

# No `from __future__ import annotations`: Hydra loads this file without listing it in sys.modules, where dataclasses
# would look its annotations up.
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf


@dataclass
class SweeperConf:
    _target_: str = "hydra_plugins.headcount.sweeper.HeadcountSweeper"
    params: dict[str, Any] | None = None
    pairs: list[str] = field(default_factory=list)


ConfigStore.instance().store(group="hydra/sweeper", name="headcount", node=SweeperConf, provider="headcount")


class HeadcountSweeper(Sweeper):
    """Runs what is missing of a grid and leaves by SystemExit, with the sweep's exit code.

    `params`: a sweep file's lists, name -> values. `pairs`: paired lists of the command line.
    """

    def __init__(self, params: dict[str, Any] | None = None, pairs: Sequence[str] = ()) -> None:
        self._params, self._pairs = params, list(pairs)
        self._context: HydraContext | None = None
        self._config: DictConfig | None = None
        self._launcher: Launcher | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        from hydra.core.plugins import Plugins

        self._context, self._config = hydra_context, config
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        assert self._context is not None
        assert self._config is not None
        assert self._launcher is not None
        from src.errors import UserError, fail
        from src.sweeps.grid import compose_with
        from src.sweeps.run import sweep

        params = OmegaConf.to_container(OmegaConf.create(self._params or {}), resolve=True)
        try:
            code = sweep(
                arguments=[*arguments, *self._pairs],
                params=params if isinstance(params, dict) else {},  # pyright: ignore[reportArgumentType]
                compose=compose_with(self._context.config_loader, self._config),
                launcher=self._launcher,
                launch_dir=Path(os.getcwd()),
                command=sys.argv[1:],
            )
        except UserError as error:
            fail(error)
        raise SystemExit(code)
