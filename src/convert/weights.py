"""A model's weights in another shape of attention, layer by layer.

share     MHA or GQA -> fewer kv-heads: the keys and values of a group are pooled (Ainslie et al. 2023, section 2.1)
compress  MHA or GQA -> a latent of r numbers, by the truncated singular value decomposition of keys and values
prune     fewer heads: the rows and columns of those that go are left out
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar, cast

import torch
from jaxtyping import Float
from torch import Tensor

from src.geometry import Geometry
from src.model.attention import AttentionLayer, GroupedAttention
from src.model.gpt import GPT, Block
from src.model.latent import LatentAttention

Weights = dict[str, Tensor]
Layer = TypeVar("Layer", bound=AttentionLayer)
POOLS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda groups: groups.mean(1),
    "first": lambda groups: groups[:, 0],
}
"""How the keys, or values, of a group's heads become one: K G D E -> K D E."""


@torch.no_grad()
def share(model: GPT, target: GPT, by: str) -> Weights:
    """The weights of `model` with as few kv-heads as `target` has, which holds random weights: by `mean`, `first`, or
    `random`, which keeps the target's own keys and values."""
    weights = _copied(model)
    wanted_layers = [layer for _, layer in _attentions(target, GroupedAttention)]
    for (name, layer), wanted in zip(_attentions(model, GroupedAttention), wanted_layers, strict=True):
        for kind, parameter in (("weight", layer.projection.weight), ("bias", layer.projection.bias)):
            if parameter is None:
                continue
            q, k, v = parameter.split(layer.widths)
            own = getattr(wanted.projection, kind).split(wanted.widths)
            if by == "random":
                k, v = own[1:]
            else:
                k, v = (_pooled(part, wanted.geometry, layer.geometry, POOLS[by]) for part in (k, v))
            weights[f"{name}.projection.{kind}"] = torch.cat([q, k, v])
    return _detached(weights)


@torch.no_grad()
def compress(model: GPT, target: GPT, inputs: Tensor, by: str) -> Weights:
    """The weights of `model` with keys and values rebuilt from a latent as wide as the target's.

    [K; V] = U S V^T of a layer, cut after r: the latent is V_r^T x, keys and values U_r S_r of it. The latent's norm
    divides by its root mean square, which is not known before; its weight is set to the mean of that over `inputs`. A
    key's bias adds the same to all scores of a query, so it goes; a value's bias goes through the output matrix into
    that one's bias. `by` is svd, or random, which keeps the target's own.
    """
    weights = {name: tensor for name, tensor in _copied(model).items() if ".attention." not in name}
    streams = _normed_inputs(model, inputs)
    for (name, layer), wanted, x in zip(
        _attentions(model, GroupedAttention),
        (layer for _, layer in _attentions(target, LatentAttention)),
        streams,
        strict=True,
    ):
        g, rank = layer.geometry, wanted.geometry.latent_dim
        own = {f"{name}.{key}": tensor.clone() for key, tensor in wanted.state_dict().items()}
        q, k, v = layer.projection.weight.split(layer.widths)
        repeat = g.heads // g.kv_heads
        rows = torch.cat([_repeated(k, g, repeat), _repeated(v, g, repeat)]).double()  # 2HD E
        left, sizes, right = torch.linalg.svd(rows, full_matrices=False)
        down, up = right[:rank], left[:, :rank] * sizes[:rank]
        if down.shape[0] < rank:  # a latent wider than the stream has nothing to put there
            down, up = _padded(down, rank, 0), _padded(up, rank, 1)
        if by == "svd":
            scale = (x.double() @ down.T).square().mean(-1).sqrt().mean()
            if f"{name}.norm.weight" in own:
                own[f"{name}.norm.weight"] = torch.full((rank,), float(scale))
            own[f"{name}.up.weight"] = up
        else:
            down = wanted.projection.weight.split(wanted.widths)[1]
        own[f"{name}.projection.weight"] = torch.cat([q.double(), down.double()])
        own[f"{name}.output.weight"] = layer.output.weight
        if layer.projection.bias is not None:
            q_bias, _, v_bias = layer.projection.bias.split(layer.widths)
            values = _repeated(v_bias[:, None], g, repeat)[:, 0]
            own[f"{name}.projection.bias"] = torch.cat([q_bias, torch.zeros(rank)])
            own[f"{name}.output.bias"] = layer.output.bias + layer.output.weight @ values
        weights |= own
    return _detached({name: tensor.to(torch.float32) for name, tensor in weights.items()})


