"""Attention written to be read: plain loops, one head and one query at a time.

Every fast path is tested against these, values and gradients, in float64. Nothing here is used in training.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from src.model.attention import GroupedAttention
from src.model.latent import LatentAttention
from src.model.norms import EPSILON


def softmax(scores: Float[Tensor, " S"], seen: Bool[Tensor, " S"]) -> Float[Tensor, " S"]:
    """Weights of the keys that may be seen, which sum to 1; all 0 where there is none."""
    highest = scores[seen].max() if seen.any() else 0.0
    exponentials = torch.where(seen, (scores - highest).exp(), 0.0)
    return exponentials / exponentials.sum() if seen.any() else exponentials


def one_head(
    q: Float[Tensor, "T D"],
    k: Float[Tensor, "S D"],
    v: Float[Tensor, "S Dv"],
    scale: float,
    mask: Bool[Tensor, "T S"] | None = None,
) -> tuple[Float[Tensor, "T Dv"], Float[Tensor, "T S"]]:
    """Each query's weighted mean of the values, and the weights. Keys may come from another sequence.

    Source: Vaswani et al. 2017, equation 1, with the scale as an argument.
    """
    outputs, attention = [], []
    for t in range(q.shape[0]):
        scores = k @ q[t] * scale  # S
        weights = softmax(scores, torch.ones(len(k), dtype=torch.bool) if mask is None else mask[t])
        outputs.append(weights @ v)
        attention.append(weights)
    return torch.stack(outputs), torch.stack(attention)


def causal_mask(tokens: int) -> Bool[Tensor, "T T"]:
    """Each position sees itself and what is before it."""
    return torch.tensor([[s <= t for s in range(tokens)] for t in range(tokens)])


def many_heads(
    q: Float[Tensor, "H T D"],
    k: Float[Tensor, "K S D"],
    v: Float[Tensor, "K S Dv"],
    scale: float,
    mask: Bool[Tensor, "H T S"] | None = None,
) -> Float[Tensor, "H T Dv"]:
    """Head after head; adjacent query heads, H / K of them, use one kv-head.

    Source: Ainslie et al. 2023, section 2.2.
    """
    group = len(q) // len(k)
    outputs = []
    for h in range(len(q)):
        output, _ = one_head(q[h], k[h // group], v[h // group], scale, None if mask is None else mask[h])
        outputs.append(output)
    return torch.stack(outputs)


def head_by_head(
    x: Float[Tensor, "T E"],
    query: Float[Tensor, "H E D"],
    key: Float[Tensor, "H E D"],
    value: Float[Tensor, "H E D"],
) -> Float[Tensor, "T HD"]:
    """Heads with a matrix each, run one after the other and laid side by side; all tokens see all tokens.

    There is no new mechanism in many heads: only the same attention, once a head.
    """
    outputs = []
    for w_q, w_k, w_v in zip(query, key, value, strict=True):
        output, _ = one_head(x @ w_q, x @ w_k, x @ w_v, scale=w_q.shape[1] ** -0.5)
        outputs.append(output)
    return torch.cat(outputs, dim=1)


def one_projection(
    x: Float[Tensor, "T E"],
    query: Float[Tensor, "H E D"],
    key: Float[Tensor, "H E D"],
    value: Float[Tensor, "H E D"],
) -> Float[Tensor, "T HD"]:
    """`head_by_head` as it is done in practice: the heads' matrices side by side, one product, then split."""
    heads, _, width = query.shape
    split = []
    for matrices in (query, key, value):
        features = x @ torch.cat(list(matrices), dim=1)  # T H*D
        split.append(features.reshape(len(x), heads, width).transpose(0, 1))  # H T D
    outputs = many_heads(*split, scale=width**-0.5)  # H T D
    return outputs.transpose(0, 1).reshape(len(x), heads * width)


