"""Two heads written out, number by number: `python -m src.heads example`.

Three tokens of six features, two heads of width three, a matrix of its own for each head. Weights are NumPy's draws of
seed 42, in the order query, key, value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

TOKENS = np.array([[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.6, 0.5, 0.4, 0.3, 0.2, 0.1], [0.2, 0.1, 0.4, 0.3, 0.6, 0.5]])
HEADS, WIDTH, SEED = 2, 3, 42
LESSON = (
    "New in multi-head: the outputs of several heads are laid side by side. Not new:\n"
    "what a head does. Each is the same attention, run with matrices of its own."
)


@dataclass(frozen=True)
class Head:
    """All that one head computes of T tokens."""

    queries: Float[np.ndarray, "T D"]
    keys: Float[np.ndarray, "T D"]
    values: Float[np.ndarray, "T D"]
    scores: Float[np.ndarray, "T T"]
    weights: Float[np.ndarray, "T T"]
    output: Float[np.ndarray, "T D"]


def worked_example() -> tuple[list[Head], Float[np.ndarray, "T HD"]]:
    """Each head's numbers, and their outputs side by side.

    >>> _, output = worked_example()
    >>> output[0].round(6).tolist()
    [0.157653, -0.102184, -0.695975, -0.020971, 0.205886, -0.790847]
    """
    draws = np.random.RandomState(SEED)  # the generator behind np.random.seed(42)
    query, key, value = (draws.randn(HEADS, TOKENS.shape[1], WIDTH) for _ in range(3))
    heads = [_head(TOKENS, *matrices) for matrices in zip(query, key, value, strict=True)]
    return heads, np.concatenate([head.output for head in heads], axis=1)


def _head(
    x: Float[np.ndarray, "T E"],
    w_q: Float[np.ndarray, "E D"],
    w_k: Float[np.ndarray, "E D"],
    w_v: Float[np.ndarray, "E D"],
) -> Head:
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    scores = q @ k.T / np.sqrt(q.shape[1])
    weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return Head(q, k, v, scores, weights, weights @ v)


def written() -> str:
    """The example as text, at most 80 columns wide."""
    heads, output = worked_example()
    parts = [_matrix("x", "3 tokens, 6 features", TOKENS, digits=1)]
    for number, head in enumerate(heads):
        parts.append(f"head {number}: x has a query, a key and a value matrix of its own (6, 3) here")
        for name, formula, values in (
            ("Q", "x W_q", head.queries),
            ("K", "x W_k", head.keys),
            ("V", "x W_v", head.values),
            ("scores", "Q K^T / sqrt(3)", head.scores),
            ("weights", "softmax of each row; rows sum to 1", head.weights),
            ("output", "weights V", head.output),
        ):
            parts.append(_matrix(name, formula, values))
    parts.append(_matrix("concatenated", "head 0 | head 1", output, bar=WIDTH))
    return "\n\n".join([*parts, LESSON])


def as_dict() -> dict[str, object]:
    """The example as plain numbers."""
    heads, output = worked_example()
    named = [{name: values.tolist() for name, values in vars(head).items()} for head in heads]
    return {"x": TOKENS.tolist(), "heads": named, "concatenated": output.tolist()}


def _matrix(
    name: str, formula: str, values: Float[np.ndarray, "rows columns"], digits: int = 6, bar: int | None = None
) -> str:
    lines = [f"{name} {values.shape}   {formula}"]
    for row in values:
        cells = [f"{value:{digits + 4}.{digits}f}" for value in row]
        lines.append("".join(cells if bar is None else [*cells[:bar], " |", *cells[bar:]]))
    return "\n".join(lines)
