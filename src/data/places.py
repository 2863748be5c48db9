"""Where a path leads that a user typed."""

from __future__ import annotations

import os
from pathlib import Path


def resolved(path: str, launch_dir: Path) -> Path:
    """The absolute form; a relative path starts at the folder where the command was typed, ~ at home."""
    return Path(os.path.abspath(launch_dir / os.path.expanduser(path)))
