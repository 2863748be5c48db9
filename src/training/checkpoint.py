"""Checkpoints: plain tensors and plain values, saved whole or not at all, loaded by torch's safe default."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from src.errors import RunError
from src.record import CHECKPOINT

FORMAT = 1


def save_checkpoint(folder: Path, content: dict[str, Any]) -> Path:
    """Replaces the folder's checkpoint by rename; the last good one stays until the new one is on disk.

    Raises OSError where it cannot be written.
    """
    path = folder / CHECKPOINT
    temporary = folder / f".{CHECKPOINT}.{os.getpid()}.tmp"
    try:
        with temporary.open("wb") as file:
            torch.save({"format": FORMAT, **content}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except RuntimeError as error:
        # Of a full disk torch says only that its archive has an unexpected position.
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise
    finally:
        temporary.unlink(missing_ok=True)
    return path


def load_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The folder's checkpoint on the CPU, or null where none was saved yet.

    Raises RunError where the file is damaged or of another format.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of a damaged file torch raises whatever its bytes happen to mean
        raise RunError(f"{path} cannot be loaded ({error!r}); delete it to start this run anew") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        got = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise RunError(f"{path} has format {got}; this code reads {FORMAT}")
    return content
