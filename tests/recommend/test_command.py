"""`python -m src.recommend` as it is typed: the answer first, one clear line for what cannot be, nothing written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from src.recommend.__main__ import app
from src.recommend.rules import RULES
from src.recommend.show import command_lines
from src.record import Record

SERVING = ["--parameters", "1B", "--d-model", "2048", "--context", "32768", "--memory", "24GiB"]


def recommend(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.stdout, result.stderr


def test_the_answer_is_the_first_thing_on_a_screen_of_80_columns() -> None:
    code, shown, _ = recommend(*SERVING)
    assert code == 0
    lines = shown.splitlines()
    assert lines[0].startswith("GQA: 16 heads share 4 keys and values")
    assert max(map(len, lines)) <= 80
    labels = [line.split()[0] for line in lines if line[:1].isalpha() and line[9:10] == " "]
    order = ["shape", "cache", "memory", "start", "hook", "measured", "nearest"]
    assert [label for label in labels if label in order] == order
    for command in ("src.train", "src.audit", "src.bench", "data=induction"):
        assert command in shown


def test_json_has_the_same_answer_in_integers() -> None:
    code, shown, _ = recommend(*SERVING, "--json")
    read = json.loads(shown)
    assert code == 0
    assert (read["status"], read["variant"], read["kv_heads"]) == ("recommended", "GQA", 4)
    assert read["cache_bytes"] == 2 * 4 * 128 * read["layers"] * 32768 * 2
    assert read["fits"] is True
    assert {case["variant"] for case in read["beside"]} == {"MHA", "GQA", "MQA", "MLA"}


def test_every_rule_is_listed_with_its_source() -> None:
    code, shown, _ = recommend("--rules")
    assert code == 0
    assert all(rule.name in shown for rule in RULES)
    listed = json.loads(recommend("--rules", "--json")[1])
    assert [rule["source"] for rule in listed] == [rule.source for rule in RULES]


def test_a_refused_proposal_shows_prices_and_ends_with_one_message() -> None:
    words = ["--parameters", "1B", "--context", "65536", "--propose", "heads=32,kv_heads=32"]
    code, shown, said = recommend(*words)
    assert code == 2
    assert said.startswith("error: MHA (heads=32")
    assert said.count("\n") == 1
    assert all(name in shown for name in ("MHA", "GQA", "MLA", "MQA"))
    code, shown, _ = recommend(*words, "--json")
    assert code == 2
    assert json.loads(shown)["refused"][0]["rule"] == "mha_long_context"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--parameters 1Q", "such as 350M or 1B"),
        ("--parameters 0", "above 0"),
        ("--parameters=-1B", "above 0"),
        ("--parameters 1B --memory 1GiB", "less than the weights"),
        ("--parameters 1B --memory 24", "with its unit"),
        ("--parameters 1B --d-model 1021", "--d-model 1024"),
        ("--parameters 1B --d-model 2042", "--d-model 2048"),
        ("--parameters 1B --d-model 16", "choose a multiple of 64"),
        ("--parameters 1B --d-model 64", "choose --d-model"),
        ("--parameters 10M --d-model 4096", "--d-model 896 or less"),
        ("--parameters 100M --d-model 99999999999999", "too few"),
        ("--parameters 20K", "a larger --parameters"),
        ("--parameters 1e30", "at most"),
        ("--parameters 1B --context 0", "such as 32768 or 32K"),
        ("--parameters 1B --batch 0", "whole number above 0"),
        ("--parameters 1B --layers 900", "choose up to 256"),
        ("--parameters 1B --priority speed", "inference or training"),
        ("--parameters 1B --cache-dtype int4", "fp16, bf16, fp8, fp32"),
        ("--parameters 1B --propose hed=32", "choose from heads, kv_heads"),
        ("--parameters 1B --propose kv_head=32", "did you mean 'kv_heads'?"),
        ("--parameters 1B --propose heads", "name=value"),
        ("--parameters 1B --propose heads=2,heads=4", "given twice"),
        ("--parameters 1B --propose attention=mla", "grouped, latent"),
        ("--parameters 1B --d-model 2048 --propose heads=12", "choose heads from 1, 2, 4, 8, 16"),
        ("--parameters 1B --propose heads=16,head_dim=64", "d_model = heads x head_dim"),
        ("--parameters 1B --propose heads=16,kv_heads=3", "choose one of 1, 2, 4, 8, 16"),
        ("--parameters 1B --propose attention=grouped,latent_dim=64", "only attention=latent has them"),
        ("--parameters 1B --out nowhere/answer.json", "choose another file"),
        ("", "give the parameter budget"),
    ],
)
def test_what_cannot_be_ends_in_one_line_and_writes_nothing(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, shown, error = recommend(*words.split())
    assert code == 2
    assert shown == ""
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error
    assert not any(tmp_path.iterdir())


def test_only_out_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert recommend(*SERVING)[0] == 0
    assert not any(tmp_path.iterdir())
    assert recommend(*SERVING, "--out", "answer.json")[0] == 0
    assert json.loads((tmp_path / "answer.json").read_text(encoding="utf-8"))["variant"] == "GQA"


def test_a_command_is_printed_so_that_it_can_be_pasted() -> None:
    command = "uv run python -m src.train " + " ".join(f"setting_{n}={n}" for n in range(20))
    lines = command_lines(command)
    assert max(map(len, lines)) <= 80
    assert " ".join(line.rstrip("\\").strip() for line in lines) == command


@pytest.mark.parametrize("words", [SERVING, ["--parameters", "1B", "--context", "64K"]], ids=["GQA", "MLA"])
def test_the_printed_train_line_runs_and_its_cache_has_the_bytes_of_the_answer(
    words: list[str], tmp_path: Path
) -> None:
    read = json.loads(recommend(*words, "--json")[1])
    printed = read["commands"]["train"].removeprefix("uv run python ").split()
    tiny = ["training.max_steps=2", "training.batch_size=2", "training.eval_batch_size=2048", "sample.tokens=0"]
    still = ["logger.mode=disabled", "training.threads=1", "measurement.decode_tokens=2", "measurement.repeats=1"]
    (tmp_path / "text.txt").write_text("To be, or not to be. " * 200, encoding="utf-8")
    data = ["data=text_file", "data.path=text.txt"]
    shorter = [word for word in printed if not word.startswith("training.max_steps")]
    done = subprocess.run(
        [sys.executable, *shorter, *tiny, *still, *data],
        cwd=tmp_path,
        env={**os.environ, "CI": "true", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "note: head_dim" not in done.stdout
    (folder,) = (tmp_path / "runs" / "single").glob("*/")
    record = Record.read(folder)
    assert record.summary["cache/bytes"] == read["trained_cache_bytes_fp32"]
    assert {name: record.geometry[name] for name in read["trained_geometry"]} == read["trained_geometry"]


def test_a_run_of_narrow_heads_is_told_once(tmp_path: Path) -> None:
    tiny = ["heads=4", "model.d_model=32", "model.layers=1", "context_length=8", "training.max_steps=2"]
    still = ["logger.mode=disabled", "training.threads=1", "sample.tokens=0", "data=copy", "data.test_examples=8"]
    done = subprocess.run(
        [sys.executable, "-m", "src.train", *tiny, *still],
        cwd=tmp_path,
        env={**os.environ, "CI": "true", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("note: head_dim=8 is outside 32 to 256") == 1
    assert "analysis/results/tutorial_heads" in done.stdout