@torch.no_grad()
def prune(model: GPT, kept: Sequence[Sequence[int]]) -> Weights:
    """The weights of `model` with these heads of each layer alone; of grouped heads that share, whole groups or, where
    all share one kv-head, any."""
    weights = _copied(model)
    for layer, heads in enumerate(kept):
        name, attention = f"blocks.{layer}.attention", cast(list[Block], list(model.blocks))[layer].attention
        g = attention.geometry
        chosen = torch.tensor(sorted(heads))
        out = attention.output.weight.unflatten(1, (g.heads, g.head_dim))
        weights[f"{name}.output.weight"] = out[:, chosen].flatten(1)
        if isinstance(attention, LatentAttention):
            up = attention.up.weight.unflatten(0, (2, g.heads, g.head_dim))
            weights[f"{name}.up.weight"] = up[:, chosen].flatten(0, 2)
            parts = {"query": (chosen, g.heads)}
        else:
            groups = torch.unique(chosen // (g.heads // g.kv_heads))
            parts = {"query": (chosen, g.heads), "key": (groups, g.kv_heads), "value": (groups, g.kv_heads)}
        for kind in ("weight", "bias"):
            parameter = getattr(attention.projection, kind)
            if parameter is not None:
                widths = attention.fused_projections["projection"]
                cut = dict(zip(widths, parameter.split(list(widths.values())), strict=True))
                for part, (which, count) in parts.items():
                    cut[part] = cut[part].unflatten(0, (count, -1))[which].flatten(0, 1)
                weights[f"{name}.projection.{kind}"] = torch.cat(list(cut.values()))
    return _detached(weights)


def _pooled(part: Tensor, wanted: Geometry, had: Geometry, pool: Callable[[Tensor], Tensor]) -> Tensor:
    groups = part.unflatten(0, (wanted.kv_heads, had.kv_heads // wanted.kv_heads, had.head_dim))
    return pool(groups).flatten(0, 1)


def _repeated(part: Tensor, g: Geometry, repeat: int) -> Float[Tensor, "HD E"]:
    return part.unflatten(0, (g.kv_heads, g.head_dim)).repeat_interleave(repeat, dim=0).flatten(0, 1)


def _padded(matrix: Tensor, size: int, dim: int) -> Tensor:
    shape = list(matrix.shape)
    shape[dim] = size - shape[dim]
    return torch.cat([matrix, torch.zeros(shape, dtype=matrix.dtype)], dim=dim)


@torch.inference_mode()
def _normed_inputs(model: GPT, inputs: Tensor) -> list[Float[Tensor, "B T E"]]:
    """What the attention of each layer reads."""
    x, streams = model.enter(inputs), []
    for block in cast(Iterable[Block], model.blocks):
        streams.append(block.attention_norm(x))
        x = block(x)
    return streams


def _attentions(model: GPT, kind: type[Layer]) -> list[tuple[str, Layer]]:
    """Each layer's attention with the name that its weights begin with."""
    layers = [block.attention for block in cast(Iterable[Block], model.blocks)]
    assert all(isinstance(layer, kind) for layer in layers), f"the layers are no {kind.__name__}"
    return [(f"blocks.{number}.attention", cast(Layer, layer)) for number, layer in enumerate(layers)]


def _copied(model: GPT) -> Weights:
    return dict(model.state_dict())


def _detached(weights: Weights) -> Weights:
    return {name: tensor.detach().clone().contiguous() for name, tensor in weights.items()}
