"""The rules, as data: each is a pure function of a shape and its costs, with its source and how well it is founded.

A refusing rule is never broken by a recommendation and turns down a proposal; a preferring rule decides between shapes
and is named where it could not be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from src import costs
from src.geometry import Geometry
from src.memory import Device, Load

HEAD_DIM_MIN, HEAD_DIM_MAX = 32, 256
HEAD_DIMS_PREFERRED = (64, 128)
WIDE_MODEL = 2048
"""From this d_model on a head is 128 wide, below it 64."""
MHA_HEADS_MAX, MHA_CONTEXT_MAX = 16, 32 * 1024
MHA_HEADS_PUBLISHED = 40
"""No published shape known here has more heads than this with keys and values of their own (llama2_13b)."""
KV_HEADS_SERVED = 8
LATENT_MIN_PARAMETERS = 1_000_000_000
DEEPEST = 256
BUDGET_SLACK = 0.15

_DOCUMENT = "the multi-head lesson (exercises.md, document 3)"
Status = Literal["rule of thumb", "arithmetic", "published", "measured"]


@dataclass(frozen=True)
class Case:
    """A shape and what it is wanted for: all that a rule may look at."""

    geometry: Geometry
    load: Load
    parameters_asked: int
    priority: str
    device: Device | None
    is_benchmark: bool

    @property
    def name(self) -> str:
        """MHA, GQA, MQA or MLA."""
        return self.geometry.kind.display_name(self.geometry.heads, self.geometry.kv_heads)

    @property
    def parameters(self) -> int:
        return costs.parameters(self.geometry, self.load.vocabulary_size)

    @property
    def cache_share(self) -> float:
        """Bytes of the cache over bytes of the weights: both are read for each decoded token."""
        return self.load.cache / self.load.weights


@dataclass(frozen=True)
class Rule:
    """One rule. `is_broken` looks at a case and says whether it goes against the rule."""

    name: str
    statement: str
    source: str
    status: Status
    refuses: bool
    is_broken: Callable[[Case], bool]
    instead: str
    """What to choose instead; the recommendation beside it has the numbers."""


def _is_long_mha(case: Case) -> bool:
    g = case.geometry
    return case.name == "MHA" and g.heads > MHA_HEADS_MAX and case.load.context > MHA_CONTEXT_MAX


def _is_small_latent(case: Case) -> bool:
    is_latent = case.name == "MLA"
    return is_latent and max(case.parameters_asked, case.parameters) < LATENT_MIN_PARAMETERS and not case.is_benchmark


def _is_served_unshared(case: Case) -> bool:
    g = case.geometry
    many = MHA_HEADS_MAX if case.priority == "inference" else MHA_HEADS_PUBLISHED
    return case.name in ("MHA", "GQA") and g.heads > many and g.kv_heads > KV_HEADS_SERVED


RULES: tuple[Rule, ...] = (
    Rule(
        "head_width_floor",
        f"a head is at least {HEAD_DIM_MIN} wide; narrower heads suffer",
        f"{_DOCUMENT}; the low-rank bottleneck of Bhojanapalli et al. 2020",
        "rule of thumb",
        True,
        lambda case: case.geometry.head_dim < HEAD_DIM_MIN,
        "fewer heads of 64 or 128",
    ),
    Rule(
        "mha_long_context",
        f"MHA with more than {MHA_HEADS_MAX} heads past a context of {MHA_CONTEXT_MAX:,} is not proposed without the "
        "price of its cache beside GQA's and MLA's",
        _DOCUMENT,
        "rule of thumb",
        True,
        _is_long_mha,
        "GQA, or MLA from 1B parameters on",
    ),
    Rule(
        "latent_size",
        "MLA is for models of 1B parameters and more, unless it is being benchmarked",
        f"{_DOCUMENT}; below it its gain is not established (TPA table 2: MHA 50.1, MLA 50.1 at 353M)",
        "rule of thumb",
        True,
        _is_small_latent,
        "GQA; or --benchmarking, where comparing is the purpose",
    ),
    Rule(
        "depth",
        f"a model has at most {DEEPEST} layers",
        "twice the deepest published shape here (llama3_405b: 126)",
        "published",
        True,
        lambda case: case.geometry.layers > DEEPEST,
        "a larger d_model",
    ),
    Rule(
        "heads_divide",
        "d_model = heads x head_dim, and kv_heads divides heads",
        f"{_DOCUMENT}; src.geometry",
        "arithmetic",
        True,
        lambda case: case.geometry.attention_width != case.geometry.d_model,
        "heads that divide d_model",
    ),
    Rule(
        "head_width_ceiling",
        f"a head is at most {HEAD_DIM_MAX} wide; over it specialisation is lost",
        _DOCUMENT,
        "rule of thumb",
        False,
        lambda case: case.geometry.head_dim > HEAD_DIM_MAX,
        "more heads",
    ),
    Rule(
        "head_width_preferred",
        f"a head is 64 wide, or 128 from d_model {WIDE_MODEL:,} on",
        f"{_DOCUMENT} (125M: 768/12, 350M: 1024/16, 1B: 2048/16, 70B: 8192/64); most published shapes",
        "rule of thumb",
        False,
        lambda case: case.geometry.head_dim not in HEAD_DIMS_PREFERRED,
        "a d_model that is a multiple of 64",
    ),
    Rule(
        "heads_not_for_their_own_sake",
        "a width is not cut into heads narrower than 64 to have more of them: at fixed width 16 heads were never best",
        "analysis/results: head_count (0.8M parameters), tutorial_heads (0.11M, two initialisations); small models",
        "measured",
        False,
        lambda case: case.geometry.head_dim < min(HEAD_DIMS_PREFERRED),
        "fewer, wider heads",
    ),
    Rule(
        "kv_heads_served",
        f"served with more than {MHA_HEADS_MAX} heads, or trained with more than {MHA_HEADS_PUBLISHED}, a model shares "
        f"at most {KV_HEADS_SERVED} kv-heads",
        f"{_DOCUMENT} (70B: 8 kv-heads, a cache 8 times smaller); llama3_8b/70b/405b, mistral_7b, qwen2_5_72b",
        "published",
        False,
        _is_served_unshared,
        f"{KV_HEADS_SERVED} kv-heads, or the most below it that divide the heads",
    ),
    Rule(
        "cache_share",
        "the cache at the target context and batch is no larger than the weights: decoding reads both for each token",
        "reading time is decoding time (Shazeer 2019, section 2.4; Pope et al. 2022, section 2); the bound is ours",
        "arithmetic",
        False,
        lambda case: case.priority == "inference" and case.load.cache > case.load.weights,
        "fewer kv-heads, MLA, a shorter context or a smaller batch",
    ),
    Rule(
        "fits",
        "weights and cache, and a tenth of the memory that is kept free, fit the device",
        "src.memory; the tenth is a rule of thumb",
        "arithmetic",
        False,
        lambda case: case.device is not None and not case.device.fits(case.load),
        "the largest context or batch that the answer names, a narrower cache, or fp8",
    ),
    Rule(
        "one_kv_head_last",
        "MQA only where nothing with more kv-heads, nor MLA, fits the device",
        "MQA loses quality that GQA keeps: DeepSeek-V2 table 8 (MMLU 37.9 against 41.2 and 45.2), Ainslie et al. 2023",
        "published",
        False,
        lambda case: False,  # it orders the candidates: see src.recommend.answer
        "two kv-heads or more",
    ),
    Rule(
        "budget_met",
        f"the shape counts within {BUDGET_SLACK:.0%} of the asked parameters",
        "src.costs; layers are whole",
        "arithmetic",
        False,
        lambda case: abs(case.parameters / case.parameters_asked - 1) > BUDGET_SLACK,
        "another --d-model, or no --layers",
    ),
)


def broken(case: Case, refusing: bool) -> list[Rule]:
    """The refusing rules, or the preferring ones, that a case goes against."""
    return [rule for rule in RULES if rule.refuses == refusing and rule.is_broken(case)]


def head_width_note(head_dim: int) -> str | None:
    """What a run is told whose heads are narrower or wider than the documents advise; None for all others."""
    if HEAD_DIM_MIN <= head_dim <= HEAD_DIM_MAX:
        return None
    if head_dim > HEAD_DIM_MAX:
        risk, seen = "over it specialisation is lost", "no study in analysis/results has heads as wide"
    else:
        risk = "under it heads suffer"
        seen = (
            "in analysis/results/tutorial_heads, at 0.1M parameters, heads of 16 beat heads of 32 with one "
            "initialisation and not with the other"
        )
    return f"note: head_dim={head_dim} is outside {HEAD_DIM_MIN} to {HEAD_DIM_MAX}, a rule of thumb: {risk}; {seen}"
