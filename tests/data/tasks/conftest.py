"""Every task at a length of its own, with examples of both of its streams."""

from collections.abc import Callable
from typing import Any

import pytest

from src.data.tasks.copy import Copy
from src.data.tasks.farthest_point import FarthestPoint
from src.data.tasks.induction import Induction
from src.data.tasks.markov import Markov
from src.data.tasks.max_retrieval import MaxRetrieval
from src.data.tasks.recall import Recall
from src.data.tasks.stream import Arrays, Examples
from src.data.tasks.task import Task
from src.io_spec import TokenSpec

LENGTHS: dict[Task, int] = {
    Copy(symbols=16): 64,
    Induction(symbols=16): 32,
    Recall(vocabulary_size=64, pairs=4, power=0.01): 40,
    Markov(symbols=3, depth=2): 60,
    MaxRetrieval(directions=3, features=4): 9,
    FarthestPoint(features=5): 7,
}
TASKS = list(LENGTHS)
TOKEN_TASKS = [task for task in TASKS if isinstance(task.io_spec, TokenSpec)]


def named(value: Any) -> str | None:
    return value.name if hasattr(value, "name") else None


@pytest.fixture
def examples() -> Callable[..., Arrays]:
    """Inputs and targets of a task's stream: examples(task, count=100, key=1)."""

    def of(task: Task, count: int = 100, key: int = 1) -> Arrays:
        return Examples(task, LENGTHS[task], key).arrays(0, count)

    return of
