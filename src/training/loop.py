"""The training loop: batch, step, logging, evaluation and saving, in this order; one step is in `src.training.step`.

A plain iterator of events. It writes nothing: sinks and checkpoints are its listeners' work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from src.data.load import Batches, EvaluationBatches, count_answers
from src.errors import Diverged
from src.io_spec import IOSpec, TokenSpec
from src.model.encoder import VectorModel
from src.model.gpt import GPT
from src.model.losses import answer_loss
from src.training.diagnostics import Diagnostics
from src.training.events import Event, Logged, Phase, Progress, Saved, Started
from src.training.measure import Stopwatch, Tally
from src.training.plan import RunPlan
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
    heads: dict[str, float | None] = field(default_factory=dict)
    timed: Tally = field(default_factory=Tally)

    def state_dict(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def of(cls, values: dict) -> State:
        return cls(**{**values, "timed": Tally(**values["timed"])})


@dataclass
class Training:
    """All that the loop works on and moves on in place; `src.training.build` makes it, at step 0.

    `model` keeps its own parameter names, compiled or not; `found` is what building it showed, for the record.
    """

    plan: RunPlan
    runtime: Runtime
    model: GPT | VectorModel
    trainer: Trainer
    batches: Batches
    windows: EvaluationBatches
    stopwatch: Stopwatch
    total_steps: int
    state: State
    found: dict[str, Any]
    diagnostics: Diagnostics | None = None


def training_events(training: Training, segment: int, stop: StopFlag, save: Callable[[], Path]) -> Iterator[Event]:
    """Trains from the state that it finds to the last step.

    Raises Stopped between two pieces of work when asked to, and Diverged when a loss or gradient is not finite.
    """
    state, total_steps, stopwatch = training.state, training.total_steps, training.stopwatch
    config = training.plan.config.training
    health = Health(training.runtime)
    yield Started(state.step, total_steps, segment)
    if _is_evaluation_due(training):  # stopped in the middle of it last time
        yield from _evaluate(training, {}, stop)
    if training.plan.start is not None and not state.last:  # weights of another run are judged as they come
        yield from _evaluate(training, {}, stop)
    training.model.train()
    stopwatch.start()
    while state.step < total_steps:
        stop.check()
        inputs, targets = training.batches.batch(state.step)
        rate = learning_rate(state.step, total_steps, config)
        loss, norm = training.trainer.step(state.step, inputs, targets, rate)
        state.step += 1
        state.tokens += inputs.shape[0] * inputs.shape[1]
        stopwatch.step(inputs.shape[0] * inputs.shape[1])
        health.note(loss, norm)
        yield _progress(training, loss)

        is_last = state.step == total_steps
        is_logged = state.step % config.log_interval == 0 or is_last
        is_saved = state.step % config.checkpoint_interval == 0 or is_last
        is_evaluated = _is_evaluation_due(training)
        looks = training.diagnostics is not None and training.diagnostics.is_due(state.step, total_steps)
        if not (is_logged or is_evaluated or is_saved or looks):
            continue
        row = _training_row(training, loss, norm, rate) if is_logged else {}
        if not health.is_finite():
            yield Logged(state.step, row)
            raise Diverged(
                f"the loss or the gradient is not finite at or shortly before step {state.step}; "
                "lower training.learning_rate or lengthen training.warmup_steps"
            )
        if training.diagnostics is not None and looks:
            with stopwatch.paused():
                state.heads = training.diagnostics.row(training.model, training.runtime)
            row |= state.heads
        if is_evaluated:
            with stopwatch.paused():
                yield from _evaluate(training, row, stop)
        elif row:
            yield Logged(state.step, row)
        if is_saved:
            with stopwatch.paused():
                yield Saved(state.step, save())
    if total_steps == 0:
        yield Saved(0, save())
    stopwatch.stop()


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

    def is_finite(self) -> bool:
        return self._sum is None or bool(torch.isfinite(self._sum).item())


def _progress(training: Training, loss: Tensor) -> Progress:
    # Only on the CPU is the loss already here; elsewhere reading it would stop the device at each step.
    value = loss.item() if training.runtime.device.type == "cpu" else None
    return Progress(training.state.step, training.total_steps, value, training.stopwatch.total.tokens_per_second)


def _training_row(training: Training, loss: Tensor, norm: Tensor, rate: float) -> dict[str, Number]:
    return {
        "train/loss": loss.item(),
        "train/learning_rate": rate,
        "train/grad_norm": norm.item(),
        "train/tokens": training.state.tokens,
        "train/tokens_per_second": training.stopwatch.take_interval().tokens_per_second,
    }


def _is_evaluation_due(training: Training) -> bool:
    state, interval = training.state, training.plan.config.training.eval_interval
    at_interval = state.step > 0 and (state.step % interval == 0 or state.step == training.total_steps)
    return at_interval and state.evaluated_step < state.step


def _evaluate(training: Training, row: dict[str, Number], stop: StopFlag) -> Iterator[Event]:
    state, data = training.state, training.plan.data
    # All numbers of a step go into one row. Stopped in here, the state carries the step's training numbers to the
    # continuation, which evaluates and logs them then.
    state.pending = {**state.pending, **row}
    result = yield from evaluate(training.model, training.windows, training.runtime, stop)
    row, state.pending = state.pending, {}
    state.evaluated_step = state.step
    state.last = result.row(data.io_spec, data.bytes_per_token, has_answers=data.has_answers)
    if state.best_loss is None or result.loss < state.best_loss:
        state.best_loss, state.best_step = result.loss, state.step
    best = {"val/loss_best": state.best_loss, "val/loss_best_step": state.best_step}
    yield Logged(state.step, {**row, **state.last, **best})


@dataclass(frozen=True)
class Evaluation:
    """The mean loss of `tokens` predictions, and how many of them had the likeliest token right."""

    loss: float
    tokens: int
    correct: int

    def row(self, spec: IOSpec, bytes_per_token: float | None, *, has_answers: bool) -> dict[str, float | int]:
        """The metrics that this loss means: of tokens or of vectors, of text where a token stands for so many bytes
        of it, and of a task where answers can be right."""
        row: dict[str, float | int] = {"val/loss": self.loss, "val/tokens": self.tokens}
        if not isinstance(spec, TokenSpec):
            return row
        bits = self.loss / math.log(2)
        row["val/perplexity"] = math.exp(self.loss) if self.loss < 700 else math.inf
        row["val/bits_per_token"] = bits
        if bytes_per_token is not None:
            row["val/bits_per_byte"] = bits / bytes_per_token
        if has_answers:
            row["val/accuracy"] = self.correct / self.tokens
        return row


def evaluate(
    model: nn.Module, batches: EvaluationBatches, runtime: Runtime, stop: StopFlag
) -> Generator[Phase, None, Evaluation]:
    """Yields its progress and returns the loss over the whole split; dropout is off inside, the mode put back after.

    Losses are summed in double precision on the device, so neither batch size nor length rounds the mean. Where
    nothing is asked (a target of -100), nothing counts.
    """
    was_training = model.training
    model.eval()
    try:
        total = torch.zeros((), dtype=torch.float64)
        correct = torch.zeros((), dtype=torch.int64)
        tokens = 0
        for done, (inputs, targets) in enumerate(batches):
            stop.check()
            yield Phase("evaluating", done, len(batches))
            answers = targets.to(runtime.device)
            with torch.inference_mode(), runtime.autocast():
                given = model(inputs.to(runtime.device))
                losses = answer_loss(given, answers, reduction="none")
            total = total + losses.sum(dtype=torch.float64).to(total)
            if not answers.is_floating_point():
                correct = correct + (given.argmax(-1) == answers).sum().to(correct)
            tokens += count_answers(targets)
        return Evaluation(loss=total.item() / tokens, tokens=tokens, correct=int(correct.item()))
    finally:
        model.train(was_training)
