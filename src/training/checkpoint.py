"""Checkpoints: plain tensors and plain values, saved whole or not at all, loaded by torch's safe default.

From one a run goes on exactly, and a trained model is read back and continues a text.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from src.config import Config, SampleConfig
from src.data.vocabulary import Vocabulary, vocabulary_of
from src.errors import ConfigError, DataError, RunError, first_line
from src.geometry import Geometry
from src.io_spec import IOSpec, spec_of
from src.model.encoder import VectorModel
from src.model.generate import generate
from src.model.gpt import GPT
from src.randomness import stream_seed
from src.record import CHECKPOINT
from src.training.build import make_model
from src.training.loop import State, Training
from src.training.runtime import Runtime

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
    """The folder's checkpoint on the CPU, or None where none was saved yet.

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


def checkpoint_content(training: Training) -> dict[str, Any]:
    """All that a continuation or a sample needs, as plain values and tensors."""
    plan = training.plan
    return {
        "config": plan.config.model_dump(),
        "geometry": asdict(plan.geometry),
        "ends": asdict(plan.data.io_spec),
        "vocabulary": plan.data.vocabulary.to_dict() if plan.data.vocabulary is not None else None,
        "data_hash": plan.data.hash,
        "model": training.model.state_dict(),
        "trainer": training.trainer.state_dict(),
        "state": training.state.state_dict(),
    }


def restore(training: Training, content: dict[str, Any]) -> None:
    """Puts a checkpoint into what was freshly built. Raises RunError where it belongs to another model."""
    try:
        training.model.load_state_dict(content["model"])
        training.trainer.load_state_dict(content["trainer"])
    except (RuntimeError, KeyError, ValueError) as error:
        raise RunError(f"the checkpoint does not fit this model: {error}") from None
    training.state = State.of(content["state"])
    training.stopwatch.total = training.state.timed


@dataclass(frozen=True)
class LoadedModel:
    """A trained model from its checkpoint, with all that its run knew of it. `vocabulary` is None for vectors."""

    config: Config
    geometry: Geometry
    spec: IOSpec
    vocabulary: Vocabulary | None
    data_hash: str
    model: GPT | VectorModel
    step: int


@dataclass(frozen=True)
class LoadedRun:
    """A language model from its checkpoint, with the vocabulary that it was trained with."""

    config: Config
    geometry: Geometry
    vocabulary: Vocabulary
    model: GPT
    step: int


def load_model(folder: Path) -> LoadedModel:
    """The model of a run folder, of tokens or of vectors, in evaluation mode on the CPU.

    Raises RunError where there is none, or one that this version of the code does not know.
    """
    content = load_checkpoint(folder)
    if content is None:
        what = "has no checkpoint yet" if folder.is_dir() else "does not exist"
        raise RunError(f"{folder} {what}; name a run's folder: runs/<group>/<run_id>")
    try:
        config = Config.of(content["config"])
        geometry = Geometry(**content["geometry"])
        spec = spec_of(content["ends"])
        model = make_model(config, geometry, spec)
        model.load_state_dict(content["model"])
        kept = content["vocabulary"]
        vocabulary = None if kept is None else vocabulary_of(kept)
        return LoadedModel(
            config, geometry, spec, vocabulary, content["data_hash"], model.eval(), content["state"]["step"]
        )
    except (ConfigError, KeyError, TypeError, RuntimeError) as error:
        raise RunError(
            f"{folder / CHECKPOINT} is of another version of this code: {first_line(error)}; read it with that one"
        ) from None


def load_run(folder: Path) -> LoadedRun:
    """The language model of a run folder, in evaluation mode on the CPU.

    Raises RunError where there is none, or one that reads vectors.
    """
    loaded = load_model(folder)
    if not isinstance(loaded.model, GPT) or loaded.vocabulary is None:
        raise RunError(f"{folder} holds a model of data={loaded.config.data.name}, which reads vectors and no text")
    return LoadedRun(loaded.config, loaded.geometry, loaded.vocabulary, loaded.model, loaded.step)


def continue_text(
    model: GPT,
    vocabulary: Vocabulary,
    sample: SampleConfig,
    seed: int,
    runtime: Runtime,
    *,
    replace_unseen: bool = False,
) -> tuple[str, str]:
    """The prompt that was used and its continuation; the same for the same seed on the same device.

    An empty prompt stands for a line break (or the first known character). A character that the model never
    saw raises DataError; with `replace_unseen` a prompt that holds one is replaced like an empty one.
    """
    prompt = sample.prompt or vocabulary.start
    try:
        tokens = vocabulary.encode(prompt)
    except DataError:
        if not replace_unseen:
            raise
        prompt = vocabulary.start
        tokens = vocabulary.encode(prompt)
    inputs = torch.from_numpy(tokens.astype("int64"))[None].to(runtime.device)
    with runtime.autocast():
        steps = generate(
            model,
            inputs,
            sample.tokens,
            temperature=sample.temperature,
            top_k=sample.top_k,
            generator=torch.Generator().manual_seed(stream_seed(seed, "sample")),
            cache_dtype=runtime.torch_dtype,
        )
        drawn = [int(token) for token in steps]
    return prompt, vocabulary.decode(drawn)
