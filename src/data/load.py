"""Data by its name. Whatever it is, it answers the same calls, and a run needs no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from src.config import DataConfig, ShardsConfig, TrainingConfig
from src.data.examples import TaskData
from src.data.shards import token_shards
from src.data.tasks.task import NO_ANSWER, Task
from src.data.texts import TEXTS
from src.data.vocabulary import Vocabulary
from src.io_spec import IOSpec

if TYPE_CHECKING:
    from torch import Tensor


class Batches(Protocol):
    """Training batches by step number, a pure function of the seed and the step."""

    @property
    def steps_per_epoch(self) -> int | None: ...

    def batch(self, step: int) -> tuple[Tensor, Tensor]: ...


class EvaluationBatches(Protocol):
    """The whole of what is evaluated, the same for every model and seed; it can be gone through again."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]: ...

    def some(self, count: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of so many whole sequences, or of all where there are fewer; always the same ones."""
        ...

    def loss_floor(self) -> float | None:
        """The least mean loss that any model can expect here; None where nobody knows."""
        ...


class Data(Protocol):
    """What a run trains on and is judged by: a corpus or a task."""

    @property
    def name(self) -> str: ...

    @property
    def hash(self) -> str:
        """Names the content, wherever it lies: equal hashes mean equal data."""
        ...

    @property
    def io_spec(self) -> IOSpec:
        """What a model reads and what it answers."""
        ...

    @property
    def has_answers(self) -> bool:
        """Whether the share of right answers, val/accuracy, means something here."""
        ...

    @property
    def vocabulary(self) -> Vocabulary | None: ...

    @property
    def bytes_per_token(self) -> float | None: ...

    @property
    def facts(self) -> dict[str, Any]:
        """What the record keeps of it, as plain values."""
        ...

    def check_length(self, context_length: int) -> None:
        """Raises UserError where it has nothing as long as the context."""
        ...

    def epoch_tokens(self, context_length: int) -> float | None:
        """Tokens that one epoch trains on, about; None where there are no epochs."""
        ...

    def training_batches(self, context_length: int, training: TrainingConfig, seed: int) -> Batches: ...

    def evaluation_batches(self, context_length: int, training: TrainingConfig) -> EvaluationBatches: ...


def load_data(data: DataConfig, launch_dir: Path | None = None) -> Data:
    """The corpus or the task that `data` names.

    A relative `data.path` starts at `launch_dir`, the folder where the command was typed (None: the current one),
    so that it means the same file under every launcher.
    Raises DataError where something is missing, unreadable or not as published, or a setting does not fit it.
    """
    launch_dir = launch_dir or Path.cwd()
    if isinstance(data, Task):
        return TaskData(data)
    if isinstance(data, ShardsConfig):
        return token_shards(data, launch_dir)
    return TEXTS[data.name](data, launch_dir)


def count_answers(targets: Tensor) -> int:
    """How many answers a batch asks for: tokens that are not left out, or vectors."""
    return int((targets != NO_ANSWER).sum()) if not targets.is_floating_point() else targets.shape[0] * targets.shape[1]
