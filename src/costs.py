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
are left out of FLOPs but not of parameters. `positions` is how many tokens a decoding step finds in the cache,
its own included. Sizes in bytes are those of one dtype, for weights and cache alike.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from src.ends import Ends, TokenEnds
from src.geometry import Geometry

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class Costs:
    """Every cost of one model at its own context length; bytes at batch 1 in the cache's dtype.

    Null is what a model does not have: one that reads vectors decodes nothing and keeps no cache.
    """

    parameters: int
    non_embedding_parameters: int
    attention_parameters: int
    flops_per_token: int
    decode_flops_per_token: int | None = None
    cache_elements_per_token: int | None = None
    cache_bytes_per_token: int | None = None
    cache_bytes: int | None = None
    decode_bytes_read_per_token: int | None = None

    @classmethod
    def of(cls, geometry: Geometry, ends: Ends, dtype: str) -> Costs:
        """The costs of a model of this shape between these ends."""
        if isinstance(ends, TokenEnds):
            return cls._of_tokens(geometry, ends.vocabulary_size, dtype)
        from src import vector_costs  # they stand on this module

        return cls(
            parameters=vector_costs.parameters(geometry, ends),
            non_embedding_parameters=non_embedding_parameters(geometry),
            attention_parameters=attention_parameters(geometry),
            flops_per_token=vector_costs.training_flops_per_token(geometry, ends),
        )

    @classmethod
    def _of_tokens(cls, geometry: Geometry, vocabulary_size: int, dtype: str) -> Costs:
        positions = geometry.context_length
        return cls(
            parameters=parameters(geometry, vocabulary_size),
            non_embedding_parameters=non_embedding_parameters(geometry),
            attention_parameters=attention_parameters(geometry),
            flops_per_token=training_flops_per_token(geometry, vocabulary_size),
            decode_flops_per_token=decode_flops_per_token(geometry, vocabulary_size, positions),
            cache_elements_per_token=cache_elements_per_token(geometry) * geometry.layers,
            cache_bytes_per_token=cache_bytes(geometry, batch=1, positions=1, dtype=dtype),
            cache_bytes=cache_bytes(geometry, batch=1, positions=positions, dtype=dtype),
            decode_bytes_read_per_token=decode_bytes_read_per_token(
                geometry, vocabulary_size, batch=1, positions=positions, dtype=dtype
            ),
        )

    def as_dict(self) -> dict[str, int | None]:
        return asdict(self)


def cache_elements_per_token(geometry: Geometry) -> int:
    """Numbers that one layer keeps for one past token.

    Grouped attention keeps a key and a value a kv-head: 2 * kv_heads * head_dim.
    Latent attention keeps the latent and the rotary key: latent_dim + rope_dim.
    Source: Ainslie et al. 2023, section 2; DeepSeek-V2 (2024), section 2.1.

    >>> from src.published import DEEPSEEK_V2_LITE, LLAMA_3_70B
    >>> cache_elements_per_token(LLAMA_3_70B.reference) // cache_elements_per_token(LLAMA_3_70B)
    8
    >>> cache_elements_per_token(DEEPSEEK_V2_LITE)  # as many as 2.25 kv-heads of width 128
    576
    """
    if geometry.is_latent:
        return geometry.latent_dim + geometry.rope_dim
    return 2 * geometry.kv_heads * geometry.head_dim


def cache_bytes(geometry: Geometry, batch: int, positions: int, dtype: str) -> int:
    """Bytes of the whole model's cache for `batch` sequences of `positions` tokens.

    >>> from src.published import LLAMA_3_70B
    >>> cache_bytes(LLAMA_3_70B, batch=1, positions=1, dtype="bfloat16")
    327680
    """
    return cache_elements_per_token(geometry) * geometry.layers * batch * positions * BYTES[dtype]


def cache_formula(geometry: Geometry, dtype: str) -> str:
    """The cache bytes at the context length, written out for people."""
    if geometry.is_latent:
        inside = f"({geometry.latent_dim} latent + {geometry.rope_dim} rotary)"
    else:
        inside = f"2 x {geometry.kv_heads} kv-heads x {geometry.head_dim} wide"
    return f"{inside} x {geometry.layers} layers x {geometry.context_length} tokens x {BYTES[dtype]} bytes"


def attention_matrix_parameters(geometry: Geometry) -> int:
    """Weights of one layer's attention matrices, biases and norms apart.

    >>> from src.published import DEEPSEEK_V2_LITE
    >>> attention_matrix_parameters(DEEPSEEK_V2_LITE)
    13762560
    """
    g = geometry
    if g.is_latent:
        queries = g.d_model * g.heads * (g.head_dim + g.rope_dim)
        down = g.d_model * (g.latent_dim + g.rope_dim)
        up = 2 * g.latent_dim * g.attention_width
        return queries + down + up + g.attention_width * g.d_model
    return 2 * g.d_model * g.attention_width + 2 * g.d_model * g.kv_heads * g.head_dim


def attention_parameters(geometry: Geometry) -> int:
    """Parameters of all layers' attention, biases and the latent's norm included.

    >>> from dataclasses import replace
    >>> from src.published import GPT2_SMALL
    >>> mha, mqa = attention_parameters(GPT2_SMALL), attention_parameters(replace(GPT2_SMALL, kv_heads=1))
    >>> f"{mha:,} to {mqa:,}: {1 - mqa / mha:.1%} fewer"
    '28,348,416 to 15,355,392: 45.8% fewer'
    """
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
    """Parameters of the blocks and the norms: all but token and position tables and the output matrix.

    >>> from src.published import GPT2_SMALL
    >>> non_embedding_parameters(GPT2_SMALL)
    85056000
    """
    return attention_parameters(geometry) + feed_forward_parameters(geometry) + norm_parameters(geometry)


