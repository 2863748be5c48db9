"""The audit of published models and of a device's memory."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from src import costs
from src.audit import memory
from src.audit.__main__ import app
from src.audit.memory import Asked, plans, ways
from src.published import PUBLISHED

GIB = 2**30


def audit(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.stdout, result.stderr


def test_published_models_stand_beside_their_printed_counts() -> None:
    code, shown, _ = audit("--published", "llama3_70b,deepseek_v2_lite,gpt2", "--json")
    rows = json.loads(shown)
    assert code == 0
    assert [row["name"] for row in rows] == ["llama3_70b", "deepseek_v2_lite", "gpt2"]
    assert all(abs(row["parameters_off"]) < 0.01 for row in rows)
    assert [row["cache_bytes_per_token_per_layer"] for row in rows] == [4096, 1152, 3072]
    assert rows[0]["cache_bytes_as_mha"] == 8 * rows[0]["cache_bytes"]
    assert rows[0]["cache_bytes"] == 8192 * 327_680
    weights, mixing = 12 * 12 * 768**2 + 50257 * 768, 2 * 12 * 1024 * 768
    assert rows[2]["decode_flops_per_token"] == 2 * weights + 2 * mixing


def test_the_published_table_fits_80_columns_and_says_where_it_was_read() -> None:
    _, shown, _ = audit("--published", ",".join(PUBLISHED))
    assert all(name in shown for name in PUBLISHED)
    assert max(map(len, shown.splitlines())) <= 80
    assert "litgpt" in shown


def test_a_plan_has_every_number_of_kv_heads_and_latent_attention() -> None:
    g = PUBLISHED["llama3_8b"].geometry
    names = [shape.kind.display_name(shape.heads, shape.kv_heads) for shape in ways(g)]
    assert names == ["MHA", "GQA", "GQA", "GQA", "MLA", "GQA", "MQA"]
    assert g in ways(g)
    latent = PUBLISHED["deepseek_v2_lite"].geometry
    assert latent in ways(latent)


def test_what_a_plan_says_fits_is_weights_and_cache_within_nine_tenths() -> None:
    model = PUBLISHED["llama3_8b"]
    asked = Asked.read(80 * GIB, "1,8,64", "2048,8192,32768", "fp16,fp8")
    found = plans([(model.name, model.geometry, model.vocabulary_size)], asked)
    assert {plan.dtype for plan in found} == {"float16", "float8_e4m3fn"}
    for plan in found:
        row = plan.as_dict()
        for cell in row["fits"]:
            total = 2 * costs.parameters(plan.geometry, model.vocabulary_size) + cell["cache_bytes"]
            assert cell["fits"] == (total <= 80 * GIB - 8 * GIB)
            assert cell["fits"] == (cell["batch"] <= row["largest_batch"][cell["context"]])
            assert cell["fits"] == (cell["context"] <= row["largest_context"][cell["batch"]])


def test_the_memory_table_names_the_largest_batches_within_80_columns() -> None:
    words = ["--memory", "80GiB", "--batch", "1,8,64", "--context", "2048,8192,32768", "--cache-dtype", "fp16,fp8"]
    code, shown, _ = audit("--published", "llama3_8b", *words)
    assert code == 0
    assert max(map(len, shown.splitlines())) <= 80
    assert "(228)" in shown  # GQA 8, fp16, 2,048 tokens: 57 GiB of room / 256 MiB
    assert "MLA 512+64" in shown
    assert "kept free" in shown


def test_a_plan_of_settings_takes_the_models_own_heads_and_context() -> None:
    _, shown, _ = audit("model=mini", "--memory", "64MiB", "--json")
    rows = json.loads(shown)
    assert {row["heads"] for row in rows} == {8}
    assert list(rows[0]["largest_batch"]) == ["64"]


def test_the_picture_is_drawn_with_a_line_for_each_way_and_the_device(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    model = PUBLISHED["llama3_8b"]
    asked = Asked.read(80 * GIB, "1,8", "2048,32768", "fp16,fp8")
    found = plans([(model.name, model.geometry, model.vocabulary_size)], asked)
    memory.plot(found, tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 10_000
    ax = memory.draw([plan for plan in found if plan.dtype == "float16"], 8, Figure().subplots())
    assert len(ax.get_lines()) == 7 + 1 + 2  # ways, device, contexts
    contexts, cache = np.asarray(ax.get_lines()[0].get_data())
    assert cache.tolist() == [costs.cache_bytes(found[0].geometry, 8, int(tokens), "float16") for tokens in contexts]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--published nope", "choose from gpt2"),
        ("--published llama3_8", "did you mean 'llama3_8b'"),
        ("heads=8 --published gpt2", "leave out one of the two"),
        ("--published llama3_8b --memory 1GiB", "less than the lightest weights"),
        ("--published gpt2 --memory 8", "with its unit"),
        ("--published gpt2 --memory 8GiB --batch 1,0", "whole number above 0"),
        ("--published gpt2 --memory 8GiB --context none", "such as 32768 or 32K"),
        ("--published gpt2 --memory 8GiB --cache-dtype fp4", "fp16, bf16, fp8, fp32"),
        ("--published gpt2 --memory 8GiB --plot nowhere/plan.png", "choose another file"),
        ("--batch 8", "without --memory"),
    ],
)
def test_what_cannot_be_planned_ends_in_one_line(words: str, said: str) -> None:
    code, shown, error = audit(*words.split())
    assert code == 2
    assert shown == ""
    assert error.startswith("error: ")
    assert said in error
    assert error.count("\n") == 1


def test_a_console_as_wide_as_it_may_be_shows_every_context() -> None:
    model = PUBLISHED["gpt2"]
    found = plans([("gpt2", model.geometry, 50257)], Asked.read(8 * GIB, "1", "1024,2048,4096", "fp16"))
    console = Console(file=StringIO(), width=120, color_system=None)
    for part in memory.tables(found):
        console.print(part)
    assert isinstance(console.file, StringIO)
    assert all(context in console.file.getvalue() for context in ("1,024", "2,048", "4,096"))
