"""What the heads do while a model trains: a few numbers a layer every `diagnostics.interval` steps, and at the end how
many heads the model could do without. Nothing of it changes what is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from src.data.load import EvaluationBatches
from src.heads.measure.ablation import HeldOut, ablatable
from src.heads.measure.patterns import repeated_tokens
from src.heads.measure.roles import null_of
from src.heads.measure.summary import layer_summaries, look_at_heads, model_summary
from src.model.encoder import VectorModel
from src.model.gpt import GPT
from src.training.runtime import Runtime

SEQUENCES = 16
"""Held-out sequences that patterns and outputs are compared on."""
PROBES = 4
"""Sequences of repeated random tokens that scores are taken on."""
ABLATED = 32
"""Held-out sequences that heads are ablated on at the end."""
Row = dict[str, float | None]


class Diagnostics:
    """Looks at the heads of one run's model, always on the same sequences and against the same random weights."""

    def __init__(
        self, interval: int, init: str, held_out: EvaluationBatches, make_model: Callable[[], GPT | VectorModel]
    ) -> None:
        """`make_model` gives a model of the run's shape, whose weights are drawn anew as `init` says."""
        self.interval = interval
        self._inputs, _ = held_out.some(SEQUENCES)
        self._ablated = held_out.some(ABLATED)
        self._probe = self._null = None
        model = make_model()
        if isinstance(model, GPT):
            self._probe = repeated_tokens(model.vocabulary_size, model.geometry.context_length, PROBES)
            self._null = None if self._probe is None else null_of(model, init, self._probe)

    def is_due(self, step: int, total_steps: int) -> bool:
        return step % self.interval == 0 or step == total_steps

    def row(self, model: GPT | VectorModel, runtime: Runtime) -> Row:
        """The numbers of every layer and of the whole model, as metrics."""
        with evaluating(model), runtime.autocast():
            seen = look_at_heads(model, self._inputs.to(runtime.device), self._probe)
        layers = layer_summaries(seen, self._null)
        row: Row = {f"heads/{name}": value for name, value in model_summary(layers).items()}
        for number, layer in enumerate(layers):
            row |= {f"heads/layer_{number}/{name}": value for name, value in layer.items()}
        return {name: value for name, value in row.items() if value is not None}

    def ablatable(self, model: GPT | VectorModel, runtime: Runtime) -> float:
        """The share of heads that can be ablated, one at a time, for next to nothing."""
        inputs, targets = (part.to(runtime.device) for part in self._ablated)
        with evaluating(model), runtime.autocast():
            free = ablatable(HeldOut(model, inputs, targets))
        return len(free) / (model.geometry.layers * model.geometry.heads)


@contextmanager
def evaluating(model: GPT | VectorModel) -> Iterator[None]:
    """Dropout is off inside; the mode is put back after."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
