"""Published models by name: their shapes, what they count, and where that was read.

    PUBLISHED["llama3_70b"].geometry         the integers that `src.costs` prices
    PUBLISHED["llama3_70b"].parameters       what was published; `counted_parameters` is our arithmetic

Shapes were read in two places unless said otherwise: Lightning-AI/litgpt, litgpt/config.py, which names each model's
own config.json, and the counts in keras-team/keras-hub, keras_hub/src/models/<family>/<family>_presets.py, or as
Hugging Face lists the weights. Where a model's blocks differ from ours the costs that move are named in `note`.

A mixture of experts is written as the feed-forward that stores as much (`geometry`) and the one that a token passes
(`active`): parameters come from the first, FLOPs from the second; attention and cache are the same in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from src import costs
from src.errors import ConfigError, did_you_mean
from src.geometry import Geometry


@dataclass(frozen=True)
class Published:
    """One published model. `context_length` of the geometry is the model's own."""

    name: str
    geometry: Geometry
    vocabulary_size: int
    parameters: int
    source: str
    note: str = ""
    active_ffn_width: int | None = None
    query_rank: int = 0
    """Width to which queries are compressed; our latent attention does not compress them."""

    @property
    def active(self) -> Geometry:
        """The shape that one token passes: of a mixture of experts, the experts that it is sent to."""
        return replace(self.geometry, ffn_width=self.active_ffn_width or self.geometry.ffn_width)

    @property
    def counted_parameters(self) -> int:
        """Parameters by `src.costs`, less what compressed queries save."""
        return costs.parameters(self.geometry, self.vocabulary_size) - self._saved_by_query_rank

    @property
    def decode_flops_per_token(self) -> int:
        """FLOPs of one decoded token at the end of the model's own context."""
        positions = self.geometry.context_length
        return (
            costs.decode_flops_per_token(self.active, self.vocabulary_size, positions) - 2 * self._saved_by_query_rank
        )

    @property
    def _saved_by_query_rank(self) -> int:
        g = self.geometry
        if not self.query_rank:
            return 0
        queries = g.heads * (g.head_dim + g.rope_dim)
        return (g.d_model * queries - self.query_rank * (g.d_model + queries)) * g.layers


def published(name: str) -> Published:
    """The model of this name. Raises ConfigError that lists those there are."""
    if name not in PUBLISHED:
        raise ConfigError(
            f"{name!r} is not a published shape that is known here{did_you_mean(name, PUBLISHED)}; "
            f"choose from {', '.join(PUBLISHED)}"
        )
    return PUBLISHED[name]


def _dense(
    *, layers: int, d_model: int, heads: int, ffn: int, context: int, kv_heads: int | None = None, **other: object
) -> Geometry:
    """A decoder as Llama builds it, without biases; `other` says where it differs."""
    kv_heads = heads if kv_heads is None else kv_heads
    fields: dict[str, object] = {
        "attention": "grouped",
        "head_dim": d_model // heads,
        "latent_dim": 0,
        "rope_dim": 0,
        "activation": "swiglu",
        "positions": "rotary",
        "norm": "rms",
        "residual": True,
        "bias": False,
        "tied_embeddings": False,
        "linear_ends": True,
        "regime": "fixed_width",
        "reference_heads": heads,
        "reference_kv_heads": heads,
        "reference_ffn_width": ffn,
    }
    fields |= {"layers": layers, "d_model": d_model, "heads": heads, "kv_heads": kv_heads, "ffn_width": ffn}
    return Geometry(**fields | {"context_length": context} | other)  # pyright: ignore[reportArgumentType]


def _gpt2(name: str, layers: int, d_model: int, heads: int, parameters: int) -> Published:
    shape = _dense(
        layers=layers,
        d_model=d_model,
        heads=heads,
        ffn=4 * d_model,
        context=1024,
        activation="gelu_tanh",
        positions="learned",
        norm="layer",
        bias=True,
        tied_embeddings=True,
    )
    return Published(name, shape, 50257, parameters, "Radford et al. 2019, table 2; keras-hub gpt2_presets.py")


