"""Makes all that a run trains with, at step 0: model, optimiser, batches, stopwatch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from src.config import Config
from src.data.load import Batches
from src.geometry import Geometry
from src.io_spec import IOSpec, TokenSpec
from src.model.encoder import VectorModel
from src.model.gpt import GPT
from src.model.init import initialise
from src.model.kernel_report import kernel_report
from src.model.losses import answer_loss
from src.training.diagnostics import Diagnostics
from src.training.loop import State, Training
from src.training.measure import Stopwatch
from src.training.plan import RunPlan
from src.training.runtime import Runtime
from src.training.step import Trainer

logger = logging.getLogger("headcount")


def build(plan: RunPlan, runtime: Runtime, clock: Callable[[], float]) -> Training:
    """All that the loop works on, of a plan on a device."""
    config, data = plan.config, plan.data
    model = make_model(config, plan.geometry, data.io_spec)
    initialise(model, config.model.init, config.seed)
    model = model.to(runtime.device, runtime.weight_dtype)
    batches = data.training_batches(config.context_length, config.training, config.seed)
    if plan.start is not None:
        model.load_state_dict(dict(plan.start.weights))
        batches = Later(batches, plan.start.batches_seen)
    found = kernels_that_run(model, runtime)
    if runtime.compile:
        found |= compile_or_fall_back(model, batches, runtime, is_required=config.training.compile == "required")
    state = State()
    windows = data.evaluation_batches(config.context_length, config.training)
    diagnostics = None
    if config.diagnostics.interval is not None:

        def blank() -> GPT | VectorModel:
            return make_model(config, plan.geometry, data.io_spec).to(runtime.device, runtime.weight_dtype)

        diagnostics = Diagnostics(config.diagnostics.interval, config.model.init, windows, blank)
    return Training(
        plan=plan,
        runtime=runtime,
        model=model,
        trainer=Trainer(model, config.training, runtime, config.seed),
        batches=batches,
        windows=windows,
        stopwatch=Stopwatch(clock, runtime.synchronise, state.timed),
        total_steps=_total_steps(config, batches) if plan.start is None else plan.start.steps,
        state=state,
        found=found,
        diagnostics=diagnostics,
    )


@dataclass(frozen=True)
class Later:
    """The same batches, from a later one on."""

    batches: Batches
    seen: int

    @property
    def steps_per_epoch(self) -> int | None:
        return self.batches.steps_per_epoch

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        return self.batches.batch(self.seen + step)


def make_model(config: Config, geometry: Geometry, spec: IOSpec) -> GPT | VectorModel:
    """A model whose weights are still to be filled; torch's own first filling does not touch its global stream."""
    with torch.random.fork_rng(devices=[]):
        if isinstance(spec, TokenSpec):
            return GPT(geometry, spec.vocabulary_size, config.model.dropout, config.attention_kernel)
        return VectorModel(geometry, spec, config.model.dropout, config.attention_kernel)


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


def _total_steps(config: Config, batches: Batches) -> int:
    training = config.training
    if training.max_steps is not None:
        return training.max_steps
    assert training.epochs is not None, "the configuration holds one of the two"
    assert batches.steps_per_epoch is not None, "an endless stream with epochs is refused when it is opened"
    return training.epochs * batches.steps_per_epoch
