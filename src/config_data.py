"""The data part of the configuration: a section of its own for each kind, told apart by `name`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from src.section import Positive, Rate, Section

Order = Literal["shuffled", "random", "sequential"]
Symbols = Annotated[int, Field(ge=2)]


class CorpusConfig(Section):
    """One long sequence of tokens, read in windows."""

    path: str | None
    order: Order
    stride: Positive | None


class TextConfig(CorpusConfig):
    """A file of text or bytes whose tokens are its characters or its bytes."""

    name: Literal["shakespeare", "tinyshakespeare", "text_file", "bytes_file"]
    validation_fraction: Annotated[float, Field(gt=0, lt=1)] | None


class ShardsConfig(CorpusConfig):
    """Token files: a folder that `python -m src.data.prepare` wrote, or files as nanoGPT and llm.c write them."""

    name: Literal["token_shards"]
    train: str
    validation: str
    dtype: Literal["uint16", "uint32"] | None
    vocabulary_size: Positive | None
    verify: Literal["full", "sampled"]


class TaskConfig(Section):
    """A synthetic task: a training stream for each seed, and one test set for all."""

    train_examples: Positive | None
    test_examples: Positive


class CopyConfig(TaskConfig):
    name: Literal["copy"]
    symbols: Symbols


class InductionConfig(TaskConfig):
    name: Literal["induction"]
    symbols: Symbols


class RecallConfig(TaskConfig):
    name: Literal["recall"]
    vocabulary_size: Annotated[int, Field(ge=4)]
    pairs: Positive
    power: Rate


class MarkovConfig(TaskConfig):
    name: Literal["markov"]
    symbols: Symbols
    depth: Positive


class MaxRetrievalConfig(TaskConfig):
    name: Literal["max_retrieval"]
    directions: Positive
    features: Positive


class FarthestPointConfig(TaskConfig):
    name: Literal["farthest_point"]
    features: Annotated[int, Field(ge=2)]


AnyTaskConfig = CopyConfig | InductionConfig | RecallConfig | MarkovConfig | MaxRetrievalConfig | FarthestPointConfig
DataConfig = Annotated[TextConfig | ShardsConfig | AnyTaskConfig, Field(discriminator="name")]