def parameters(geometry: Geometry, vocabulary_size: int) -> int:
    """All parameters, each shared matrix counted once.

    >>> from src.published import GPT2_SMALL, LLAMA_3_70B
    >>> parameters(GPT2_SMALL, vocabulary_size=50257)
    124439808
    >>> parameters(LLAMA_3_70B, vocabulary_size=128256)
    70553706496
    """
    g = geometry
    positions = g.context_length * g.d_model if g.positions == "learned" else 0
    table = vocabulary_size * g.d_model
    output = 0 if g.tied_embeddings else _output_parameters(g, vocabulary_size)
    return table + positions + non_embedding_parameters(g) + output


def forward_flops_per_token(geometry: Geometry, vocabulary_size: int, positions: int) -> int:
    """FLOPs of one token's share of a forward pass over `positions` tokens; of training and of prefill."""
    g = geometry
    key_width = g.head_dim + g.rope_dim
    mixing = g.layers * positions * g.heads * (key_width + g.head_dim)
    return 2 * _multiplying_weights(g, vocabulary_size) + 2 * mixing


def training_flops_per_token(geometry: Geometry, vocabulary_size: int) -> int:
    """FLOPs of forward and backward for one token: three times the forward pass.

    Source: Chowdhery et al. 2022 (PaLM), appendix B: 6 N + 12 L H Q T, N the weights that multiply.
    """
    return 3 * forward_flops_per_token(geometry, vocabulary_size, geometry.context_length)


def decode_attention_flops(geometry: Geometry, positions: int) -> int:
    """FLOPs with which all layers score and mix the cached tokens of one sequence, to produce one.

    Sharing kv-heads saves bytes here, not FLOPs. Latent attention decodes in its absorbed form: queries meet
    the latent itself, so scores and values cost 2 * heads * (2 * latent_dim + rope_dim) a cached token.
    """
    g = geometry
    width = 2 * g.latent_dim + g.rope_dim if g.is_latent else 2 * g.head_dim
    return 2 * g.layers * positions * g.heads * width


def decode_flops_per_token(geometry: Geometry, vocabulary_size: int, positions: int) -> int:
    """FLOPs to produce one token with `positions` tokens in the cache.

    The matrices that rebuild keys and values from a latent are applied once, to the query and to the mixed latent.
    """
    return 2 * _multiplying_weights(geometry, vocabulary_size) + decode_attention_flops(geometry, positions)


def decode_elements_read(geometry: Geometry, batch: int, positions: int) -> int:
    """Numbers of the blocks that one decoding step must read: weights once, and the cache of every sequence."""
    cache = cache_elements_per_token(geometry) * geometry.layers * batch * positions
    return non_embedding_parameters(geometry) + cache


def decode_bytes_read_per_token(
    geometry: Geometry, vocabulary_size: int, batch: int, positions: int, dtype: str
) -> int:
    """Bytes that one decoding step must read at least: every weight once and the cache of every sequence.

    Of the token and position tables a step reads single rows, which are left out; the output matrix it reads whole.
    """
    output = _output_parameters(geometry, vocabulary_size)
    return (decode_elements_read(geometry, batch, positions) + output) * BYTES[dtype]


def naive_decode_attention_bytes(geometry: Geometry, batch: int, positions: int, dtype: str) -> int:
    """Bytes that a decoding step moves for attention where keys and values are first written out for every head.

    The cache is read, the copy written and read again: repeated kv-heads, or keys and values rebuilt from the
    latent. MHA needs no copy. The path that doesn't copy moves `cache_bytes`.

    >>> from src.published import LLAMA_3_70B
    >>> naive_decode_attention_bytes(LLAMA_3_70B, 1, 2048, "float16") // cache_bytes(LLAMA_3_70B, 1, 2048, "float16")
    17
    """
    g = geometry
    cache = cache_bytes(g, batch, positions, dtype)
    if not g.is_latent and g.kv_heads == g.heads:
        return cache
    copy = g.heads * (2 * g.head_dim + g.rope_dim)
    return cache + 2 * copy * g.layers * batch * positions * BYTES[dtype]


def naive_decode_flops_per_token(geometry: Geometry, vocabulary_size: int, positions: int) -> int:
    """FLOPs to produce one token where latent attention rebuilds every cached key and value at each step.

    Grouped attention costs the same either way: repeating kv-heads moves bytes and computes nothing.
    """
    g = geometry
    if not g.is_latent:
        return decode_flops_per_token(g, vocabulary_size, positions)
    rebuilt_before = 2 * g.layers * (positions - 1) * 2 * g.latent_dim * g.attention_width
    return forward_flops_per_token(g, vocabulary_size, positions) + rebuilt_before


def _multiplying_weights(geometry: Geometry, vocabulary_size: int) -> int:
    """Weights of the matrices that every token passes: all layers and the output, but no table."""
    a_layer = attention_matrix_parameters(geometry) + feed_forward_matrix_parameters(geometry)
    return a_layer * geometry.layers + vocabulary_size * geometry.d_model


def _output_parameters(geometry: Geometry, vocabulary_size: int) -> int:
    """Parameters of the output layer, its own or shared with the token table (then without a bias)."""
    bias = vocabulary_size if geometry.bias and not geometry.tied_embeddings else 0
    return vocabulary_size * geometry.d_model + bias
