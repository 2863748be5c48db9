"""Continuing a prompt, token by token, with the cache."""

from collections.abc import Generator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from src.model.gpt import GPT


@torch.inference_mode()
def generate(
    model: GPT,
    prompt: Int[Tensor, "B T"],
    tokens: int,
    *,
    temperature: float,
    top_k: int | None,
    generator: torch.Generator,
    cache_dtype: torch.dtype | None = None,
) -> Generator[Int[Tensor, " B"], None, None]:
    """Yields `tokens` next tokens of every sequence, one step at a time.

    temperature 0 takes the likeliest token. Past the context length the model sees the last half of the
    context anew and goes on: each token is predicted from between half a context and a whole one.
    """
    context = model.geometry.context_length
    if prompt.shape[1] == 0:
        raise ValueError("an empty prompt has nothing to continue; give at least one token")
    was_training = model.training
    model.eval()  # dropout belongs to training alone
    try:
        new = seen = prompt[:, -context:]
        cache = model.make_cache(prompt.shape[0], dtype=cache_dtype)
        for _ in range(tokens):
            if cache.length + new.shape[1] > context:
                cache.length, new = 0, seen[:, -max(1, context // 2) :]
            logits = model(new, cache)[:, -1]  # B V
            token = choose(logits, temperature, top_k, generator)
            yield token
            new = token[:, None]
            seen = torch.cat([seen, new], dim=1)[:, -context:]
    finally:
        model.train(was_training)


def choose(
    logits: Float[Tensor, "B V"], temperature: float, top_k: int | None, generator: torch.Generator
) -> Int[Tensor, " B"]:
    """One token a sequence, drawn from softmax(logits / temperature) over the top_k likeliest."""
    if temperature == 0:
        return logits.argmax(-1)
    logits = logits.float() / temperature
    if top_k is not None and top_k < logits.shape[-1]:
        threshold = logits.topk(top_k).values[:, -1:]
        logits = logits.masked_fill(logits < threshold, float("-inf"))
    weights = logits.softmax(-1).to(generator.device)
    return torch.multinomial(weights, 1, generator=generator)[:, 0].to(logits.device)
