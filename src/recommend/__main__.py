"""`python -m src.recommend --parameters 1B --context 32768 --memory 24GiB`: what head configuration should I use?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from src.errors import ConfigError, UserError, fail
from src.recommend.answer import answer, refusal
from src.recommend.findings import FINDINGS
from src.recommend.request import Request
from src.recommend.rules import RULES
from src.recommend.show import answer_lines, rule_lines

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    parameters: Annotated[str | None, typer.Option(help="The budget, such as 350M or 1B.")] = None,
    d_model: Annotated[str | None, typer.Option(help="Model width; chosen for the budget unless given.")] = None,
    context: Annotated[str, typer.Option(help="Tokens of the target context, such as 32768 or 32K.")] = "2048",
    memory: Annotated[str | None, typer.Option(help="The device's memory, such as 24GiB or 80GB.")] = None,
    priority: Annotated[str, typer.Option(help="inference or training.")] = "inference",
    batch: Annotated[str, typer.Option(help="Sequences that are served at once.")] = "1",
    cache_dtype: Annotated[str, typer.Option(help="fp16, bf16, fp8 or fp32.")] = "fp16",
    layers: Annotated[str | None, typer.Option(help="Layers; as many as the budget holds unless given.")] = None,
    vocabulary_size: Annotated[
        str | None, typer.Option(help="Tokens in the vocabulary; 50257 (GPT-2's), or 65 below 100M parameters.")
    ] = None,
    propose: Annotated[str | None, typer.Option(help="A shape to be judged, such as heads=32,kv_heads=32.")] = None,
    benchmarking: Annotated[bool, typer.Option("--benchmarking", help="MLA under 1B is wanted, to compare.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="All of it as JSON.")] = False,
    rules: Annotated[bool, typer.Option("--rules", help="The rules, their sources and what measurements say.")] = False,
    out: Annotated[Path | None, typer.Option(help="Writes the JSON to this file too.")] = None,
) -> None:
    """Recommends MHA, GQA, MQA or MLA, its heads and widths, and says what it costs and why.

    python -m src.recommend --parameters 1B --d-model 2048 --context 32768 --memory 24GiB

    python -m src.recommend --parameters 1B --context 65536 --propose heads=32,kv_heads=32

    python -m src.recommend --rules
    """
    if rules:
        print(json.dumps(_rules(), indent=2) if as_json else "\n".join(rule_lines()))
        return
    try:
        request = Request.read(
            parameters,
            d_model=d_model,
            context=context,
            memory=memory,
            priority=priority,
            batch=batch,
            cache_dtype=cache_dtype,
            layers=layers,
            vocabulary_size=vocabulary_size,
            propose=propose,
            benchmarking=benchmarking,
        )
        given = answer(request)
        written = json.dumps(given.as_dict(), indent=2)
        if out is not None:
            _write(out, written)
    except UserError as error:
        fail(error)
    print(written if as_json else "\n".join(answer_lines(given)))
    if given.refused:
        fail(ConfigError(refusal(given)))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out {path}: it cannot be written ({error.strerror}); choose another file") from None


def _rules() -> list[dict[str, object]]:
    return [
        {
            "name": rule.name,
            "statement": rule.statement,
            "source": rule.source,
            "status": rule.status,
            "refuses": rule.refuses,
            "measured": [f"{f.path}: {f.says} ({f.setting})" for f in FINDINGS if f.rule == rule.name],
        }
        for rule in RULES
    ]


if __name__ == "__main__":
    app(prog_name="python -m src.recommend")
