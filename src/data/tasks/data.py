"""A task as data: the same calls as a corpus answers."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from src.config import AnyTaskConfig, TrainingConfig
from src.data.tasks.copy import Copy
from src.data.tasks.farthest_point import FarthestPoint
from src.data.tasks.induction import Induction
from src.data.tasks.markov import Markov
from src.data.tasks.max_retrieval import MaxRetrieval
from src.data.tasks.recall import Recall
from src.data.tasks.stream import EvaluationExamples, TrainingExamples
from src.data.tasks.task import Task
from src.data.vocabulary import IdVocabulary, Vocabulary
from src.errors import ConfigError
from src.io_spec import IOSpec, TokenSpec

TASKS: dict[str, type[Task]] = {
    task.name: task for task in (Copy, Induction, Recall, Markov, MaxRetrieval, FarthestPoint)
}


@dataclass(frozen=True)
class TaskData:
    """A task with the number of its examples: a training stream for each seed, one test set for all."""

    task: Task
    train_examples: int | None
    test_examples: int

    @classmethod
    def of(cls, data: AnyTaskConfig) -> TaskData:
        values = data.model_dump()
        name, train, test = (values.pop(field) for field in ("name", "train_examples", "test_examples"))
        return cls(TASKS[name](**values), train, test)

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def hash(self) -> str:
        """Of what defines the examples; the task's version stands for its code."""
        definition = {
            "task": self.task.name,
            "version": self.task.version,
            "settings": asdict(self.task),  # pyright: ignore[reportArgumentType]
            "train_examples": self.train_examples,
            "test_examples": self.test_examples,
        }
        return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()

    @property
    def io_spec(self) -> IOSpec:
        """What a model reads and what it answers."""
        return self.task.io_spec

    @property
    def has_answers(self) -> bool:
        """Whether an answer is right or wrong; a vector is only near or far."""
        return isinstance(self.io_spec, TokenSpec)

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The tokens as numbers; null where the examples are vectors."""
        return IdVocabulary(self.io_spec.vocabulary_size) if isinstance(self.io_spec, TokenSpec) else None

    @property
    def bytes_per_token(self) -> None:
        """A task's tokens stand for no text."""
        return None

    @property
    def facts(self) -> dict[str, Any]:
        """What the record keeps of a task, as plain values."""
        vocabulary = self.vocabulary
        return {
            "name": self.name,
            "source": f"src.data.tasks.{self.name}, version {self.task.version}",
            "hash": self.hash,
            "train_tokens": None,
            "val_tokens": None,
            "bytes_per_token": self.bytes_per_token,
            "train_examples": self.train_examples,
            "test_examples": self.test_examples,
            "ends": asdict(self.io_spec),
            "vocabulary_size": vocabulary.size if vocabulary else None,
            "vocabulary_hash": vocabulary.hash if vocabulary else None,
            "vocabulary": vocabulary.facts if vocabulary else None,
        }

    def check_length(self, context_length: int) -> None:
        """Raises ConfigError where no example is as long as the context."""
        self.task.check_length(context_length)

    def training_batches(self, context_length: int, training: TrainingConfig, seed: int) -> TrainingExamples:
        """Examples of the training stream, by step."""
        if self.train_examples is None and training.epochs is not None:
            raise ConfigError(
                f"training.epochs={training.epochs} with data.train_examples=null: an endless stream has no epochs; "
                "give training.max_steps instead, or a number of train_examples"
            )
        return TrainingExamples(self.task, context_length, training.batch_size, self.train_examples, seed)

    def evaluation_batches(self, context_length: int, training: TrainingConfig) -> EvaluationExamples:
        """The whole test set. Raises ConfigError for evaluation settings that mean windows of a text."""
        if training.eval_stride is not None or training.eval_drop_partial_batch:
            raise ConfigError(
                f"training.eval_stride={training.eval_stride} and training.eval_drop_partial_batch="
                f"{training.eval_drop_partial_batch} with data={self.name}: examples are no windows of a text and all "
                "count; leave them null and false"
            )
        return EvaluationExamples(self.task, context_length, training.eval_batch_size, self.test_examples)
