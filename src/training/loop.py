"""The training loop: a plain iterator of events. It writes nothing; sinks and checkpoints are its listeners' work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from src.config import TrainingConfig
from src.data.load import Batches, EvaluationBatches
from src.errors import Diverged
from src.training.evaluation import Scale, evaluate
from src.training.events import Event, Logged, Progress, Saved, Started
from src.training.measure import Stopwatch, Tally
from src.training.runtime import Runtime
from src.training.step import Trainer, learning_rate
from src.training.stop import StopFlag

Number = float | int | None


@dataclass
class State:
    """Where a run stands; with weights and optimiser, all that an exact continuation needs.

    `step` counts finished optimiser steps. Every random stream is a function of seed and step, and so is the
    place in the data.
    """

    step: int = 0
    evaluated_step: int = 0
    tokens: int = 0
    best_loss: float | None = None
    best_step: int | None = None
    last: dict[str, float | int] = field(default_factory=dict)
    pending: dict[str, Number] = field(default_factory=dict)
    timed: Tally = field(default_factory=Tally)

    def state_dict(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def of(cls, values: dict) -> State:
        return cls(**{**values, "timed": Tally(**values["timed"])})


@dataclass
class Job:
    """All that the loop works on, made by `src.training.run`."""

    training: TrainingConfig
    total_steps: int
    segment: int
    model: nn.Module
    trainer: Trainer
    batches: Batches
    windows: EvaluationBatches
    scale: Scale
    runtime: Runtime
    stopwatch: Stopwatch
    stop: StopFlag
    state: State
    save: Callable[[], Path]


def training_events(job: Job) -> Iterator[Event]:
    """Trains from the job's state to its last step.

    Raises Stopped between two pieces of work when asked to, and Diverged when a loss or gradient is not finite.
    """
    state, training = job.state, job.training
    yield Started(state.step, job.total_steps, job.segment)
    if _is_evaluation_due(job):  # stopped in the middle of it last time
        yield from _evaluate(job, {})
    job.model.train()
    health = Health(job.runtime)
    job.stopwatch.start()
    while state.step < job.total_steps:
        job.stop.check()
        inputs, targets = job.batches.batch(state.step)
        rate = learning_rate(state.step, job.total_steps, training)
        loss, norm = job.trainer.step(state.step, inputs, targets, rate)
        state.step += 1
        tokens = inputs.shape[0] * inputs.shape[1]
        state.tokens += tokens
        job.stopwatch.step(tokens)
        health.note(loss, norm)
        yield _progress(job, loss)
        yield from _after_step(job, health, loss, norm, rate)
    job.stopwatch.stop()


class Health:
    """Whether every loss and gradient so far was finite, gathered on the device without waiting for it."""

    def __init__(self, runtime: Runtime) -> None:
        self._uses_scaler = runtime.uses_scaler
        self._sum: Tensor | None = None

    def note(self, loss: Tensor, norm: Tensor) -> None:
        # A sum of finite numbers times zero is zero; one number that is not finite makes it NaN for good. With
        # loss scaling an infinite gradient is a skipped step, not an end.
        watched = loss if self._uses_scaler else loss + norm
        self._sum = watched * 0 if self._sum is None else self._sum + watched * 0

    def check(self, step: int) -> None:
        if self._sum is not None and not torch.isfinite(self._sum).item():
            raise Diverged(
                f"the loss or the gradient is not finite at or shortly before step {step}; "
                "lower training.learning_rate or lengthen training.warmup_steps"
            )


def _after_step(job: Job, health: Health, loss: Tensor, norm: Tensor, rate: float) -> Iterator[Event]:
    state, training = job.state, job.training
    is_last = state.step == job.total_steps
    is_logged = state.step % training.log_interval == 0 or is_last
    saves = state.step % training.checkpoint_interval == 0 or is_last
    evaluates = _is_evaluation_due(job)
    if not (is_logged or saves or evaluates):
        return
    row: dict[str, Number] = {}
    if is_logged:
        row = {
            "train/loss": loss.item(),
            "train/learning_rate": rate,
            "train/grad_norm": norm.item(),
            "train/tokens": state.tokens,
            "train/tokens_per_second": job.stopwatch.take_interval().tokens_per_second,
        }
    try:
        health.check(state.step)
    except Diverged:
        yield Logged(state.step, row)
        raise
    if not (saves or evaluates):
        yield Logged(state.step, row)
        return
    job.stopwatch.stop()
    if evaluates:
        yield from _evaluate(job, row)
    elif row:
        yield Logged(state.step, row)
    if saves:
        yield Saved(state.step, job.save())
    job.stopwatch.start()


def _is_evaluation_due(job: Job) -> bool:
    state = job.state
    at_interval = state.step > 0 and (state.step % job.training.eval_interval == 0 or state.step == job.total_steps)
    return at_interval and state.evaluated_step < state.step


def _evaluate(job: Job, row: dict[str, Number]) -> Iterator[Event]:
    state = job.state
    # All numbers of a step go into one row. Stopped in here, the state carries the step's training numbers to the
    # continuation, which evaluates and logs them then.
    state.pending = {**state.pending, **row}
    result = yield from evaluate(job.model, job.windows, job.runtime, job.stop)
    row, state.pending = state.pending, {}
    state.evaluated_step = state.step
    state.last = result.row(job.scale)
    if state.best_loss is None or result.loss < state.best_loss:
        state.best_loss, state.best_step = result.loss, state.step
    best = {"val/loss_best": state.best_loss, "val/loss_best_step": state.best_step}
    yield Logged(state.step, {**row, **state.last, **best})


def _progress(job: Job, loss: Tensor) -> Progress:
    # Only on the CPU is the loss already here; elsewhere reading it would stop the device at each step.
    value = loss.item() if job.runtime.device.type == "cpu" else None
    return Progress(job.state.step, job.total_steps, value, job.stopwatch.total.tokens_per_second)
