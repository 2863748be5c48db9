import io
import sys
from pathlib import Path

import pytest

from src.training.sinks import wandb_mirror


def run_command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["wandb_mirror", *arguments])
    with pytest.raises(SystemExit) as ending:
        wandb_mirror.main()
    assert isinstance(ending.value.code, int)
    return ending.value.code


def test_a_folder_without_a_record_is_named_and_the_exit_code_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(monkeypatch, str(tmp_path)) == 1
    assert f"{tmp_path}: failed: {tmp_path} holds no record.json" in capsys.readouterr().out


def test_without_a_folder_the_command_explains_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(monkeypatch) == 2
    assert "name at least one run folder" in capsys.readouterr().err


def test_the_lines_of_a_stream_end_with_none() -> None:
    lines = wandb_mirror.lines_of(io.StringIO("one\ntwo\n"))
    assert [lines.get(timeout=10) for _ in range(3)] == ["one\n", "two\n", None]
