"""What goes into a model and what comes out of it. Data says it, model and costs are built to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenEnds:
    """Tokens in, logits of the next token out; the loss is cross-entropy in nats an answer."""

    vocabulary_size: int


@dataclass(frozen=True)
class VectorEnds:
    """Vectors of `features` numbers in, vectors of `outputs` numbers out: one a position, or one for the whole
    sequence where `is_pooled`. Every position may see every other.

    The loss is the mean squared distance; the best constant answer has loss 1.
    """

    features: int
    outputs: int
    is_pooled: bool


Ends = TokenEnds | VectorEnds
