"""Ways to compute the same attention. They differ in speed and memory traffic, never in the result.

    fused   torch's own choice behind scaled_dot_product_attention; grouped kv-heads by its flag
    flash   the same call, held to its flash kernel
    math    written out: scores, mask, softmax, weighted sum; keys and values repeated a query head
    folded  the query heads of a group become rows of their kv-head: keys and values are read once, as they lie
    repeat  the fused call over repeated keys and values: what naive code does, kept for comparison

Query head h uses kv-head h // G, G = H / K: adjacent query heads share.
A row whose keys are all hidden gives zeros, in every kernel.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

FOLD_AT_MOST = 8
"""New positions up to which `auto` folds (decoding); beyond it the fused kernel's tiling wins (prefill, training)."""


def attend(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B K S D"],
    v: Float[Tensor, "B K S Dv"],
    *,
    scale: float,
    is_causal: bool = True,
    mask: Bool[Tensor, "#B #H #T S"] | None = None,
    dropout: float = 0.0,
    kernel: str = "auto",
) -> Float[Tensor, "B H T Dv"]:
    """Softmax(q k^T * scale) v for every query head, in q's dtype; computed in that of k, where they differ.

    Causal means that new position t sees the S - T cached positions and new positions up to its own, so a
    cache of any length is masked rightly. `mask` is true where a key may be seen and is combined with it.
    Source: Vaswani et al. 2017, section 3.2; Ainslie et al. 2023, section 2.2.
    """
    new, cached = q.shape[2], k.shape[2]
    kernel = resolve(kernel, new=new, has_mask=mask is not None, dropout=dropout)
    is_causal = is_causal and new > 1  # one new position sees every key
    dtype, q = q.dtype, q.to(k.dtype)
    if kernel in ("folded", "math"):
        written_out = _folded if kernel == "folded" else _math
        return written_out(q, k, v, scale, visible(mask, is_causal, new, cached, q.device), dropout).to(dtype)
    if mask is not None or new != cached:
        mask, is_causal = visible(mask, is_causal, new, cached, q.device), False
    if kernel == "repeat":
        k, v = repeat_heads(k, q.shape[1]), repeat_heads(v, q.shape[1])
    if kernel == "flash":
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return _fused(q, k, v, scale, is_causal, mask, dropout).to(dtype)
    return _fused(q, k, v, scale, is_causal, mask, dropout).to(dtype)


def resolve(kernel: str, *, new: int, has_mask: bool = False, dropout: float = 0.0) -> str:
    """The kernel that `attend` runs for this call; 'auto' folds when decoding and else takes the fused one."""
    if kernel != "auto":
        return kernel
    return "folded" if new <= FOLD_AT_MOST and not has_mask and dropout == 0.0 else "fused"


def repeat_heads(x: Float[Tensor, "B K S D"], heads: int) -> Float[Tensor, "B H S D"]:
    """Each kv-head copied once a query head of its group."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def attention_weights(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B K S D"],
    scale: float,
    mask: Bool[Tensor, "#B #H #T S"] | None,
) -> tuple[Float[Tensor, "B H T S"], Float[Tensor, "B H T S"]]:
    """Scores before the mask, and the weights after mask and softmax; for the written-out kernel and for readers."""
    scores = q @ repeat_heads(k, q.shape[1]).transpose(-2, -1) * scale
    return scores, _masked_softmax(scores, mask)


def visible(
    mask: Bool[Tensor, "#B #H #T S"] | None, is_causal: bool, new: int, cached: int, device: torch.device
) -> Bool[Tensor, "#B #H #T S"] | None:
    """What each new position may see: the mask and, where asked, causality."""
    if not is_causal:
        return mask
    # The diagonal is anchored at the bottom right: torch's own flag anchors it at the top left.
    causal = torch.ones(new, cached, dtype=torch.bool, device=device).tril(cached - new)[None, None]
    return causal if mask is None else mask & causal


def _fused(
    q: Tensor, k: Tensor, v: Tensor, scale: float, is_causal: bool, mask: Tensor | None, dropout: float
) -> Tensor:
    width = v.shape[3]
    if width != q.shape[3]:
        # Flash kernels want one width; without zeros beside the narrower side torch falls back to its slow path.
        widest = max(width, q.shape[3])
        q, k, v = (F.pad(x, (0, widest - x.shape[3])) for x in (q, k, v))
    grouped = k.shape[1] != q.shape[1]
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=is_causal, scale=scale, enable_gqa=grouped
    )[..., :width]


def _math(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None, dropout: float) -> Tensor:
    _, weights = attention_weights(q, k, scale, mask)
    return _dropped(weights, dropout) @ repeat_heads(v, q.shape[1])


def _folded(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None, dropout: float) -> Tensor:
    batch, heads, new, width = q.shape
    kv_heads, cached = k.shape[1:3]
    folded = q.reshape(batch * kv_heads, heads // kv_heads * new, width)  # BK G*T D
    # One batched product that scales as it multiplies: at one new token each further pass over scores shows.
    nothing = folded.new_zeros(1, 1, 1)
    scores = torch.baddbmm(nothing, folded, k.flatten(0, 1).mT, beta=0, alpha=scale)  # BK G*T S
    weights = _masked_softmax(scores.view(batch, heads, new, cached), mask)
    weights = _dropped(weights, dropout).view(batch * kv_heads, -1, cached)
    return torch.bmm(weights, v.flatten(0, 1)).view(batch, heads, new, v.shape[3])  # B H T Dv


def _masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return scores.softmax(-1)
    # Minus infinity would give NaN, forward and backward, where a row hides all its keys.
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(-1).masked_fill(~mask, 0.0)


def _dropped(weights: Tensor, dropout: float) -> Tensor:
    return F.dropout(weights, dropout) if dropout else weights
