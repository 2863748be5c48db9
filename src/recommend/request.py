"""What is asked of the configurator, checked: every size that cannot be ends here, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from src.attention_kinds import registered
from src.errors import ConfigError, did_you_mean
from src.memory import parse_bytes, parse_count, parse_dtype, parse_tokens, parse_whole

PRIORITIES = ("inference", "training")
PROPOSABLE = ("heads", "kv_heads", "head_dim", "attention", "latent_dim", "rope_dim")
CHARACTERS, GPT2_VOCABULARY = 65, 50257
LARGEST = 100_000_000_000_000
CHARACTERS_BELOW = 100_000_000
"""Models of fewer parameters are assumed to read characters: a table of 50,257 tokens would be most of them."""


@dataclass(frozen=True)
class Request:
    """A budget and what it is for. None is what the answer shall decide; without `memory` nothing is said to fit."""

    parameters: int
    context: int
    d_model: int | None = None
    layers: int | None = None
    memory: int | None = None
    priority: str = "inference"
    batch: int = 1
    dtype: str = "float16"
    vocabulary_size: int = GPT2_VOCABULARY
    is_benchmark: bool = False
    proposal: Mapping[str, int | str] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def read(
        cls,
        parameters: str | None,
        *,
        context: str = "2048",
        d_model: str | None = None,
        layers: str | None = None,
        memory: str | None = None,
        priority: str = "inference",
        batch: str = "1",
        cache_dtype: str = "fp16",
        vocabulary_size: str | None = None,
        propose: str | None = None,
        benchmarking: bool = False,
    ) -> Request:
        """The request that a command line writes. Raises ConfigError: what was got, the rule, a way out."""
        if parameters is None:
            raise ConfigError("nothing to recommend for; give the parameter budget, such as --parameters 1B")
        if priority not in PRIORITIES:
            raise ConfigError(
                f"--priority {priority}: it should be {' or '.join(PRIORITIES)}{did_you_mean(priority, PRIORITIES)}"
            )
        budget = parse_count(parameters, "--parameters")
        if budget > LARGEST:
            raise ConfigError(
                f"--parameters {parameters}: it should be at most {LARGEST:,}; nothing larger was published"
            )
        default = CHARACTERS if budget < CHARACTERS_BELOW else GPT2_VOCABULARY
        return cls(
            parameters=budget,
            context=parse_tokens(context, "--context"),
            d_model=None if d_model is None else parse_whole(d_model, "--d-model"),
            layers=None if layers is None else parse_whole(layers, "--layers"),
            memory=None if memory is None else parse_bytes(memory, "--memory"),
            priority=priority,
            batch=parse_whole(batch, "--batch"),
            dtype=parse_dtype(cache_dtype, "--cache-dtype"),
            vocabulary_size=default if vocabulary_size is None else parse_whole(vocabulary_size, "--vocabulary-size"),
            is_benchmark=benchmarking,
            proposal=MappingProxyType({} if propose is None else read_proposal(propose)),
        )


def read_proposal(text: str) -> dict[str, int | str]:
    """What --propose asks for, such as heads=32,kv_heads=8.

    >>> read_proposal("heads=32,kv_heads=8")
    {'heads': 32, 'kv_heads': 8}
    """
    proposal: dict[str, int | str] = {}
    for part in text.split(","):
        name, separator, value = (word.strip() for word in part.partition("="))
        if not separator or not value:
            raise ConfigError(f"--propose {text}: it should be name=value, with commas, such as heads=32,kv_heads=8")
        if name not in PROPOSABLE:
            raise ConfigError(
                f"--propose {name}={value}: there is no such key{did_you_mean(name, PROPOSABLE)}; "
                f"choose from {', '.join(PROPOSABLE)}"
            )
        if name in proposal:
            raise ConfigError(f"--propose {text}: {name} is given twice; give it once")
        proposal[name] = _attention(value) if name == "attention" else parse_whole(value, f"--propose {name}=")
    return proposal


def _attention(value: str) -> str:
    if value not in registered():
        raise ConfigError(f"--propose attention={value}: it should be one of {', '.join(registered())}")
    return value