def _gemma2(name: str, layers: int, d_model: int, heads: int, head_dim: int, ffn: int, parameters: int) -> Published:
    regime = "fixed_width" if heads * head_dim == d_model else "fixed_head_dim"
    shape = _dense(
        layers=layers,
        d_model=d_model,
        heads=heads,
        kv_heads=heads // 2,
        head_dim=head_dim,
        ffn=ffn,
        context=8192,
        tied_embeddings=True,
        regime=regime,
    )
    note = "every other layer sees 4,096 tokens only: its cache stops growing there, ours is counted without that"
    return Published(name, shape, 256000, parameters, "litgpt config.py; keras-hub gemma_presets.py", note)


def _qwen(name: str, vocabulary_size: int, parameters: int, shape: Geometry) -> Published:
    note = "queries, keys and values have biases, which ours are counted without"
    return Published(name, shape, vocabulary_size, parameters, "litgpt config.py; keras-hub qwen_presets.py", note)


@dataclass(frozen=True)
class _Experts:
    """Widths of a mixture of experts: of its first, dense layers, and of one expert."""

    dense_layers: int
    dense_width: int
    width: int
    routed: int
    shared: int
    used: int

    def mean_width(self, layers: int, experts: int) -> int:
        """The feed-forward width that, in every layer, holds what all layers hold together."""
        mixed = (layers - self.dense_layers) * (experts + self.shared) * self.width
        return round((self.dense_layers * self.dense_width + mixed) / layers)


