"""Batches of a task, by step number: which examples does step s see?

Example k of a stream is a function of its key and of k alone, so neither the model nor the batch size nor what was
asked for before can change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from src.data.permutation import ShuffledEpochs
from src.data.tasks.task import NO_ANSWER, Task
from src.randomness import WORDS_A_COUNT, random_words, stream_seed

if TYPE_CHECKING:
    from torch import Tensor

Arrays = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


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

    With `count` null no example comes twice. Otherwise the first `count` of the stream are a fixed training set,
    kept in memory, and each epoch goes once over it in a new random order; every batch is full, and one that reaches
    the end of an epoch goes on into the next.
    """

    def __init__(self, task: Task, length: int, batch_size: int, count: int | None, seed: int) -> None:
        self._examples = Examples(task, length, stream_seed(seed, "data", task.name))
        self._batch_size = batch_size
        self._count = count
        self._shuffled = None if count is None else ShuffledEpochs(count, seed)
        self._fixed: Arrays | None = None

    @property
    def steps_per_epoch(self) -> int | None:
        """Steps that show at least the whole training set; null where it is endless."""
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

    def __init__(self, task: Task, length: int, batch_size: int, count: int) -> None:
        self._examples = Examples(task, length, stream_seed(0, "evaluation", task.name))
        self._batch_size = batch_size
        self._count = count

    def __len__(self) -> int:
        return -(-self._count // self._batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for first in range(0, self._count, self._batch_size):
            yield _tensors(self._examples.arrays(first, min(self._batch_size, self._count - first)))

    def optimum(self) -> float:
        """The least mean loss that any model can expect on this set."""
        return self._examples.task.optimum(*self._examples.arrays(0, self._count))


def answers(targets: Tensor) -> int:
    """How many answers a batch asks for: tokens that are not left out, or vectors."""
    return int((targets != NO_ANSWER).sum()) if not targets.is_floating_point() else targets.shape[0] * targets.shape[1]


def _tensors(arrays: Arrays) -> tuple[Tensor, Tensor]:
    import torch  # here, not above: naming a task needs no torch

    inputs, targets = (torch.from_numpy(np.ascontiguousarray(part)) for part in arrays)
    return inputs, targets
