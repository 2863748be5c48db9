"""What a model costs: parameters, FLOPs and bytes, as integers from the geometry alone.

    MHA  heads=4 kv_heads=4      GQA  heads=4 kv_heads=2      MQA  heads=4 kv_heads=1
    q0  q1  q2  q3               q0 q1   q2 q3                q0 q1 q2 q3
    |   |   |   |                 \\ |     \\ |                   \\ \\ | /
    kv0 kv1 kv2 kv3               kv0     kv1                    kv0
    2*4*D numbers a token        2*2*D                        2*1*D

    MLA  x -> latent (R numbers, kept) -> keys and values of all heads
         x -> rotary key (P numbers, kept), shared by all heads          R + P numbers a token

Conventions: a multiply-add is 2 FLOPs; attention is counted over the whole context, without the causal
half (PaLM, appendix B), so that figures compare with published ones; biases, norms and activations
are left out of FLOPs but not of parameters.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from src.geometry import Geometry

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class Costs:
    """Every cost of one model at its own context length; bytes at batch 1 in the cache's dtype."""

    parameters: int
    attention_parameters: int
    flops_per_token: int
    decode_flops_per_token: int
    cache_elements_per_token: int
    cache_bytes_per_token: int
    cache_bytes: int
    decode_bytes_read_per_token: int

    @classmethod
    def of(cls, geometry: Geometry, vocabulary_size: int, dtype: str) -> Costs:
        return cls(
            parameters=parameters(geometry, vocabulary_size),
            attention_parameters=attention_parameters(geometry),
            flops_per_token=training_flops_per_token(geometry, vocabulary_size),
            decode_flops_per_token=decode_flops_per_token(geometry, vocabulary_size, geometry.context_length),
            cache_elements_per_token=cache_elements_per_token(geometry) * geometry.layers,
            cache_bytes_per_token=cache_bytes(geometry, batch=1, positions=1, dtype=dtype),
            cache_bytes=cache_bytes(geometry, batch=1, positions=geometry.context_length, dtype=dtype),
            decode_bytes_read_per_token=decode_bytes_read_per_token(
                geometry, vocabulary_size, batch=1, positions=geometry.context_length, dtype=dtype
            ),
        )

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def cache_elements_per_token(geometry: Geometry) -> int:
    """Numbers that one layer keeps for one past token.

    Grouped attention keeps a key and a value a kv-head: 2 * kv_heads * head_dim.
    Latent attention keeps the latent and the rotary key: latent_dim + rope_dim.
    Source: Ainslie et al. 2023, section 2; DeepSeek-V2 (2024), section 2.1.
    """
    if geometry.is_latent:
        return geometry.latent_dim + geometry.rope_dim
    return 2 * geometry.kv_heads * geometry.head_dim


def cache_bytes(geometry: Geometry, batch: int, positions: int, dtype: str) -> int:
    """Bytes of the whole model's cache for `batch` sequences of `positions` tokens."""
    return cache_elements_per_token(geometry) * geometry.layers * batch * positions * BYTES[dtype]


def cache_formula(geometry: Geometry, dtype: str) -> str:
    """The cache bytes at the context length, written out for people."""
    if geometry.is_latent:
        inside = f"({geometry.latent_dim} latent + {geometry.rope_dim} rotary)"
    else:
        inside = f"2 x {geometry.kv_heads} kv-heads x {geometry.head_dim} wide"
    return f"{inside} x {geometry.layers} layers x {geometry.context_length} tokens x {BYTES[dtype]} bytes"


def attention_matrix_parameters(geometry: Geometry) -> int:
    """Weights of one layer's attention matrices, biases and norms apart."""
    g = geometry
    if g.is_latent:
        queries = g.d_model * g.heads * (g.head_dim + g.rope_dim)
        down = g.d_model * (g.latent_dim + g.rope_dim)
        up = 2 * g.latent_dim * g.attention_width
        return queries + down + up + g.attention_width * g.d_model
    return 2 * g.d_model * g.attention_width + 2 * g.d_model * g.kv_heads * g.head_dim


def attention_parameters(geometry: Geometry) -> int:
    """Parameters of all layers' attention, biases and the latent's norm included."""
    g = geometry
    total = attention_matrix_parameters(g)
    if g.is_latent:
        total += g.latent_dim if g.norm != "none" else 0
        if g.bias:
            total += g.heads * (g.head_dim + g.rope_dim) + g.latent_dim + g.rope_dim + g.d_model
    elif g.bias:
        total += g.attention_width + 2 * g.kv_heads * g.head_dim + g.d_model
    return total * g.layers


