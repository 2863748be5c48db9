"""Run by test_compile in a process of its own: the run-time check of shapes would break every graph.

Decodes 64 tokens with a compiled model of every kind and prints, as JSON, how many graphs were made.
"""

import json
from dataclasses import replace

import torch
from torch import fx

from src.compose import compose
from src.geometry import Geometry
from src.model.gpt import GPT
from src.model.init import initialise
from src.model.losses import next_token_loss

TOKENS = 64
TINY = replace(
    Geometry.of(compose(["model=nano"])), layers=1, d_model=16, heads=4, head_dim=4, ffn_width=0, context_length=100
)
KINDS = {
    "mha": replace(TINY, kv_heads=4),
    "gqa": replace(TINY, kv_heads=2, positions="rotary"),
    "mqa": replace(TINY, kv_heads=1),
    "mla": replace(TINY, kv_heads=4, attention="latent", latent_dim=6, rope_dim=2),
}


def decode(geometry: Geometry) -> dict[str, float]:
    graphs = []

    def count(graph: fx.GraphModule, _: list[torch.Tensor]):
        graphs.append(graph)
        return graph.forward

    model = GPT(geometry, 11)
    initialise(model, "torch", 0)
    compiled = torch.compile(model, backend=count)
    prompt = torch.arange(2 * 20).view(2, 20) % 11
    loss, eager_loss = (next_token_loss(run(prompt), prompt) for run in (compiled, model))
    loss.backward()
    trained, differences = len(graphs), [abs(loss.item() - eager_loss.item())]
    with torch.inference_mode():
        cache, eager_cache = model.make_cache(2), model.make_cache(2)
        new = prompt
        for _ in range(TOKENS + 1):
            logits, eager = compiled(new, cache), model(new, eager_cache)
            differences.append((logits - eager).abs().max().item())
            new = eager[:, -1:].argmax(-1)
    return {"training": trained, "decoding": len(graphs) - trained, "difference": max(differences)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = {}
    for name, geometry in KINDS.items():
        torch._dynamo.reset()
        found[name] = decode(geometry)
    print(json.dumps(found))
