"""Heads whose roles are known because their weights were written by hand.

The stream holds three things side by side: which token this is, which token was before it, and which place this is.

    layer 0  head 0  looks at the place before and writes the token there as "the token before"
             head 1  looks at its own place and writes nothing: a dead head
    layer 1  head 0  looks where "the token before" is its own token, and writes the token there: induction
             head 1  looks where the token is its own, itself included, and writes nothing
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from src.geometry import Geometry
from src.model.attention import GroupedAttention
from src.model.gpt import GPT

VOCABULARY, CONTEXT = 8, 16
TOKEN, BEFORE, PLACE = slice(0, 8), slice(8, 16), slice(16, 32)
SHARP = 1000.0
"""Makes the softmax choose one place."""


def circuit(geometry: Callable[..., Geometry]) -> GPT:
    """The two-layer model above, in float64."""
    g = geometry(
        layers=2, d_model=32, heads=2, head_dim=16, ffn_width=0, context_length=CONTEXT, norm="none", bias=False,
        positions="learned", residual=True, tied_embeddings=False,
    )  # fmt: skip
    model = GPT(g, VOCABULARY).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.tokens.weight[:, TOKEN] = torch.eye(VOCABULARY, dtype=torch.float64)
        assert model.positions is not None
        model.positions.weight[:, PLACE] = torch.eye(CONTEXT, dtype=torch.float64)
        model.output.weight[:, TOKEN] = torch.eye(VOCABULARY, dtype=torch.float64)
    one_back = torch.eye(CONTEXT, dtype=torch.float64).roll(1, 0)  # a key's place says the query that wants it
    one_back[0] = 0
    set_head(layer_of(model, 0), 0, PLACE, PLACE, one_back, read=TOKEN, write=BEFORE)
    set_head(layer_of(model, 0), 1, PLACE, PLACE, torch.eye(CONTEXT, dtype=torch.float64))
    tokens = torch.eye(VOCABULARY, dtype=torch.float64)
    set_head(layer_of(model, 1), 0, TOKEN, BEFORE, tokens, read=TOKEN, write=TOKEN, size=20.0)
    set_head(layer_of(model, 1), 1, TOKEN, TOKEN, tokens)
    return model


def layer_of(model: GPT, layer: int) -> GroupedAttention:
    attention = model.blocks[layer].attention
    assert isinstance(attention, GroupedAttention)
    return attention


def set_head(
    layer: GroupedAttention,
    head: int,
    query: slice,
    key: slice,
    match: Tensor,
    read: slice | None = None,
    write: slice | None = None,
    size: float = 1.0,
) -> None:
    """Query and key of the stream's parts meet where `match` pairs them; what is read there is written."""
    g = layer.geometry
    q, k, v = (part.view(g.heads, g.head_dim, g.d_model)[head] for part in layer.projection.weight.split(layer.widths))
    with torch.no_grad():
        q[: match.shape[0], query] = SHARP * torch.eye(match.shape[0], dtype=match.dtype)
        k[: match.shape[0], key] = match
        if read is not None and write is not None:
            width = read.stop - read.start
            v[:width, read] = torch.eye(width, dtype=match.dtype)
            out = layer.output.weight.view(g.d_model, g.heads, g.head_dim)[:, head]
            out[write, :width] = size * torch.eye(width, dtype=match.dtype)