def feed_forward_matrix_parameters(geometry: Geometry) -> int:
    """Weights of one layer's feed-forward matrices (three where it is gated)."""
    matrices = 3 if geometry.activation == "swiglu" else 2
    return matrices * geometry.d_model * geometry.ffn_width


def feed_forward_parameters(geometry: Geometry) -> int:
    """Parameters of all layers' feed-forward, biases included."""
    g = geometry
    if g.ffn_width == 0:
        return 0
    widths = 2 if g.activation == "swiglu" else 1
    bias = widths * g.ffn_width + g.d_model if g.bias else 0
    return (feed_forward_matrix_parameters(g) + bias) * g.layers


def norm_parameters(geometry: Geometry) -> int:
    """Parameters of the norms before attention, before the feed-forward and at the end."""
    g = geometry
    if g.norm == "none":
        return 0
    one = g.d_model * (2 if g.norm == "layer" and g.bias else 1)
    a_layer = 2 if g.ffn_width else 1
    return one * (a_layer * g.layers + 1)


def non_embedding_parameters(geometry: Geometry) -> int:
    """Parameters of the blocks and the norms: all but token and position tables and the output matrix."""
    return attention_parameters(geometry) + feed_forward_parameters(geometry) + norm_parameters(geometry)


def decode_elements_read(geometry: Geometry, batch: int, positions: int) -> int:
    """Numbers of the blocks that one decoding step reads: their weights once and the cache of every sequence."""
    cache = cache_elements_per_token(geometry) * geometry.layers * batch * positions
    return non_embedding_parameters(geometry) + cache


def parameters(geometry: Geometry, vocabulary_size: int) -> int:
    """All parameters, each shared matrix counted once."""
    g = geometry
    embeddings = vocabulary_size * g.d_model
    positions = g.context_length * g.d_model if g.positions == "learned" else 0
    output = 0 if g.tied_embeddings else vocabulary_size * g.d_model + (vocabulary_size if g.bias else 0)
    blocks = attention_parameters(g) + feed_forward_parameters(g) + norm_parameters(g)
    return embeddings + positions + blocks + output


def training_flops_per_token(geometry: Geometry, vocabulary_size: int) -> int:
    """FLOPs of forward and backward for one token: three times the forward pass.

    Source: Chowdhery et al. 2022 (PaLM), appendix B: 6 N + 12 L H Q T, N the weights that multiply.
    """
    g = geometry
    a_layer = attention_matrix_parameters(g) + feed_forward_matrix_parameters(g)
    matrices = a_layer * g.layers + vocabulary_size * g.d_model
    key_width = g.head_dim + g.rope_dim
    mixing = g.layers * g.context_length * g.heads * (key_width + g.head_dim)
    return 3 * (2 * matrices + 2 * mixing)


def decode_flops_per_token(geometry: Geometry, vocabulary_size: int, positions: int) -> int:
    """FLOPs to produce one token with `positions` tokens in the cache.

    Sharing kv-heads saves bytes here, not FLOPs. Latent attention decodes in its absorbed form: queries meet
    the latent itself, so scores and values cost 2 * heads * (2 * latent_dim + rope_dim) a cached token.
    """
    g = geometry
    a_layer = attention_matrix_parameters(g) + feed_forward_matrix_parameters(g)
    matrices = a_layer * g.layers + vocabulary_size * g.d_model
    width = 2 * g.latent_dim + g.rope_dim if g.is_latent else 2 * g.head_dim
    return 2 * matrices + 2 * g.layers * positions * g.heads * width


def decode_bytes_read_per_token(
    geometry: Geometry, vocabulary_size: int, batch: int, positions: int, dtype: str
) -> int:
    """Bytes that one decoding step must read at least: every weight once and the cache of every sequence.

    Of the embedding tables a step reads single rows, which are left out where the output has its own matrix.
    """
    g = geometry
    tables = vocabulary_size * g.d_model if not g.tied_embeddings else 0
    tables += g.context_length * g.d_model if g.positions == "learned" else 0
    weights = (parameters(g, vocabulary_size) - tables) * BYTES[dtype]
    return weights + cache_bytes(g, batch, positions, dtype)
