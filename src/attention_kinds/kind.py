"""What a kind of attention must say of itself: widths, checks, costs, names, layer and cache, all in one class.

Configuration, regimes, costs, model, audit, benchmark and export ask a kind and never test which one it is.
Nothing here loads torch; the layer and the cache are imported when a model is built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from src.attention_kinds.sharing import check_sharing, reference_head_dim
from src.errors import ConfigError

if TYPE_CHECKING:
    from src.config import Config
    from src.geometry import Geometry
    from src.model.attention import AttentionLayer
    from src.model.cache import Cache


@dataclass(frozen=True)
class Reference:
    """The heads that a regime holds to: grouped attention, side by side as wide as the model.

    Asked only where something is solved for, so that a model without a possible reference can be had elsewhere.
    """

    d_model: int
    heads: int
    written_kv_heads: int | None

    @property
    def kv_heads(self) -> int:
        """Raises ConfigError where they do not divide the heads."""
        if self.written_kv_heads is None:
            return self.heads
        check_sharing(self.heads, self.written_kv_heads, prefix="reference_")
        return self.written_kv_heads

    @property
    def head_dim(self) -> int:
        """Raises ConfigError where it is not whole."""
        return reference_head_dim(self.d_model, self.heads)

    @property
    def kv_width(self) -> int:
        """Width of all its keys, or of all its values, side by side."""
        return self.kv_heads * self.head_dim


class AttentionKind(ABC):
    """One kind of attention. Costs are integers of one layer; `tokens` are those that a query sees, itself included."""

    name: ClassVar[str]
    """The value of the setting `attention`."""
    words: ClassVar[str]
    """What a caption calls it."""
    settings: ClassVar[tuple[str, ...]] = ()
    """The widths among settings and integers that only this kind uses; 0 in the geometry of all others."""
    shares_kv_heads: ClassVar[bool]
    """Whether the number of kv-heads is a choice of its own."""

    # From the settings to integers.
    def head_dim(self, config: Config, kv_heads: int, reference: Reference) -> int:
        """Width of one head, in every regime but fixed_width. Raises ConfigError where there is none."""
        return reference.head_dim if config.head_dim is None else config.head_dim

    def own_widths(self, config: Config, head_dim: int, reference: Reference) -> dict[str, int]:
        """The integers of `settings`. Raises ConfigError where they cannot be."""
        return {}

    @abstractmethod
    def check(self, geometry: Geometry) -> None:
        """Raises ConfigError for integers that this kind cannot have; kv_heads divide heads already."""

    # Names.
    @abstractmethod
    def display_name(self, heads: int, kv_heads: int) -> str:
        """The field's short name, such as GQA."""

    @abstractmethod
    def run_label(self, geometry: Geometry) -> str | None:
        """What a run's name says of it behind the heads; None for plain MHA."""

    @property
    def shape_columns(self) -> tuple[str, ...]:
        """The integers of the geometry that a table of this kind shows."""
        kv_heads = ("kv_heads",) if self.shares_kv_heads else ()
        return ("heads", *kv_heads, "head_dim", *self.settings, "attention_width", "ffn_width")

    # The cache.
    @abstractmethod
    def cache_elements_per_token(self, geometry: Geometry) -> int:
        """Numbers that one layer keeps of one past token."""

    def cached_tokens(self, geometry: Geometry, tokens: int) -> int:
        """Of so many tokens, those that the cache keeps and a query sees; fewer where the kind has a window."""
        return tokens

    @abstractmethod
    def cache_formula(self, geometry: Geometry) -> str:
        """`cache_elements_per_token`, written out for people."""

    # Parameters and FLOPs.
    @abstractmethod
    def matrix_parameters(self, geometry: Geometry) -> int:
        """Weights of its matrices: what multiplies every token."""

    @abstractmethod
    def other_parameters(self, geometry: Geometry) -> int:
        """Its biases and norms."""

    @abstractmethod
    def mixing_flops(self, geometry: Geometry, tokens: int) -> int:
        """FLOPs of one query of every head to score and mix `tokens` keys and values, in training and prefill."""

    def decode_mixing_flops(self, geometry: Geometry, tokens: int) -> int:
        """The same where one token is decoded on a cache."""
        return self.mixing_flops(geometry, tokens)

    @abstractmethod
    def naive_copy_elements(self, geometry: Geometry) -> int:
        """Numbers a cached token that naive decoding writes out before it attends: keys and values of every head."""

    # The real thing.
    @abstractmethod
    def modules(self) -> tuple[type[AttentionLayer], type[Cache]]:
        """The layer and the cache that it fills. Imports torch, here and nowhere else in a kind."""


_KINDS: dict[str, AttentionKind] = {}


def register(kind: AttentionKind) -> AttentionKind:
    """Makes a kind known by its name, everywhere."""
    _KINDS[kind.name] = kind
    return kind


def registered() -> tuple[str, ...]:
    """The names that the setting `attention` may have."""
    return tuple(_KINDS)


def kind_of(name: str) -> AttentionKind:
    """The kind of this name. Raises ConfigError that lists those there are."""
    if name not in _KINDS:
        raise ConfigError(f"attention={name!r}: there is no such kind; choose one of {', '.join(_KINDS)}")
    return _KINDS[name]


def display_name(attention: str, heads: int, kv_heads: int) -> str:
    """The field's short name of what a record holds; a kind that is not known here keeps the name it was given.

    >>> from src.attention_kinds import display_name
    >>> [display_name("grouped", 8, kv_heads) for kv_heads in (8, 2, 1)], display_name("latent", 8, 8)
    (['MHA', 'GQA', 'MQA'], 'MLA')
    """
    return _KINDS[attention].display_name(heads, kv_heads) if attention in _KINDS else attention


def own_settings(attention: str | None) -> tuple[str, ...]:
    """The widths that only this kind uses; none of a kind that is not known here."""
    return _KINDS[attention].settings if attention in _KINDS else ()


def refuse_foreign_settings(config: Config) -> None:
    """Raises ConfigError for a width that only another kind uses."""
    own = own_settings(config.attention)
    for other in _KINDS.values():
        written = {name: getattr(config, name) for name in other.settings if name not in own}
        if any(value is not None for value in written.values()):
            told = " and ".join(f"{name}={'null' if value is None else value}" for name, value in written.items())
            raise ConfigError(
                f"{told} belong to attention={other.name}; leave them null with attention={config.attention}"
            )