def rotate(x: Float[Tensor, "T D"], start: int = 0) -> Float[Tensor, "T D"]:
    """Feature pair (i, i + D/2), taken as a complex number, times exp(i * position * 10000^(-2i/D)).

    Source: Su et al. 2021, equation 12.
    """
    half = x.shape[1] // 2
    positions = torch.arange(start, start + len(x), dtype=x.dtype)
    frequencies = 10_000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
    turns = torch.polar(torch.ones(len(x), half, dtype=x.dtype), positions[:, None] * frequencies)
    turned = torch.complex(x[:, :half], x[:, half:]) * turns
    return torch.cat([turned.real, turned.imag], dim=1)


def grouped(
    layer: GroupedAttention,
    x: Float[Tensor, "T E"],
    memory: Float[Tensor, "S E"] | None = None,
    mask: Bool[Tensor, "H T S"] | None = None,
    is_causal: bool = True,
) -> Float[Tensor, "T E"]:
    """What a `GroupedAttention` of these weights must make of one sequence, with a matrix a head."""
    g = layer.geometry
    others = x if memory is None else memory
    widths = [g.head_dim] * (g.heads + 2 * g.kv_heads)
    q = features(layer.projection, x, widths)[: g.heads]
    k = features(layer.projection, others, widths)[g.heads : g.heads + g.kv_heads]
    v = features(layer.projection, others, widths)[g.heads + g.kv_heads :]
    if g.positions == "rotary" and memory is None:
        q, k = [rotate(head) for head in q], [rotate(head) for head in k]
    if is_causal and memory is None:
        mask = causal_mask(len(x)).expand(g.heads, -1, -1) & (True if mask is None else mask)
    heads = many_heads(torch.stack(q), torch.stack(k), torch.stack(v), g.head_dim**-0.5, mask)
    return layer.output(torch.cat(list(heads), dim=1))


def latent(
    layer: LatentAttention,
    x: Float[Tensor, "T E"],
    memory: Float[Tensor, "S E"] | None = None,
    mask: Bool[Tensor, "H T S"] | None = None,
    is_causal: bool = True,
) -> Float[Tensor, "T E"]:
    """What a `LatentAttention` of these weights must make of one sequence, every key and value built in full.

    Source: DeepSeek-V2 (2024), equations 9 to 19.
    """
    g = layer.geometry
    others = x if memory is None else memory
    turn = rotate if memory is None else lambda unchanged: unchanged
    widths = [g.head_dim, g.rope_dim] * g.heads + [g.latent_dim, g.rope_dim]
    queries = features(layer.projection, x, widths)[: 2 * g.heads]
    *_, compressed, rope_key = features(layer.projection, others, widths)
    up = features(layer.up, normed(layer, compressed), [g.head_dim] * (2 * g.heads))
    q, k = [], []
    for h in range(g.heads):
        q.append(torch.cat([queries[2 * h], turn(queries[2 * h + 1])], dim=1))
        k.append(torch.cat([up[h], turn(rope_key)], dim=1))
    v = up[g.heads :]
    if is_causal and memory is None:
        mask = causal_mask(len(x)).expand(g.heads, -1, -1) & (True if mask is None else mask)
    scale = (g.head_dim + g.rope_dim) ** -0.5
    heads = many_heads(torch.stack(q), torch.stack(k), torch.stack(v), scale, mask)
    return layer.output(torch.cat(list(heads), dim=1))


def normed(layer: LatentAttention, latents: Float[Tensor, "S R"]) -> Float[Tensor, "S R"]:
    """Each latent over its root mean square, where the model has norms. Source: Zhang and Sennrich 2019."""
    if layer.geometry.norm == "none":
        return latents
    size = (latents.square().mean(1, keepdim=True) + EPSILON).sqrt()
    (weight,) = layer.norm.parameters()
    return latents / size * weight


def features(matrix: nn.Linear, x: Float[Tensor, "T E"], widths: list[int]) -> list[Float[Tensor, "T _"]]:
    """x under each run of the matrix's rows, as if every run were a matrix of its own."""
    results, first = [], 0
    for width in widths:
        rows = slice(first, first + width)
        results.append(F.linear(x, matrix.weight[rows], None if matrix.bias is None else matrix.bias[rows]))
        first += width
    return results
