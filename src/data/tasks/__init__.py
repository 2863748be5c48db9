"""Synthetic tasks: data whose answer is known, drawn from random words. `data=` takes each of them by its name.

    task                what theory says of more heads
    copy, induction,    a plateau: one head a layer is enough
    recall, markov
    max_retrieval       they help, until there is one for each direction
    two_lookups         they help, up to two
    farthest_point      they hurt: the rank of a head is what counts

A new task is a module like `copy`, its class below, and its values in conf/data/<name>.yaml.
"""

from src.data.tasks.copy import Copy
from src.data.tasks.farthest_point import FarthestPoint
from src.data.tasks.induction import Induction
from src.data.tasks.markov import Markov
from src.data.tasks.max_retrieval import MaxRetrieval
from src.data.tasks.recall import Recall
from src.data.tasks.task import Task
from src.data.tasks.two_lookups import TwoLookups

__all__ = ["TASKS"]

TASKS: dict[str, type[Task]] = {
    task.model_fields["name"].default: task
    for task in (Copy, Induction, Recall, Markov, TwoLookups, MaxRetrieval, FarthestPoint)
}
"""By name. src.config takes the settings of each from here, src.export their columns, in this order."""
