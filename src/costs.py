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
are left out of FLOPs but not of parameters. What differs from one kind of attention to the next is asked of the kind
(src/attention_kinds/). `positions` is how many tokens a decoding step finds in the cache,
its own included. Sizes in bytes are those of one dtype, for weights and cache alike.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from src.io_spec import IOSpec, VectorSpec

if TYPE_CHECKING:
    from src.geometry import Geometry

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}


@dataclass(frozen=True)
class Costs:
    """Every cost of one model at its own context length; bytes at batch 1 in the cache's dtype.

    None is what a model does not have: one that reads vectors decodes nothing and keeps no cache.
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
    def of(cls, geometry: Geometry, spec: IOSpec, dtype: str) -> Costs:
        """The costs of a model of this shape with this input and output."""
        blocks = {
            "non_embedding_parameters": non_embedding_parameters(geometry),
            "attention_parameters": attention_parameters(geometry),
        }
        if isinstance(spec, VectorSpec):
            return cls(
                parameters=vector_parameters(geometry, spec),
                flops_per_token=vector_training_flops_per_token(geometry, spec),
                **blocks,
            )
        vocabulary_size, positions = spec.vocabulary_size, geometry.context_length
        return cls(
            parameters=parameters(geometry, vocabulary_size),
            flops_per_token=training_flops_per_token(geometry, vocabulary_size),
            decode_flops_per_token=decode_flops_per_token(geometry, vocabulary_size, positions),
            cache_elements_per_token=cache_elements_per_token(geometry) * geometry.layers,
            cache_bytes_per_token=cache_bytes(geometry, batch=1, positions=1, dtype=dtype),
            cache_bytes=cache_bytes(geometry, batch=1, positions=positions, dtype=dtype),
            decode_bytes_read_per_token=decode_bytes_read_per_token(
                geometry, vocabulary_size, batch=1, positions=positions, dtype=dtype
            ),
            **blocks,
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
    return geometry.kind.cache_elements_per_token(geometry)


def cache_elements(geometry: Geometry, batch: int, positions: int) -> int:
    """Numbers of the whole model's cache for `batch` sequences of `positions` tokens; a window keeps the last ones."""
    kept = geometry.kind.cached_tokens(geometry, positions)
    return cache_elements_per_token(geometry) * geometry.layers * batch * kept


def cache_bytes(geometry: Geometry, batch: int, positions: int, dtype: str) -> int:
    """Bytes of the whole model's cache for `batch` sequences of `positions` tokens.

    >>> from src.published import LLAMA_3_70B
    >>> cache_bytes(LLAMA_3_70B, batch=1, positions=1, dtype="bfloat16")
    327680
    """
    return cache_elements(geometry, batch, positions) * BYTES[dtype]


def cache_formula(geometry: Geometry, dtype: str) -> str:
    """The cache bytes at the context length, written out for people."""
    g, kind = geometry, geometry.kind
    tokens = kind.cached_tokens(g, g.context_length)
    return f"{kind.cache_formula(g)} x {g.layers} layers x {tokens} tokens x {BYTES[dtype]} bytes"


def attention_matrix_parameters(geometry: Geometry) -> int:
    """Weights of one layer's attention matrices, biases and norms apart.

    >>> from src.published import DEEPSEEK_V2_LITE
    >>> attention_matrix_parameters(DEEPSEEK_V2_LITE)
    13762560
    """
    return geometry.kind.matrix_parameters(geometry)


def attention_parameters(geometry: Geometry) -> int:
    """Parameters of all layers' attention, biases and the latent's norm included.

    >>> from dataclasses import replace
    >>> from src.published import GPT2_SMALL
    >>> mha, mqa = attention_parameters(GPT2_SMALL), attention_parameters(replace(GPT2_SMALL, kv_heads=1))
    >>> f"{mha:,} to {mqa:,}: {1 - mqa / mha:.1%} fewer"
    '28,348,416 to 15,355,392: 45.8% fewer'
    """
    per_layer = attention_matrix_parameters(geometry) + geometry.kind.other_parameters(geometry)
    return per_layer * geometry.layers


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
    per_layer = 2 if g.ffn_width else 1
    return one * (per_layer * g.layers + 1)


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
    table = vocabulary_size * g.d_model
    output = 0 if g.tied_embeddings else _output_parameters(g, vocabulary_size)
    return table + _position_parameters(g) + non_embedding_parameters(g) + output


