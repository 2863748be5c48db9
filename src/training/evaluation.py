"""Validation loss over the whole split, token by token, alike for every evaluation batch size."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

import torch
from torch import nn

from src.data.batches import EvaluationWindows
from src.model.gpt import next_token_loss
from src.training.device import Runtime
from src.training.events import Phase
from src.training.stop import StopFlag


@dataclass(frozen=True)
class Evaluation:
    """The mean cross-entropy of `tokens` predictions, in nats."""

    loss: float
    tokens: int

    def row(self) -> dict[str, float | int]:
        return {
            "val/loss": self.loss,
            "val/perplexity": math.exp(self.loss) if self.loss < 700 else math.inf,
            "val/bits_per_token": self.loss / math.log(2),
            "val/tokens": self.tokens,
        }


def evaluate(
    model: nn.Module, windows: EvaluationWindows, runtime: Runtime, stop: StopFlag
) -> Generator[Phase, None, Evaluation]:
    """Yields its progress and returns the evaluation; dropout is off inside, the mode is put back after.

    Losses are summed in double precision on the device, so neither batch size nor length rounds the mean.
    """
    was_training = model.training
    model.eval()
    try:
        total = torch.zeros((), dtype=torch.float64)
        tokens = 0
        for done, (inputs, targets) in enumerate(windows):
            stop.check()
            yield Phase("evaluating", done, len(windows))
            with torch.inference_mode(), runtime.autocast():
                logits = model(inputs.to(runtime.device))
                losses = next_token_loss(logits, targets.to(runtime.device), reduction="none")
            total = total + losses.sum(dtype=torch.float64).to(total)
            tokens += targets.numel()
        return Evaluation(loss=total.item() / tokens, tokens=tokens)
    finally:
        model.train(was_training)
