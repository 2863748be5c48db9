"""One layer of attention opened up, a line a stage: `python -m src.heads inside`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from src.attention_kinds.sharing import divisors
from src.compose import compose
from src.errors import ConfigError
from src.geometry import Geometry
from src.heads.trained import open_run
from src.randomness import stream_seed

if TYPE_CHECKING:
    from torch import Tensor

    from src.model.attention import Intermediates


@dataclass(frozen=True)
class Stage:
    """One step of the computation: its name in the lesson, its shape, and what it is made of."""

    name: str
    shape: tuple[int, ...]
    formula: str


def geometry_of(d_model: int, heads: int, kv_heads: int | None, tokens: int) -> Geometry:
    """A layer of these sizes, with biases. Raises ConfigError, with both numbers, where the heads do not divide it."""
    if d_model % heads:
        options = ", ".join(map(str, divisors(d_model)))
        raise ConfigError(f"heads={heads} does not divide d_model={d_model}; choose one of {options}")
    settings = [f"heads={heads}", f"context_length={tokens}", f"model.d_model={d_model}", "model.layers=1"]
    kv = [f"kv_heads={kv_heads}"] if kv_heads is not None else []
    return Geometry.of(compose([*settings, *kv, "model.bias=true", "model.positions=none", "reference_heads=1"]))


def stages(geometry: Geometry, inside: Intermediates, keys_of: str = "input") -> list[Stage]:
    """Every stage of a layer in order, under the names of the lesson, with the shapes that ran."""
    g = geometry
    scaled = g.head_dim + g.rope_dim  # queries of latent attention have a rotary part too
    source = "latent" if inside.latent is not None else keys_of
    shared = "" if g.kv_heads == g.heads else f", each for {g.heads // g.kv_heads} query heads"
    x_rsh1 = inside.heads.transpose(1, 2)
    listed: list[tuple[str, Tensor, str]] = [
        ("Q_feat", inside.query_features, "query matrix of the input, all heads side by side"),
        ("K_feat", inside.key_features, f"key matrix of the {source}"),
        ("V_feat", inside.value_features, f"value matrix of the {source}"),
        ("Q_split", inside.queries, f"Q_feat cut into {g.heads} heads"),
        ("K_split", inside.keys, f"K_feat cut into {g.kv_heads} heads{shared}"),
        ("V_split", inside.values, f"V_feat cut into {g.kv_heads} heads{shared}"),
        ("scores", inside.scores, f"Q_split K_split^T / sqrt({scaled}), the width of a head"),
        ("attention", inside.weights, "softmax of the scores, a row a query"),
        ("x_raw", inside.heads, "attention V_split"),
        ("x_rsh1", x_rsh1, "x_raw with tokens before heads"),
        ("x_rsh2", inside.concatenated, "x_rsh1 with the heads side by side"),
        ("x", inside.output, "output matrix of x_rsh2"),
    ]
    return [Stage(name, tuple(tensor.shape), formula) for name, tensor, formula in listed]


@dataclass(frozen=True)
class Shown:
    """What the command shows: whose layer it is, its stages, and the table of scales where it was asked for."""

    what: str
    stages: list[Stage]
    scales: list[dict[str, float]]

    def lines(self) -> list[str]:
        return [self.what, *stage_lines(self.stages), *(["", *scale_lines(self.scales)] if self.scales else [])]

    def as_dict(self) -> dict[str, Any]:
        return {"what": self.what, "stages": [vars(stage) for stage in self.stages], "scales": self.scales}


def inside_of_sizes(
    d_model: int,
    heads: int,
    kv_heads: int | None,
    tokens: int,
    batch: int,
    memory_tokens: int | None,
    *,
    is_causal: bool,
    shows_wrong_scale: bool,
    seed: int,
) -> Shown:
    """A layer of random weights on random input; with a memory, keys and values come from it.

    Raises ConfigError for heads that do not divide the width, and for a causal mask over another sequence.
    """
    geometry = geometry_of(d_model, heads, kv_heads, tokens)
    if memory_tokens is not None and is_causal:
        raise ConfigError(
            f"--causal with --memory-tokens {memory_tokens}: another sequence is no past of the first; leave one out"
        )
    import torch

    layer = _random_layer(geometry, seed)
    draws = torch.Generator().manual_seed(stream_seed(seed, "data", "input"))
    x = torch.randn(batch, tokens, d_model, generator=draws)
    memory = None if memory_tokens is None else torch.randn(batch, memory_tokens, d_model, generator=draws)
    keys_of = "input" if memory is None else "other sequence"
    with torch.inference_mode():
        found = stages(geometry, layer.look_inside(x, memory=memory, is_causal=is_causal), keys_of)
    kind = "cross-attention" if memory_tokens is not None else f"self-attention, {'causal' if is_causal else 'no mask'}"
    scales = wrong_scale(d_model, head_counts(d_model, heads), tokens, seed) if shows_wrong_scale else []
    return Shown(f"{kind}: input {tuple(x.shape)}, {heads} heads of {geometry.head_dim}, random weights", found, scales)


def inside_of_run(folder: Path, number: int, batch: int, tokens: int | None) -> Shown:
    """A layer of a trained run on held-out sequences, cut to so many tokens where it is asked.

    Raises ConfigError for a layer that is not there and for more tokens than the context has.
    """
    run = open_run(folder)
    g = run.loaded.geometry
    check_layer(g, number)
    if tokens is not None and tokens > g.context_length:
        raise ConfigError(f"--tokens {tokens}: the model sees {g.context_length}; give at most that")
    import torch

    inputs, _ = run.held_out(batch)
    with torch.inference_mode():
        found = stages(g, run.loaded.model.look_inside(inputs[:, :tokens])[number])
    return Shown(f"layer {number} of {run.name}, on {len(inputs)} held-out sequences", found, [])


def check_layer(geometry: Geometry, number: int | None) -> None:
    """Raises ConfigError for a layer that is not there."""
    if number is not None and not 0 <= number < geometry.layers:
        raise ConfigError(f"layer={number}: the model has layers 0 to {geometry.layers - 1}")


def wrong_scale(d_model: int, head_counts: Sequence[int], tokens: int, seed: int) -> list[dict[str, float]]:
    """For each head count, the entropy of attention scaled by the head's width and by the whole width, in nats.

    Random weights of spread 1 / sqrt(fan-in) on random input, no mask: rightly scaled scores then have a spread near 1
    at every head count.
    """
    import torch

    rows = []
    for heads in head_counts:
        g = geometry_of(d_model, heads, None, tokens)
        layer = _random_layer(g, seed)
        x = torch.randn(8, tokens, d_model, generator=torch.Generator().manual_seed(stream_seed(seed, "data", "input")))
        with torch.inference_mode():
            inside = layer.look_inside(x, is_causal=False)
            scores = inside.scores
            too_small = (scores * math.sqrt(g.head_dim / d_model)).softmax(-1)
            entropies = [float(torch.special.entr(weights).sum(-1).mean()) for weights in (inside.weights, too_small)]
        rows.append(
            {
                "heads": heads,
                "head_dim": g.head_dim,
                "scores_spread": float(scores.std()),
                "entropy": entropies[0],
                "entropy_wrong": entropies[1],
                "entropy_uniform": math.log(tokens),
            }
        )
    return rows


def head_counts(d_model: int, heads: int) -> list[int]:
    """Head counts that divide the width, up to 16, and the asked one.

    >>> head_counts(200, 5)
    [1, 2, 4, 5, 8, 10]
    """
    return sorted({*(count for count in divisors(d_model) if count <= 16), heads})


def stage_lines(stages: Sequence[Stage]) -> list[str]:
    """One line a stage, at most 80 columns for sizes of four digits."""
    shapes = [str(stage.shape) for stage in stages]
    name, shape = max(len(stage.name) for stage in stages), max(map(len, shapes))
    return [f"{s.name:{name}}  {at:{shape}}  {s.formula}" for s, at in zip(stages, shapes, strict=True)]


def scale_lines(rows: Sequence[dict[str, float]]) -> list[str]:
    """The table of `wrong_scale` and what it shows."""
    lines = [
        "entropy of attention, nats; scores divided by",
        "heads  head width  sqrt(head width)  sqrt(d_model)  uniform",
    ]
    for row in rows:
        lines.append(
            f"{row['heads']:5.0f}{row['head_dim']:12.0f}{row['entropy']:18.3f}{row['entropy_wrong']:15.3f}"
            f"{row['entropy_uniform']:9.3f}"
        )
    last = rows[-1]
    heads, d_model = int(last["heads"]), int(last["heads"] * last["head_dim"])
    return [
        *lines,
        f"Divided by sqrt({d_model}), the scores of {heads} heads are sqrt({heads}) times too small:",
        "the more heads, the nearer to uniform. Rightly divided, they hardly differ.",
    ]


def _random_layer(geometry: Geometry, seed: int) -> Any:
    import torch

    from src.model.gpt import make_attention

    with torch.random.fork_rng(devices=[]):
        layer = make_attention(geometry, 0, 0.0, "auto")
    draws = torch.Generator().manual_seed(stream_seed(seed, "init", "layer"))  # of a stream apart from the input's
    with torch.no_grad():
        for parameter in layer.parameters():
            spread = parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 0.0
            parameter.normal_(0.0, 1.0, generator=draws).mul_(spread)
    return layer.eval()
