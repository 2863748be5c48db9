"""What a model is trained on and judged by: one loss for tokens, one for vectors."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def answer_loss(answers: Tensor, targets: Tensor, reduction: str = "mean") -> Float[Tensor, "..."]:
    """The loss of a model's answers: whole numbers ask for cross-entropy, anything else for the squared distance."""
    loss = squared_distance if targets.is_floating_point() else next_token_loss
    return loss(answers, targets, reduction)


def next_token_loss(
    logits: Float[Tensor, "B T V"], targets: Int[Tensor, "B T"], reduction: str = "mean"
) -> Float[Tensor, "..."]:
    """Cross-entropy in nats an answer (or their sum, or all); a target of -100 asks nothing."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction=reduction)


def squared_distance(
    answers: Float[Tensor, "B A F"], targets: Float[Tensor, "..."], reduction: str = "mean"
) -> Float[Tensor, "..."]:
    """Squared Euclidean distance an answer (or their sum, or all); targets are shaped as the answers.

    Raises ValueError for shapes that differ: torch would spread one answer over all targets.
    """
    if answers.shape != targets.shape:
        raise ValueError(f"answers of shape {tuple(answers.shape)} to targets of shape {tuple(targets.shape)}")
    distances = (answers - targets).square().sum(-1).flatten()  # half-precision answers meet targets in float32
    return {"mean": distances.mean, "sum": distances.sum, "none": lambda: distances}[reduction]()
