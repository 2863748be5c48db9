"""A task as data: streams of its examples, cut into batches, and the calls that a corpus answers too.

Example k of a stream is a function of its key and of k alone, so neither the model nor the batch size nor what was
asked for before can change it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from src.config import TrainingConfig
from src.data.permutation import ShuffledEpochs
from src.data.tasks.task import Task
from src.data.vocabulary import IdVocabulary, Vocabulary
from src.errors import ConfigError
from src.io_spec import IOSpec, TokenSpec
from src.randomness import WORDS_A_COUNT, random_words, stream_seed

if TYPE_CHECKING:
    from torch import Tensor

Arrays = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


@dataclass(frozen=True)
class TaskData:
    """A training stream for each seed, and one test set for all."""

    task: Task

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def hash(self) -> str:
        """Of what defines the examples; the task's version stands for its code."""
        settings = self.task.model_dump()
        counts = {count: settings.pop(count) for count in ("train_examples", "test_examples")}
        definition = {"task": settings.pop("name"), "version": self.task.version, "settings": settings, **counts}
        return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()

    @property
    def io_spec(self) -> IOSpec:
        return self.task.io_spec

    @property
    def has_answers(self) -> bool:
        """Whether an answer is right or wrong; a vector is only near or far."""
        return isinstance(self.io_spec, TokenSpec)

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The tokens as numbers; None where the examples are vectors."""
        return IdVocabulary(self.io_spec.vocabulary_size) if isinstance(self.io_spec, TokenSpec) else None

    @property
    def bytes_per_token(self) -> None:
        """A task's tokens stand for no text."""

    @property
    def facts(self) -> dict[str, Any]:
        vocabulary = self.vocabulary
        return {
            "name": self.name,
            "source": f"{type(self.task).__module__}, version {self.task.version}",
            "hash": self.hash,
            "train_tokens": None,
            "val_tokens": None,
            "bytes_per_token": self.bytes_per_token,
            "train_examples": self.task.train_examples,
            "test_examples": self.task.test_examples,
            "ends": asdict(self.io_spec),
            "vocabulary_size": vocabulary.size if vocabulary else None,
            "vocabulary_hash": vocabulary.hash if vocabulary else None,
            "vocabulary": vocabulary.facts if vocabulary else None,
            **({"landmarks": self.task.landmarks} if self.task.landmarks else {}),
        }

    def check_length(self, context_length: int) -> None:
        self.task.check_length(context_length)

    def epoch_tokens(self, context_length: int) -> float | None:
        count = self.task.train_examples
        return None if count is None else count * context_length

    def training_batches(self, context_length: int, training: TrainingConfig, seed: int) -> TrainingExamples:
        """Examples of the training stream, by step."""
        if self.task.train_examples is None and training.epochs is not None:
            raise ConfigError(
                f"training.epochs={training.epochs} with data.train_examples=null: an endless stream has no epochs; "
                "give training.max_steps instead, or a number of train_examples"
            )
        return TrainingExamples(self.task, context_length, training.batch_size, seed)

    def evaluation_batches(self, context_length: int, training: TrainingConfig) -> EvaluationExamples:
        """The whole test set. Raises ConfigError for evaluation settings that mean windows of a text."""
        if training.eval_stride is not None or training.eval_drop_partial_batch:
            raise ConfigError(
                f"training.eval_stride={training.eval_stride} and training.eval_drop_partial_batch="
                f"{training.eval_drop_partial_batch} with data={self.name}: examples are no windows of a text and all "
                "count; leave them null and false"
            )
        return EvaluationExamples(self.task, context_length, training.eval_batch_size)


class Examples:
    """An endless stream of examples of one length. Raises ConfigError where the task has none of that length."""

    def __init__(self, task: Task, length: int, key: int) -> None:
        task.check_length(length)
        self.task, self.length, self.key = task, length, key
        # Whole counts, so that the generator can be set to where an example begins.
        self._words = -(-task.words(length) // WORDS_A_COUNT) * WORDS_A_COUNT

    def arrays(self, first: int, count: int) -> Arrays:
        """Inputs and targets of the examples `first` to `first + count - 1`."""
        words = random_words(self.key, first * self._words, count * self._words).reshape(count, self._words)
        return self.task.examples(words[:, : self.task.words(self.length)], self.length)


class TrainingExamples:
    """Batches of the training stream, with no state that a resume would have to restore.

    With `train_examples` None no example comes twice. Otherwise the first of the stream are a fixed training set,
    kept in memory, and each epoch goes once over it in a new random order; every batch is full, and one that reaches
    the end of an epoch goes on into the next.
    """

    def __init__(self, task: Task, length: int, batch_size: int, seed: int) -> None:
        self._examples = Examples(task, length, stream_seed(seed, "data", task.name))
        self._batch_size = batch_size
        self._count = task.train_examples
        self._shuffled = None if self._count is None else ShuffledEpochs(self._count, seed)
        self._fixed: Arrays | None = None

    @property
    def steps_per_epoch(self) -> int | None:
        """Steps that show at least the whole training set; None where it is endless."""
        return None if self._count is None else -(-self._count // self._batch_size)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of the step that follows `step` finished steps, on the CPU."""
        if step < 0:
            raise ValueError(f"step={step}; steps count from 0")
        first = step * self._batch_size
        if self._count is None or self._shuffled is None:
            return _tensors(self._examples.arrays(first, self._batch_size))
        if self._fixed is None:
            self._fixed = self._examples.arrays(0, self._count)
        places = np.concatenate([places for _, places in self._shuffled.pieces(first, self._batch_size)])
        return _tensors((self._fixed[0][places], self._fixed[1][places]))


class EvaluationExamples:
    """The same examples for every model and every seed: an iterable of (inputs, targets), made anew each time.

    They come from a stream of their own, which no training seed names.
    """

    def __init__(self, task: Task, length: int, batch_size: int) -> None:
        self._examples = Examples(task, length, stream_seed(0, "evaluation", task.name))
        self._batch_size = batch_size
        self._count = task.test_examples

    def __len__(self) -> int:
        return -(-self._count // self._batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for first in range(0, self._count, self._batch_size):
            yield _tensors(self._examples.arrays(first, min(self._batch_size, self._count - first)))

    def some(self, count: int) -> tuple[Tensor, Tensor]:
        """So many of the examples, the first ones, or all where there are fewer."""
        return _tensors(self._examples.arrays(0, min(count, self._count)))

    def loss_floor(self) -> float:
        """The least mean loss that any model can expect on this set."""
        return self._examples.task.loss_floor(*self._examples.arrays(0, self._count))


def _tensors(arrays: Arrays) -> tuple[Tensor, Tensor]:
    import torch  # here, not above: naming a task needs no torch

    inputs, targets = (torch.from_numpy(np.ascontiguousarray(part)) for part in arrays)
    return inputs, targets
