"""What to say of a launcher that is asked for and not installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from src.errors import ConfigError

OURS = ("local", "processes", "slurm", "ray")
_OTHERS = {
    "joblib": ("hydra_joblib_launcher", "hydra-joblib-launcher", "processes"),
    "submitit_slurm": ("hydra_submitit_launcher", "hydra-submitit-launcher", "slurm"),
    "submitit_local": ("hydra_submitit_launcher", "hydra-submitit-launcher", "processes"),
    "ray_aws": ("hydra_ray_launcher", "hydra-ray-launcher", "ray"),
}


def refuse_missing_launcher(arguments: Sequence[str]) -> None:
    """Raises ConfigError, with the install command, for a known launcher whose package is not there."""
    for argument in arguments:
        key, _, name = argument.lstrip("+").partition("=")
        if key != "hydra/launcher" or name not in _OTHERS:
            continue
        module, package, ours = _OTHERS[name]
        if find_spec("hydra_plugins") is None or find_spec(f"hydra_plugins.{module}") is None:
            raise ConfigError(
                f"hydra/launcher={name} needs the package {package}, which is not installed: pip install {package}; "
                f"hydra/launcher={ours} does the same work here (all of ours: {', '.join(OURS)})"
            )