def _deepseek(
    name: str, layers: int, d_model: int, heads: int, context: int, experts: _Experts, **other: object
) -> Published:
    stored, active = (experts.mean_width(layers, count) for count in (experts.routed, experts.used))
    latent = {"attention": "latent", "head_dim": 128, "latent_dim": 512, "rope_dim": 64}
    regime = "fixed_width" if heads * 128 == d_model else "fixed_head_dim"
    # A reference as wide as the model, so that there is one.
    reference = {"regime": regime, "reference_heads": d_model // 128, "reference_kv_heads": d_model // 128}
    shape = _dense(layers=layers, d_model=d_model, heads=heads, ffn=stored, context=context, **latent, **reference)
    note = "a mixture of experts: FLOPs are those of the experts that one token is sent to; routers are left out"
    return Published(name, shape, active_ffn_width=active, note=note, **other)  # pyright: ignore[reportArgumentType]


_LLAMA = "litgpt config.py; counts as Hugging Face lists the weights"
_DEEPSEEK_V2 = "DeepSeek-V2 (2024), section 3.1 and appendix B; counts as Hugging Face lists the weights"
_MISTRAL_NOTE = "v0.1 sees 4,096 tokens back: its cache stops growing there, ours is counted without that"
_FALCON_NOTE = (
    "attention and feed-forward run side by side behind one norm, where ours has two; the count holds an output matrix "
    "of its own"
)

_ALL: Iterable[Published] = (
    _gpt2("gpt2", 12, 768, 12, 124_439_808),
    _gpt2("gpt2_medium", 24, 1024, 16, 354_823_168),
    _gpt2("gpt2_large", 36, 1280, 20, 774_030_080),
    _gpt2("gpt2_xl", 48, 1600, 25, 1_557_611_200),
    Published(
        "llama2_7b",
        _dense(layers=32, d_model=4096, heads=32, ffn=11008, context=4096),
        32000,
        6_738_415_616,
        "litgpt config.py; keras-hub llama_presets.py",
    ),
    Published(
        "llama2_13b", _dense(layers=40, d_model=5120, heads=40, ffn=13824, context=4096), 32000, 13_015_864_320, _LLAMA
    ),
    Published(
        "llama2_70b",
        _dense(layers=80, d_model=8192, heads=64, kv_heads=8, ffn=28672, context=4096),
        32000,
        68_976_648_192,
        _LLAMA,
    ),
    Published(
        "llama3_8b",
        _dense(layers=32, d_model=4096, heads=32, kv_heads=8, ffn=14336, context=8192),
        128256,
        8_030_261_248,
        "Grattafiori et al. 2024, table 3; litgpt config.py; keras-hub llama3_presets.py",
    ),
    Published(
        "llama3_70b",
        _dense(layers=80, d_model=8192, heads=64, kv_heads=8, ffn=28672, context=8192),
        128256,
        70_553_706_496,
        "Grattafiori et al. 2024, table 3; " + _LLAMA,
    ),
    Published(
        "llama3_405b",
        _dense(layers=126, d_model=16384, heads=128, kv_heads=8, ffn=53248, context=131072),
        128256,
        405_853_388_800,
        "Grattafiori et al. 2024, table 3 (Llama 3.1); " + _LLAMA,
    ),
    Published(
        "mistral_7b",
        _dense(layers=32, d_model=4096, heads=32, kv_heads=8, ffn=14336, context=32768),
        32000,
        7_241_732_096,
        "litgpt config.py; keras-hub mistral_presets.py",
        _MISTRAL_NOTE,
    ),
    _gemma2("gemma2_2b", 26, 2304, 8, 256, 9216, 2_614_341_888),
    _gemma2("gemma2_9b", 42, 3584, 16, 256, 14336, 9_241_705_984),
    _gemma2("gemma2_27b", 46, 4608, 32, 128, 36864, 27_227_128_320),
    _qwen(
        "qwen2_5_0_5b",
        151936,
        494_032_768,
        _dense(layers=24, d_model=896, heads=14, kv_heads=2, ffn=4864, context=32768, tied_embeddings=True),
    ),
    _qwen(
        "qwen2_5_7b",
        152064,
        7_615_616_512,
        _dense(layers=28, d_model=3584, heads=28, kv_heads=4, ffn=18944, context=131072),
    ),
    _qwen(
        "qwen2_5_72b",
        152064,
        72_706_203_648,
        _dense(layers=80, d_model=8192, heads=64, kv_heads=8, ffn=29568, context=131072),
    ),
    Published(
        "falcon_7b",
        _dense(
            layers=32,
            d_model=4544,
            heads=71,
            kv_heads=1,
            ffn=18176,
            context=2048,
            activation="gelu",
            norm="layer",
        ),
        65024,
        7_217_189_760,
        "litgpt config.py; huggingface/transformers configuration_falcon.py; count as a training script records it",
        _FALCON_NOTE,
    ),
    _deepseek(
        "deepseek_v2_lite",
        layers=27,
        d_model=2048,
        heads=16,
        context=32768,
        experts=_Experts(dense_layers=1, dense_width=10944, width=1408, routed=64, shared=2, used=6),
        vocabulary_size=102400,
        parameters=15_706_484_224,
        source=f"{_DEEPSEEK_V2}; deepseek-ai/DeepSeek-V3 inference/configs/config_16B.json",
    ),
    _deepseek(
        "deepseek_v2",
        layers=60,
        d_model=5120,
        heads=128,
        context=131072,
        experts=_Experts(dense_layers=1, dense_width=12288, width=1536, routed=160, shared=2, used=6),
        vocabulary_size=102400,
        parameters=235_741_434_880,
        source=f"{_DEEPSEEK_V2}; AMD-AGI/Primus deepseek_v2 configuration",
        query_rank=1536,
    ),
    _deepseek(
        "deepseek_v3",
        layers=61,
        d_model=7168,
        heads=128,
        context=131072,
        experts=_Experts(dense_layers=3, dense_width=18432, width=2048, routed=256, shared=1, used=8),
        vocabulary_size=129280,
        parameters=671_026_419_200,
        source="deepseek-ai/DeepSeek-V3 inference/configs/config_671B.json, README_WEIGHTS.md (no MTP module)",
        query_rank=1536,
    ),
)

PUBLISHED: Mapping[str, Published] = {model.name: model for model in _ALL}
"""Every model by name, small to large within a family."""

GPT2_SMALL = PUBLISHED["gpt2"].geometry
LLAMA_3_70B = PUBLISHED["llama3_70b"].geometry
DEEPSEEK_V2_LITE = PUBLISHED["deepseek_v2_lite"].geometry
