"""What heads multiply by: the ranks of their two circuits, and how alike what they write is."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from src.model.attention import AttentionLayer, HeadMatrices, Intermediates


def circuit_ranks(layer: AttentionLayer) -> tuple[Float[Tensor, " H"], Float[Tensor, " H"]]:
    """Effective rank of each head's QK and OV circuit over the head's width: 1 uses all of it, 1 / D one direction.

    QK is query^T key, what scores are made of (with rotary positions: of two tokens at one place); OV is output value,
    what a token that is looked at adds. Source: Elhage et al. 2021.
    """
    of = layer.head_matrices()
    of = HeadMatrices(*(part.detach().cpu().double() for part in (of.query, of.key, of.value, of.output)))
    qk = effective_rank(_product_singular_values(of.query.mT, of.key))
    ov = effective_rank(_product_singular_values(of.output, of.value))
    width = layer.geometry.head_dim
    return qk / of.query.shape[1], ov / width


def effective_rank(singular_values: Float[Tensor, "H D"]) -> Float[Tensor, " H"]:
    """exp of the entropy of the singular values' shares; NaN where all are 0. Source: Roy and Vetterli 2007.

    >>> effective_rank(torch.tensor([[2.0, 2.0, 0.0], [5.0, 0.0, 0.0]])).tolist()
    [2.0, 1.0]
    """
    shares = singular_values / singular_values.sum(1, keepdim=True)
    return torch.special.entr(shares).sum(1).exp()


def _product_singular_values(left: Float[Tensor, "H E D"], right: Float[Tensor, "H D E"]) -> Float[Tensor, "H D"]:
    """Singular values of left right, without the E x E product: those of its D x D core."""
    _, one = torch.linalg.qr(left)
    _, other = torch.linalg.qr(right.mT)
    return torch.linalg.svdvals(one @ other.mT)


def output_similarity(inside: Intermediates, output: Tensor) -> Float[Tensor, "H H"]:
    """Linear CKA of what two heads add to the stream, over all queries: 1 alike up to a turn and a size, 0 unrelated.

    `output` is the layer's output matrix. NaN for a head that adds the same everywhere, as one that adds nothing does.
    Source: Kornblith et al. 2019, equation 5.
    """
    heads = inside.heads.cpu().double()  # on the CPU, as not every device has double precision
    parts = heads.transpose(0, 1).flatten(1, 2)  # H NT D
    parts = parts - parts.mean(1, keepdim=True)
    written = output.detach().cpu().double().unflatten(1, (heads.shape[1], -1)).transpose(0, 1)  # H E D
    inner = written.mT @ written  # H D D
    # |Y_a^T Y_b|^2 of outputs Y = parts written^T, from products of head width alone.
    cross = torch.einsum("and,bne->abde", parts, parts)  # H H D D
    squared = torch.einsum("abde,aef->abdf", cross.transpose(2, 3), inner)  # b's rows meet a's output products
    squared = torch.einsum("abed,abdf,bef->ab", squared, cross, inner)
    own = squared.diagonal().sqrt()
    is_dead = own <= 1e-24 * own.max().clamp_min(1e-300)
    own = own.masked_fill(is_dead, torch.nan)
    return (squared / (own[:, None] * own[None])).clamp(max=1.0)


def nearest(similarity: Float[Tensor, "H H"]) -> tuple[Float[Tensor, " H"], list[int | None]]:
    """Of each head, the similarity of the other head that is most like it, and which; NaN and None where none is."""
    others = similarity.clone().fill_diagonal_(torch.nan)
    values, places = others.nan_to_num(-1.0).max(1)
    found: list[int | None] = [int(place) if value >= 0 else None for value, place in zip(values, places, strict=True)]
    return values.masked_fill(values < 0, torch.nan), found
