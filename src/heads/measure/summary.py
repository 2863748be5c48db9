"""All that can be seen of heads without ablating one: a number a head, and the few numbers of a layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from src.heads.measure.circuits import circuit_ranks, nearest, output_similarity
from src.heads.measure.patterns import SCORES, Probe, distance, entropy, pattern_similarity
from src.heads.measure.roles import LayerScores, Null, probe_scores, roles
from src.model.encoder import VectorModel
from src.model.gpt import GPT, Block

PerHead = dict[str, Float[Tensor, "L H"]]


@dataclass(frozen=True)
class Seen:
    """Numbers of every head, the head that is most like each (by layer and head), and the alikeness of all pairs.

    `scores` is None where a model reads no tokens, or too few to repeat some.
    """

    numbers: PerHead
    scores: LayerScores | None
    nearest_pattern: list[list[int | None]]
    nearest_output: list[list[int | None]]
    pattern_similarity: Float[Tensor, "L H H"]
    output_similarity: Float[Tensor, "L H H"]


@torch.inference_mode()
def look_at_heads(model: GPT | VectorModel, inputs: Tensor, probe: Probe | None) -> Seen:
    """What the heads do on these inputs, and their scores on the probe."""
    is_causal = isinstance(model, GPT)
    rows: dict[str, list[Tensor]] = {}
    near: dict[str, list[list[int | None]]] = {"pattern": [], "output": []}
    pairs: dict[str, list[Tensor]] = {"pattern": [], "output": []}
    blocks = cast(list[Block], list(model.blocks))
    for block, inside in zip(blocks, model.look_inside(inputs), strict=True):
        numbers = {"entropy": entropy(inside.weights, is_causal=is_causal)}
        if is_causal:  # vectors are a set: no place is before another
            numbers["distance"] = distance(inside.weights)
        numbers["qk_rank"], numbers["ov_rank"] = circuit_ranks(block.attention)
        pairs["pattern"].append(pattern_similarity(inside.weights).cpu())
        pairs["output"].append(output_similarity(inside, block.attention.output.weight))
        for kind, found in near.items():
            numbers[f"{kind}_similarity"], who = nearest(pairs[kind][-1])
            found.append(who)
        for name, values in numbers.items():
            rows.setdefault(name, []).append(values.cpu().double())
    scores = probe_scores(model, probe) if isinstance(model, GPT) and probe is not None else None
    return Seen(
        {name: torch.stack(values) for name, values in rows.items()},
        scores,
        near["pattern"],
        near["output"],
        torch.stack(pairs["pattern"]),
        torch.stack(pairs["output"]),
    )


def layer_summaries(seen: Seen, null: Null | None) -> list[dict[str, float | None]]:
    """The few numbers of each layer, in order; None where one cannot be (the similarity of a single head)."""
    found = roles(seen.scores, null) if seen.scores is not None and null is not None else None
    return [_summary(seen, layer, found[layer] if found else None) for layer in range(len(seen.pattern_similarity))]


def model_summary(layers: list[dict[str, float | None]]) -> dict[str, float | None]:
    """The same numbers of the whole model: the largest of the scores, the mean over layers of all others."""
    summary: dict[str, float | None] = {}
    for name in layers[0]:
        values = [value for layer in layers if (value := layer[name]) is not None]
        reduced = max(values, default=None) if name.endswith("_max") else _mean(values)
        summary[name] = reduced
    return summary


def _summary(seen: Seen, layer: int, found: list[str | None] | None) -> dict[str, float | None]:
    numbers, scores = seen.numbers, seen.scores
    entropies = numbers["entropy"][layer]
    pairs = torch.ones_like(seen.pattern_similarity[layer], dtype=torch.bool).triu(1)
    highest = {
        f"{score}_max": None if scores is None else float(scores[score][layer].max())
        for score in SCORES
        if score in ("previous_token", "induction")
    }
    return {
        "entropy": float(entropies.mean()),
        "entropy_spread": float(entropies.std()) if len(entropies) > 1 else None,
        **highest,
        "pattern_similarity": _mean(seen.pattern_similarity[layer][pairs].tolist()),
        "output_similarity": _mean(seen.output_similarity[layer][pairs].tolist()),
        "qk_rank": _mean(numbers["qk_rank"][layer].tolist()),
        "ov_rank": _mean(numbers["ov_rank"][layer].tolist()),
        "with_role": None if found is None else sum(role is not None for role in found) / len(found),
    }


def _mean(values: list[float]) -> float | None:
    there = [value for value in values if not math.isnan(value)]
    return sum(there) / len(there) if there else None
