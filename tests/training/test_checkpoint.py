"""Checkpoints are whole or not there, and load with torch's safe default."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path

import pytest
import torch

from src.errors import RunError
from src.training.checkpoint import load_checkpoint, load_run, save_checkpoint
from src.training.folder import claim
from tests.processes import Forked
from tests.training.conftest import Trained


def test_a_run_checkpoint_loads_with_the_safe_default(trained: Trained) -> None:
    folder = trained().folder
    content = torch.load(folder / "checkpoint.pt")  # weights_only is torch's default
    assert content["state"]["step"] == 12
    loaded = load_run(folder)
    assert loaded.step == 12
    assert not loaded.model.training
    assert loaded.vocabulary.decode(loaded.vocabulary.encode("heads")) == "heads"


def test_a_damaged_or_foreign_checkpoint_is_refused_by_name(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path) is None
    (tmp_path / "checkpoint.pt").write_bytes(b"half of")
    with pytest.raises(RunError, match=r"checkpoint\.pt cannot be loaded"):
        load_checkpoint(tmp_path)
    torch.save({"format": 99}, tmp_path / "checkpoint.pt")
    with pytest.raises(RunError, match="format 99"):
        load_checkpoint(tmp_path)


def test_a_save_that_fails_keeps_the_last_good_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, {"value": 1})

    def full(content: object, file: object) -> None:
        file.write(b"some bytes")  # pyright: ignore[reportAttributeAccessIssue]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(tmp_path, {"value": 2})
    content = load_checkpoint(tmp_path)
    assert content is not None
    assert content["value"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.pt"]


def save_for_ever(folder: Path) -> None:
    for number in count():
        save_checkpoint(folder, {"value": torch.full((200_000,), number)})


def test_kills_at_random_moments_of_saving_leave_a_loadable_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for number in range(4):
        child = Forked(save_for_ever, folder)
        deadline = time.monotonic() + 60
        while not (folder / "checkpoint.pt").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.5 + 0.037 * number)
        child.kill()
        child.wait()
        content = load_checkpoint(folder)
        assert content is not None
        assert len(set(content["value"].tolist())) == 1
    claim(tmp_path, "run", "auto").release()
    assert not list(folder.glob("*.tmp")), "what a killed save left is removed at the next start"


def test_a_folder_without_a_run_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="has no checkpoint yet"):
        load_run(tmp_path)
    with pytest.raises(RunError, match="does not exist"):
        load_run(tmp_path / "nothing")
