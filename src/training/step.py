"""One training step: forward, backward, clip, optimiser; and the schedule of its learning rate."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from src.config import TrainingConfig
from src.data.load import count_answers
from src.model.losses import answer_loss
from src.randomness import stream_seed
from src.training.runtime import Runtime


class Trainer:
    """Model and optimiser, moved one step at a time."""

    def __init__(self, model: nn.Module, config: TrainingConfig, runtime: Runtime, seed: int) -> None:
        self.model, self.config, self.runtime, self.seed = model, config, runtime, seed
        self.optimiser = make_optimiser(model, config, runtime.fused_optimizer)
        self.scaler = torch.amp.GradScaler(runtime.device.type, enabled=runtime.uses_scaler)
        self.has_dropout = any(getattr(m, "dropout", None) for m in model.modules())

    def step(
        self, step: int, inputs: Tensor, targets: Tensor, rate: float
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """One optimiser step on one batch; gives the batch's mean loss and the gradient norm, both still on the device.

        Inputs are tokens (B, T) or vectors (B, T, features), targets as `answer_loss` wants them. A batch larger
        than the micro-batch is accumulated; every answer weighs the same.
        """
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        with self._dropout_stream(step):
            loss = self._forward_backward(inputs, targets)
        self.scaler.unscale_(self.optimiser)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip or math.inf)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.optimiser.zero_grad(set_to_none=True)
        return loss, norm

    def state_dict(self) -> dict[str, object]:
        return {"optimiser": self.optimiser.state_dict(), "scaler": self.scaler.state_dict()}

    def load_state_dict(self, state: dict[str, dict]) -> None:
        self.optimiser.load_state_dict(state["optimiser"])
        self.scaler.load_state_dict(state["scaler"])

    def _forward_backward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of a batch, whose gradient is left in the parameters, one micro-batch after another."""
        size, device = self.runtime.micro_batch_size, self.runtime.device
        total = torch.zeros((), device=device, dtype=self.runtime.weight_dtype)
        asked = count_answers(targets)
        for piece, answer in zip(inputs.split(size), targets.split(size), strict=True):
            share = count_answers(answer) / asked
            with self.runtime.autocast():
                answers = self.model(piece.to(device, non_blocking=True))
                loss = answer_loss(answers, answer.to(device, non_blocking=True))
                loss = loss if share == 1 else loss * share
            self.scaler.scale(loss).backward()
            total += loss.detach()
        return total

    def _dropout_stream(self, step: int) -> contextlib.AbstractContextManager[None]:
        if not self.has_dropout:
            return contextlib.nullcontext()
        return global_stream(self.runtime.device, stream_seed(self.seed, "dropout", step))


def make_optimiser(model: nn.Module, training: TrainingConfig, fused: bool) -> torch.optim.AdamW:
    """AdamW whose weight decay falls on matrices (embeddings included) and spares biases and norms."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": training.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    betas = (training.beta1, training.beta2)
    return torch.optim.AdamW(groups, lr=training.learning_rate, betas=betas, fused=fused)


def learning_rate(step: int, total_steps: int, training: TrainingConfig) -> float:
    """The rate of the step after `step` done ones: linear warm-up, then cosine (or constant) to the final ratio.

    A pure function of the step: nothing of the schedule needs saving.
    """
    peak, warmup = training.learning_rate, training.warmup_steps
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    if training.schedule == "constant":
        return peak
    share = min(1.0, (step - warmup) / max(1, total_steps - warmup))
    floor = training.final_learning_rate_ratio * peak
    return floor + 0.5 * (peak - floor) * (1 + math.cos(math.pi * share))


@contextlib.contextmanager
def global_stream(device: torch.device, seed: int) -> Iterator[None]:
    """Torch's global generators seeded inside, as they were outside.

    Torch's dropout draws from them only. Seeded from the step, its masks are a named stream all the same:
    nothing to save, nothing that leaks.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