def vector_parameters(geometry: Geometry, spec: VectorSpec) -> int:
    """All parameters of a model of vectors: input layer, query, positions, blocks and norms, output layer."""
    g = geometry
    query = g.d_model if spec.is_pooled else 0
    weights = (spec.features + spec.outputs) * g.d_model if g.linear_ends else 0
    biases = g.d_model + spec.outputs if g.linear_ends and g.bias else 0
    return weights + biases + query + _position_parameters(g) + non_embedding_parameters(g)


def forward_flops_per_token(geometry: Geometry, vocabulary_size: int, positions: int) -> int:
    """FLOPs of one token's share of a forward pass over `positions` tokens; of training and of prefill."""
    g, kind = geometry, geometry.kind
    mixing = g.layers * kind.mixing_flops(g, kind.cached_tokens(g, positions))
    return 2 * _multiplying_weights(g, vocabulary_size) + mixing


def training_flops_per_token(geometry: Geometry, vocabulary_size: int) -> int:
    """FLOPs of forward and backward for one token: three times the forward pass.

    Source: Chowdhery et al. 2022 (PaLM), appendix B: 6 N + 12 L H Q T, N the weights that multiply.
    """
    return 3 * forward_flops_per_token(geometry, vocabulary_size, geometry.context_length)


def vector_training_flops_per_token(geometry: Geometry, spec: VectorSpec) -> int:
    """FLOPs of forward and backward for one vector: those of a sequence, shared out over its vectors and rounded.

    A pooled query is a position more in the blocks and in no count of tokens; its answer is the only one.
    """
    g, vectors = geometry, geometry.context_length
    positions, answers = (vectors + 1, 1) if spec.is_pooled else (vectors, vectors)
    blocks = forward_flops_per_token(g, vocabulary_size=0, positions=positions) * positions
    entering = 2 * vectors * spec.features * g.d_model if g.linear_ends else 0
    leaving = 2 * answers * spec.outputs * g.d_model if g.linear_ends else 0
    return round(3 * (blocks + entering + leaving) / vectors)


def decode_attention_flops(geometry: Geometry, positions: int) -> int:
    """FLOPs with which all layers score and mix the cached tokens of one sequence, to produce one.

    Sharing kv-heads saves bytes here, not FLOPs. Latent attention decodes in its absorbed form: queries meet
    the latent itself, so scores and values cost 2 * heads * (2 * latent_dim + rope_dim) a cached token.
    """
    g, kind = geometry, geometry.kind
    return g.layers * kind.decode_mixing_flops(g, kind.cached_tokens(g, positions))


def decode_flops_per_token(geometry: Geometry, vocabulary_size: int, positions: int) -> int:
    """FLOPs to produce one token with `positions` tokens in the cache.

    The matrices that rebuild keys and values from a latent are applied once, to the query and to the mixed latent.
    """
    return 2 * _multiplying_weights(geometry, vocabulary_size) + decode_attention_flops(geometry, positions)


def decode_elements_read(geometry: Geometry, batch: int, positions: int) -> int:
    """Numbers of the blocks that one decoding step must read: weights once, and the cache of every sequence."""
    return non_embedding_parameters(geometry) + cache_elements(geometry, batch, positions)


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
    g, kind = geometry, geometry.kind
    copy = kind.naive_copy_elements(g) * g.layers * batch * kind.cached_tokens(g, positions)
    return cache_bytes(g, batch, positions, dtype) + 2 * copy * BYTES[dtype]


def _multiplying_weights(geometry: Geometry, vocabulary_size: int) -> int:
    """Weights of the matrices that every token passes: all layers and the output, but no table."""
    per_layer = attention_matrix_parameters(geometry) + feed_forward_matrix_parameters(geometry)
    return per_layer * geometry.layers + vocabulary_size * geometry.d_model


def _position_parameters(geometry: Geometry) -> int:
    return geometry.context_length * geometry.d_model if geometry.positions == "learned" else 0


def _output_parameters(geometry: Geometry, vocabulary_size: int) -> int:
    """Parameters of the output layer, its own or shared with the token table (then without a bias)."""
    bias = vocabulary_size if geometry.bias and not geometry.tied_embeddings else 0
    return vocabulary_size * geometry.d_model + bias
