"""Shapes of published models, to hold the formulas of `src.costs` to numbers that others printed.

Layers are what their papers describe; where our blocks differ from theirs, the comment says which costs agree.
"""

from src.geometry import Geometry

GPT2_SMALL = Geometry(
    attention="grouped",
    layers=12,
    d_model=768,
    heads=12,
    kv_heads=12,
    head_dim=64,
    latent_dim=0,
    rope_dim=0,
    ffn_width=3072,
    context_length=1024,
    activation="gelu_tanh",
    positions="learned",
    norm="layer",
    residual=True,
    bias=True,
    tied_embeddings=True,
    linear_ends=True,
    regime="fixed_width",
    reference_heads=12,
    reference_kv_heads=12,
    reference_ffn_width=3072,
)
"""Radford et al. 2019; vocabulary 50,257."""

LLAMA_3_70B = Geometry(
    attention="grouped",
    layers=80,
    d_model=8192,
    heads=64,
    kv_heads=8,
    head_dim=128,
    latent_dim=0,
    rope_dim=0,
    ffn_width=28672,
    context_length=8192,
    activation="swiglu",
    positions="rotary",
    norm="rms",
    residual=True,
    bias=False,
    tied_embeddings=False,
    linear_ends=True,
    regime="fixed_width",
    reference_heads=64,
    reference_kv_heads=64,
    reference_ffn_width=28672,
)
"""Grattafiori et al. 2024, table 3; vocabulary 128,256."""

DEEPSEEK_V2_LITE = Geometry(
    attention="latent",
    layers=27,
    d_model=2048,
    heads=16,
    kv_heads=16,
    head_dim=128,
    latent_dim=512,
    rope_dim=64,
    ffn_width=10944,  # of its first layer; the others are mixtures of experts, so only attention and cache agree
    context_length=32768,
    activation="swiglu",
    positions="rotary",
    norm="rms",
    residual=True,
    bias=False,
    tied_embeddings=False,
    linear_ends=True,
    regime="fixed_width",
    reference_heads=16,
    reference_kv_heads=16,
    reference_ffn_width=10944,
)
"""DeepSeek-V2 (2024), appendix B: its latent attention, with queries that are not compressed."""
