"""Validation loss over the whole split, token by token, alike for every evaluation batch size."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

import torch
from torch import nn

from src.data.load import EvaluationBatches, count_answers
from src.io_spec import IOSpec, TokenSpec
from src.model.losses import answer_loss
from src.training.events import Phase
from src.training.runtime import Runtime
from src.training.stop import StopFlag


@dataclass(frozen=True)
class Scale:
    """How a mean loss is to be read: of tokens or vectors, the bytes of text that a token stands for, and whether
    answers can be right."""

    spec: IOSpec
    bytes_per_token: float | None
    has_answers: bool


@dataclass(frozen=True)
class Evaluation:
    """The mean loss of `tokens` predictions, and how many of them had the likeliest token right."""

    loss: float
    tokens: int
    correct: int

    def row(self, scale: Scale) -> dict[str, float | int]:
        row: dict[str, float | int] = {"val/loss": self.loss, "val/tokens": self.tokens}
        if not isinstance(scale.spec, TokenSpec):
            return row
        bits = self.loss / math.log(2)
        row["val/perplexity"] = math.exp(self.loss) if self.loss < 700 else math.inf
        row["val/bits_per_token"] = bits
        if scale.bytes_per_token is not None:
            row["val/bits_per_byte"] = bits / scale.bytes_per_token
        if scale.has_answers:
            row["val/accuracy"] = self.correct / self.tokens
        return row


def evaluate(
    model: nn.Module, batches: EvaluationBatches, runtime: Runtime, stop: StopFlag
) -> Generator[Phase, None, Evaluation]:
    """Yields its progress and returns the evaluation; dropout is off inside, the mode is put back after.

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
