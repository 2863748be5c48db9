"""Every task at a length of its own, with examples of both of its streams."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from src.data.examples import Arrays, Examples
from src.data.tasks.copy import Copy
from src.data.tasks.farthest_point import FarthestPoint
from src.data.tasks.induction import Induction
from src.data.tasks.markov import Markov
from src.data.tasks.max_retrieval import MaxRetrieval
from src.data.tasks.recall import Recall
from src.data.tasks.task import Task
from src.data.tasks.two_lookups import TwoLookups
from src.io_spec import TokenSpec

T = TypeVar("T", bound=Task)


def make(kind: type[T], train_examples: int | None = None, test_examples: int = 100, **settings: Any) -> T:
    """A task of these settings: make(Copy, symbols=4)."""
    return kind(train_examples=train_examples, test_examples=test_examples, **settings)


COPY = make(Copy, symbols=16)
INDUCTION = make(Induction, symbols=16)
RECALL = make(Recall, vocabulary_size=64, pairs=4, power=0.01)
MARKOV = make(Markov, symbols=3, depth=2)
TWO_LOOKUPS = make(TwoLookups, keys=6, values=3, repeats=4)
MAX_RETRIEVAL = make(MaxRetrieval, directions=3, features=4)
FARTHEST_POINT = make(FarthestPoint, features=5)
TASKS = [COPY, INDUCTION, RECALL, MARKOV, TWO_LOOKUPS, MAX_RETRIEVAL, FARTHEST_POINT]
TOKEN_TASKS = [task for task in TASKS if isinstance(task.io_spec, TokenSpec)]
LENGTHS = {
    "copy": 64,
    "induction": 32,
    "recall": 40,
    "markov": 60,
    "two_lookups": 13,
    "max_retrieval": 9,
    "farthest_point": 7,
}


def named(value: Any) -> str | None:
    return value.name if isinstance(value, Task) else None


@pytest.fixture
def examples() -> Callable[..., Arrays]:
    """Inputs and targets of a task's stream: examples(task, count=100, key=1)."""

    def of(task: Task, count: int = 100, key: int = 1) -> Arrays:
        return Examples(task, LENGTHS[task.name], key).arrays(0, count)

    return of
