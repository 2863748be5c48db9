"""Checkpoints: plain tensors and plain values, saved whole or not at all, loaded by torch's safe default."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from src.config import Config, TrainingConfig
from src.data.load import Batches, Data, EvaluationBatches
from src.data.vocabulary import Vocabulary, vocabulary_of
from src.errors import RunError
from src.geometry import Geometry
from src.io_spec import IOSpec, TokenSpec, spec_of
from src.model.encoder import VectorModel
from src.model.gpt import GPT
from src.model.init import initialise
from src.model.kernel_report import kernel_report
from src.model.losses import answer_loss
from src.record import CHECKPOINT
from src.training.evaluation import Scale
from src.training.loop import Job, State
from src.training.measure import Stopwatch
from src.training.runtime import Runtime
from src.training.step import Trainer
from src.training.stop import StopFlag

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


# Making the parts of a run, and putting them back as a checkpoint left them.
logger = logging.getLogger("headcount")


@dataclass
class Parts:
    """What the loop moves. `model` keeps its own parameter names, compiled or not; `found` is for the record."""

    model: GPT | VectorModel
    trainer: Trainer
    batches: Batches
    windows: EvaluationBatches
    stopwatch: Stopwatch
    state: State
    total_steps: int
    scale: Scale
    found: dict[str, Any]

    def job(
        self, training: TrainingConfig, runtime: Runtime, segment: int, stop: StopFlag, save: Callable[[], Path]
    ) -> Job:
        """These parts as the loop wants them; it moves them on in place."""
        return Job(
            training=training,
            total_steps=self.total_steps,
            segment=segment,
            model=self.model,
            trainer=self.trainer,
            batches=self.batches,
            windows=self.windows,
            scale=self.scale,
            runtime=runtime,
            stopwatch=self.stopwatch,
            stop=stop,
            state=self.state,
            save=save,
        )


def build(config: Config, geometry: Geometry, data: Data, runtime: Runtime, clock: Callable[[], float]) -> Parts:
    """Fresh parts at step 0."""
    training = config.training
    model = make_model(config, geometry, data.io_spec)
    initialise(model, config.model.init, config.seed)
    model = model.to(runtime.device, runtime.weight_dtype)
    batches = data.training_batches(config.context_length, training, config.seed)
    windows = data.evaluation_batches(config.context_length, training)
    found = kernels_that_run(model, runtime)
    if runtime.compile:
        found |= compile_or_fall_back(model, batches, runtime, is_required=training.compile == "required")
    state = State()
    if training.max_steps is not None:
        total_steps = training.max_steps
    else:
        assert training.epochs is not None, "the configuration holds one of the two"
        assert batches.steps_per_epoch is not None, "an endless stream with epochs is refused when it is opened"
        total_steps = training.epochs * batches.steps_per_epoch
    return Parts(
        model=model,
        trainer=Trainer(model, training, runtime, config.seed),
        batches=batches,
        windows=windows,
        stopwatch=Stopwatch(clock, runtime.synchronise, state.timed),
        state=state,
        total_steps=total_steps,
        scale=Scale(data.io_spec, data.bytes_per_token, data.has_answers),
        found=found,
    )


def make_model(config: Config, geometry: Geometry, spec: IOSpec) -> GPT | VectorModel:
    """A model whose weights are still to be filled; torch's own first filling does not touch its global stream."""
    with torch.random.fork_rng(devices=[]):
        if isinstance(spec, TokenSpec):
            return GPT(geometry, spec.vocabulary_size, config.model.dropout, config.attention_kernel)
        return VectorModel(geometry, spec, config.model.dropout, config.attention_kernel)


def checkpoint_content(config: Config, geometry: Geometry, data: Data, parts: Parts) -> dict[str, Any]:
    """All that a continuation or a sample needs, as plain values and tensors."""
    return {
        "config": config.model_dump(),
        "geometry": asdict(geometry),
        "ends": asdict(data.io_spec),
        "vocabulary": data.vocabulary.to_dict() if data.vocabulary is not None else None,
        "data_hash": data.hash,
        "model": parts.model.state_dict(),
        "trainer": parts.trainer.state_dict(),
        "state": parts.state.state_dict(),
    }


def restore(parts: Parts, content: dict[str, Any]) -> None:
    """Puts a checkpoint into freshly built parts. Raises RunError where it belongs to another model."""
    try:
        parts.model.load_state_dict(content["model"])
        parts.trainer.load_state_dict(content["trainer"])
    except (RuntimeError, KeyError, ValueError) as error:
        raise RunError(f"the checkpoint does not fit this model: {error}") from None
    parts.state = State.of(content["state"])
    parts.stopwatch.total = parts.state.timed


def kernels_that_run(model: GPT | VectorModel, runtime: Runtime) -> dict[str, Any]:
    """The attention kernel of each phase, found by running it: for the record."""
    with torch.random.fork_rng(devices=[]):  # it makes a small layer, whose first filling is torch's own
        report = kernel_report(model, runtime.torch_dtype)
    return {
        "attention_kernel": report["training"],
        "prefill_attention_kernel": report.get("prefill"),
        "decode_attention_kernel": report.get("decode"),
    }


def compile_or_fall_back(
    model: GPT | VectorModel, batches: Batches, runtime: Runtime, *, is_required: bool
) -> dict[str, Any]:
    """Compiles in place, so that names stay; tried on one batch, and taken back where it fails unless required.

    Gives what the record should say of it.
    """
    model.compile()
    inputs, targets = batches.batch(0)
    size = runtime.micro_batch_size
    found: dict[str, Any] = {"compile": True}
    try:
        with runtime.autocast():
            answers = model(inputs[:size].to(runtime.device))
            loss = answer_loss(answers, targets[:size].to(runtime.device))
        loss.backward()
    except Exception as error:
        if is_required:
            raise
        reason = f"torch.compile failed, training goes on without it: {error}"
        logger.warning(reason)
        model._compiled_call_impl = None
        found = {"compile": False, "notes": [*runtime.notes, reason]}
    model.zero_grad(set_to_none=True)
    return found


# A trained model, read back from its run's folder.
@dataclass(frozen=True)
class LoadedRun:
    """A language model from its checkpoint, with the vocabulary that it was trained with."""

    config: Config
    geometry: Geometry
    vocabulary: Vocabulary
    model: GPT
    step: int


def load_run(folder: Path) -> LoadedRun:
    """The language model of a run folder, in evaluation mode on the CPU.

    Raises RunError where there is none, or one that reads vectors.
    """
    content = load_checkpoint(folder)
    if content is None:
        what = "has no checkpoint yet" if folder.is_dir() else "does not exist"
        raise RunError(f"{folder} {what}; name a run's folder: runs/<group>/<run_id>")
    config = Config.of(content["config"])
    geometry = Geometry(**content["geometry"])
    model = make_model(config, geometry, spec_of(content["ends"]))
    if not isinstance(model, GPT):
        raise RunError(f"{folder} holds a model of data={config.data.name}, which reads vectors and no text")
    vocabulary = vocabulary_of(content["vocabulary"])
    model.load_state_dict(content["model"])
    return LoadedRun(config, geometry, vocabulary, model.eval(), content["state"]["step"])
