"""Continues a prompt with a trained model: `python -m src.sample runs/<group>/<run_id> --prompt "ROMEO:"`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from src.config import Config, SampleConfig
from src.errors import ConfigError, UserError, fail
from src.io_spec import TokenSpec


def sample(
    folder: Annotated[Path, typer.Argument(help="A run's folder: runs/<group>/<run_id>.")],
    prompt: Annotated[str | None, typer.Option(help="The text to continue; the run's own prompt if not given.")] = None,
    tokens: Annotated[int | None, typer.Option(help="How many tokens to write; past the context is fine.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 takes the likeliest token each time.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw among this many likeliest tokens only.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed writes the same text.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, mps.")] = "cpu",
) -> None:
    """Continue a prompt with a run's checkpoint."""
    try:
        print(continuation(folder, prompt, tokens, temperature, top_k, seed, device))
    except UserError as error:
        fail(error)


def continuation(
    folder: Path,
    prompt: str | None,
    tokens: int | None,
    temperature: float | None,
    top_k: int | None,
    seed: int,
    device: str,
) -> str:
    """The prompt and what the model of this folder writes after it; what is not given is the run's own."""
    from src.training.checkpoint import continue_text, load_run
    from src.training.runtime import choose_runtime

    loaded = load_run(folder)
    own = loaded.config.sample
    given = {"prompt": prompt, "tokens": tokens, "temperature": temperature, "top_k": top_k}
    asked = {**own.model_dump(), **{name: value for name, value in given.items() if value is not None}}
    config = Config.of({**loaded.config.model_dump(), "sample": asked, "device": device})
    runtime = choose_runtime(config, loaded.geometry, TokenSpec(loaded.vocabulary.size))
    loaded.model.to(runtime.device, runtime.weight_dtype)
    used: SampleConfig = config.sample
    if used.tokens == 0:
        raise ConfigError("--tokens 0 asks for nothing; give at least 1")
    start, text = continue_text(loaded.model, loaded.vocabulary, used, seed, runtime)
    return start + text


if __name__ == "__main__":
    typer.run(sample)
