"""Text from a trained model: a prompt in, its continuation out."""

from __future__ import annotations

import torch

from src.config import SampleConfig
from src.data.vocabulary import Vocabulary
from src.errors import DataError
from src.model.generate import generate
from src.model.gpt import GPT
from src.randomness import stream_seed
from src.training.runtime import Runtime


def continue_text(
    model: GPT,
    vocabulary: Vocabulary,
    sample: SampleConfig,
    seed: int,
    runtime: Runtime,
    *,
    replace_unseen: bool = False,
) -> tuple[str, str]:
    """The prompt that was used and its continuation; the same for the same seed on the same device.

    An empty prompt stands for a line break (or the first known character). A character that the model never
    saw raises DataError; with `replace_unseen` a prompt that holds one is replaced like an empty one.
    """
    prompt = sample.prompt or vocabulary.start
    try:
        tokens = vocabulary.encode(prompt)
    except DataError:
        if not replace_unseen:
            raise
        prompt = vocabulary.start
        tokens = vocabulary.encode(prompt)
    inputs = torch.from_numpy(tokens.astype("int64"))[None].to(runtime.device)
    generator = torch.Generator().manual_seed(stream_seed(seed, "sample"))
    with runtime.autocast():
        steps = generate(
            model,
            inputs,
            sample.tokens,
            temperature=sample.temperature,
            top_k=sample.top_k,
            generator=generator,
            cache_dtype=runtime.torch_dtype,
        )
        drawn = [int(token) for token in steps]
    return prompt, vocabulary.decode(drawn)
