"""The yardstick: a GPT and a training loop as plain as they are usually written, at the same shape and settings.

Written anew after the description of nanoGPT's eager CPU path: joint projection, fused attention, tied
embeddings, AdamW, clip, one `.item()` now and then.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PlainBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first_norm = nn.LayerNorm(width, bias=False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.second_norm = nn.LayerNorm(width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        q, k, v = (
            part.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.first_norm(x)).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(batch, time, width))
        return x + self.down(F.gelu(self.up(self.second_norm(x))))


class PlainGPT(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, context: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(PlainBlock(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width, bias=False)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.blocks(self.tokens(tokens) + self.positions(places))
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class PlainLoop:
    """Random windows, forward, backward, clip, step: what nanoGPT's loop does at each iteration."""

    def __init__(self, text: Tensor, vocabulary: int, batch: int, context: int) -> None:
        torch.manual_seed(0)
        self.text, self.batch, self.context = text, batch, context
        self.model = PlainGPT(vocabulary, 128, 4, 4, context)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)

    def step(self) -> Tensor:
        starts = torch.randint(len(self.text) - self.context, (self.batch,))
        inputs = torch.stack([self.text[i : i + self.context] for i in starts])
        targets = torch.stack([self.text[i + 1 : i + 1 + self.context] for i in starts])
        loss = self.model(inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return loss
