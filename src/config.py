"""The one typed configuration of a run. Values live in conf/, names and rules live here."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    PlainValidator,
    PrivateAttr,
    SerializeAsAny,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from src.attention_kinds import kind_of
from src.data.tasks import TASKS
from src.data.tasks.task import Task
from src.errors import ConfigError
from src.section import (
    LARGEST,
    SMALLEST,
    Count,
    Fraction,
    Number,
    Positive,
    Rate,
    Section,
    Seed,
    Share,
    matching,
    zero_or,
)
from src.setting_errors import lines

Order = Literal["shuffled", "random", "sequential"]


class CorpusConfig(Section):
    """One long sequence of tokens, read in windows."""

    path: str | None
    order: Order
    stride: Positive | None


class TextConfig(CorpusConfig):
    """A file of text or bytes whose tokens are its characters or its bytes."""

    name: Literal["shakespeare", "tinyshakespeare", "text_file", "bytes_file"]
    validation_fraction: Annotated[Number, Field(gt=0, lt=1)] | None


class ShardsConfig(CorpusConfig):
    """Token files: a folder that `python -m src.data.prepare` wrote, or files as nanoGPT and llm.c write them."""

    name: Literal["token_shards"]
    train: str
    validation: str
    dtype: Literal["uint16", "uint32"] | None
    vocabulary_size: Positive | None
    verify: Literal["full", "sampled"]


DataConfig = TextConfig | ShardsConfig | Task


def _of_its_kind(values: Any) -> DataConfig:
    return _data_kinds(tuple(sections(DataConfig))).validate_python(values)


@cache
def _data_kinds(kinds: tuple[type[BaseModel], ...]) -> TypeAdapter[Any]:
    """Sections told apart by `name`; which there are is looked up each time, as tasks may be registered later."""
    return TypeAdapter(Annotated[Union[kinds], Field(discriminator="name")])  # pyright: ignore  # noqa: UP007


Attention = Annotated[str, AfterValidator(lambda name: kind_of(name).name)]
Regime = Literal["fixed_width", "fixed_head_dim", "equal_params", "equal_cache", "equal_cost"]
Kernel = Literal["auto", "fused", "flash", "math", "folded", "repeat"]


class ModelConfig(Section):
    name: str
    d_model: Positive
    layers: Positive
    ffn_ratio: Annotated[Number, Field(ge=0, le=1000)]
    activation: Literal["gelu", "gelu_tanh", "relu", "swiglu"]
    residual: bool
    norm: Literal["layer", "rms", "none"]
    bias: bool
    positions: Literal["learned", "rotary", "none"]
    tied_embeddings: bool
    linear_ends: bool
    init: Literal["torch", "gpt2", "fan_in"]
    dropout: Fraction


class TrainingConfig(Section):
    max_steps: Positive | None
    epochs: Positive | None
    batch_size: Positive
    micro_batch_size: Positive | Literal["auto"]
    learning_rate: Rate
    learning_rate_from: str | None
    schedule: Literal["cosine", "constant"]
    warmup_steps: Count
    final_learning_rate_ratio: Share
    beta1: Fraction
    beta2: Fraction
    weight_decay: Annotated[Number, zero_or(SMALLEST, LARGEST, "none")]
    grad_clip: Annotated[Number, zero_or(SMALLEST, LARGEST, "none")]
    fused_optimizer: bool | Literal["auto"]
    dtype: Literal["auto", "float32", "float64", "bfloat16", "float16"]
    compile: bool | Literal["auto", "required"]
    threads: Positive | Literal["auto"]
    eval_interval: Positive
    eval_batch_size: Positive
    eval_stride: Positive | None
    eval_drop_partial_batch: bool
    log_interval: Positive
    checkpoint_interval: Positive

    @model_validator(mode="after")
    def _one_length(self) -> TrainingConfig:
        if (self.max_steps is None) == (self.epochs is None):
            raise ValueError(
                f"training.max_steps={self.max_steps} and training.epochs={self.epochs}: give exactly one; "
                "set the other to null"
            )
        return self


class MeasurementConfig(Section):
    """How the speed of a trained model is taken; it never changes what is trained."""

    decode_tokens: Positive
    repeats: Positive


class SampleConfig(Section):
    prompt: str | None
    tokens: Count
    temperature: Annotated[Number, zero_or(1e-3, 1e3, "the likeliest token each time")]
    top_k: Positive | None


Name = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")
Device = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
ProjectName = Annotated[
    str,
    matching(
        lambda name: 1 <= len(name) <= 128 and name == name.strip() and not set(name) & set("/\\#?%:"),
        "1 to 128 characters, without / \\ # ? % : and without blanks at either end, such as headcount",
    ),
]
Tag = Annotated[str, matching(lambda tag: 1 <= len(tag) <= 64, "a tag of 1 to 64 characters, such as first")]
Label = Annotated[str, matching(lambda text: 1 <= len(text) <= 64, "1 to 64 characters, such as train")]
Entity = Annotated[
    str,
    matching(
        re.compile(r"[\w.-]{1,64}").fullmatch, "the name of a W&B user or team: letters, digits, - and _, at most 64"
    ),
]


class DiagnosticsConfig(Section):
    """When heads are looked at while a model trains; it never changes what is trained."""

    interval: Positive | None


class LoggerConfig(Section):
    """What W&B is told; its own limits, which it would tell only after the training, hold from the start."""

    mode: Literal["online", "offline", "disabled"]
    project: ProjectName
    entity: Entity | None
    tags: list[Tag]
    notes: str | None
    job_type: Label
    timeout_s: Annotated[Number, Field(gt=0, le=86_400)]


class SweepConfig(Section):
    dry_run: bool
    fail_fast: bool
    invalid: Literal["error", "skip"]
    max_attempts: Positive
    retry: bool
    choose_learning_rate: bool
    margin_nats: Rate | None
    # Runs older than these three have none of them, and are read all the same.
    control: str | None = None
    varying: str | None = None
    pilot: str | None = None


class Config(Section):
    heads: Positive
    kv_heads: Positive | None
    head_dim: Positive | None
    reference_heads: Positive
    reference_kv_heads: Positive | None
    attention: Attention
    latent_dim: Positive | None
    rope_dim: Count | None
    context_length: Positive
    regime: Regime | None
    attention_kernel: Kernel
    model: ModelConfig
    data: SerializeAsAny[Annotated[DataConfig, PlainValidator(_of_its_kind)]]
    training: TrainingConfig
    measurement: MeasurementConfig
    sample: SampleConfig
    # Runs older than this section have none, and are read all the same.
    diagnostics: DiagnosticsConfig = DiagnosticsConfig(interval=None)
    logger: LoggerConfig
    sweep: SweepConfig
    seed: Seed
    device: Annotated[str, matching(Device.fullmatch, "auto, cpu, mps, cuda, or a certain GPU such as cuda:0")]
    resume: Literal["auto", "never"]
    runs_dir: str
    group: Annotated[
        str,
        matching(
            Name.fullmatch,
            "one folder's name: a letter (a to z) or digit, then letters, digits, '_', '.' and '-', at most 100; "
            "such as head_count",
        ),
    ]
    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Config:
        """The checked configuration of plain nested values.

        Raises ConfigError that names every offending setting, what was got and the rule.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise ConfigError("\n".join(lines(error, list(setting_names())))) from None

    @property
    def origins(self) -> dict[str, str]:
        """Where each setting's value came from: a file, or the command line; empty where nobody told."""
        return self._origins

    def came_from(self, origins: Mapping[str, str]) -> Config:
        """This configuration, knowing where its values came from."""
        known = self.model_copy()
        known._origins = dict(origins)
        return known

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.model_dump() == other.model_dump()

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that decide a result: what a run is named and recognised by."""
        return _deciding(self.model_dump())


NOT_IDENTITY = frozenset(
    {
        *(
            "logger",
            "sweep",
            "resume",
            "runs_dir",
            "group",
            "sample",
            "measurement",
            "diagnostics",
        ),  # who watches, where files go
        *("data.path", "data.train", "data.validation", "data.verify"),  # where a corpus lies: it counts by its hash
        "training.learning_rate_from",  # the rate that it gave counts
    }
)
"""Settings, and sections as a whole, that do not decide a result."""


def decides_result(setting: str) -> bool:
    """Whether two runs must agree on a setting to be comparable; of settings in dotted form, sections included.

    >>> [decides_result(name) for name in ("heads", "data.order", "data.path", "logger.mode", "logger")]
    [True, True, False, False, False]
    """
    return setting not in NOT_IDENTITY and setting.partition(".")[0] not in NOT_IDENTITY


def _deciding(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    return {
        name: _deciding(value, f"{prefix}{name}.") if isinstance(value, Mapping) else value
        for name, value in values.items()
        if decides_result(prefix + name)
    }


def config_hash(identity: Mapping[str, Any], data_hash: str) -> str:
    """Twelve hexadecimal digits that name these settings on this corpus.

    Equal values give equal hashes however they were written (1e-5 or 0.00001).
    """
    canonical = json.dumps({"config": identity, "data": data_hash}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def setting_names(section: type[BaseModel] = Config, prefix: str = "") -> Iterator[str]:
    """Every setting in dotted form, once each, sections included: 'heads', 'model', 'model.d_model', ...

    Of a section that comes in several kinds, such as 'data', the settings of all of them.
    """
    for name, field in section.model_fields.items():
        yield prefix + name
        yield from dict.fromkeys(
            inner for kind in sections(field.annotation) for inner in setting_names(kind, f"{prefix}{name}.")
        )


def settings_of_kind(section: str, kind: str) -> list[str] | None:
    """The settings of one kind of a section that comes in several, such as data=copy; None where it is not one."""
    for model in sections(Config.model_fields[section].annotation):
        names = model.model_fields.get("name")
        if names is not None and kind in get_args(names.annotation):
            return list(model.model_fields)
    return None


def sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """The sections that a field of this type may hold: none for a plain value, several for `data`."""
    for kind in (annotation, *get_args(annotation)):
        if kind is Task:
            yield from TASKS.values()
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            yield kind


REGIMES: tuple[str, ...] = get_args(Regime)
KERNELS: tuple[str, ...] = get_args(Kernel)
