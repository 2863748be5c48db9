"""What heads are worth: the loss with heads silenced, and the gradient of the loss by a head's share.

A head is silenced where its output enters the layer's output matrix: set to zero, or to its mean over the data. Zero is
the same as zeroing the head's columns of that matrix.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float
from scipy import stats
from torch import Tensor, nn

from src.data.tasks.task import NO_ANSWER
from src.model.encoder import VectorModel
from src.model.gpt import GPT, Block
from src.model.losses import answer_loss

BATCH = 64
"""Sequences that go through the model at once."""
FREE = 0.001
"""Nats (or units of the loss): a head whose ablation surely costs less counts as one that can be ablated."""
Heads = Mapping[int, Collection[int]]
"""Layer -> heads of it."""


@dataclass(frozen=True)
class Losses:
    """Sums of the loss over the answers of each sequence, and how many answers each has."""

    sums: Float[Tensor, " N"]
    answers: Float[Tensor, " N"]

    @property
    def mean(self) -> float:
        return float(self.sums.sum() / self.answers.sum())


@dataclass(frozen=True)
class Change:
    """A difference of two losses an answer, and half of its 95% interval over the sequences."""

    mean: float
    margin: float | None
    sequences: int

    @property
    def is_free(self) -> bool:
        """Whether the upper end of the interval is below `FREE`."""
        return self.margin is not None and self.mean + self.margin < FREE


def change(after: Losses, before: Losses) -> Change:
    """What the mean loss gained from `before` to `after`, on the same sequences."""
    difference = after.sums - before.sums
    mean = float(difference.sum() / before.answers.sum())
    n = len(difference)
    if n < 2:
        return Change(mean, None, n)
    # The ratio of two sums: its spread is that of what each sequence leaves over from the mean.
    left = difference - mean * before.answers
    error = float(left.square().sum().div(n - 1).mul(n).sqrt() / before.answers.sum())
    return Change(mean, float(stats.t.ppf(0.975, n - 1)) * error, n)


class HeldOut:
    """Sequences with their answers, and what of the model's pass over them is used again: the input of each block."""

    def __init__(self, model: GPT | VectorModel, inputs: Tensor, targets: Tensor) -> None:
        self.model, self.inputs, self.targets = model, inputs, targets
        self.blocks = cast(Sequence[Block], model.blocks)

    @torch.inference_mode()
    def losses(self, silenced: Heads | None = None, means: Sequence[Tensor] | None = None) -> Losses:
        """With these heads set to zero, or to their `means`; of the whole model where none are named."""
        layers = [layer for layer, heads in (silenced or {}).items() if heads]
        first = min(layers, default=0)
        parts = []
        with silence(self.model, silenced or {}, means):
            for batch, targets in zip(self._entering(first), self.targets.split(BATCH), strict=True):
                x = batch
                for block in self.blocks[first:]:
                    x = block(x)
                parts.append(_by_sequence(self.model.leave(x), targets))
        return Losses(torch.cat([sums for sums, _ in parts]), torch.cat([answers for _, answers in parts]))

    @torch.inference_mode()
    def keep(self) -> None:
        """Remembers what enters each block, so that `losses` starts at the first layer that differs."""
        self._kept: list[list[Tensor]] = [[] for _ in self.blocks]
        for inputs in self.inputs.split(BATCH):
            x = self.model.enter(inputs)
            for layer, block in enumerate(self.blocks):
                self._kept[layer].append(x)
                x = block(x)

    def _entering(self, layer: int) -> Iterator[Tensor]:
        kept = getattr(self, "_kept", None)
        if kept is not None:
            yield from kept[layer]
            return
        for inputs in self.inputs.split(BATCH):
            x = self.model.enter(inputs)
            for block in self.blocks[:layer]:
                x = block(x)
            yield x

    def mean_outputs(self) -> list[Float[Tensor, " HD"]]:
        """Of each layer, the mean over all positions of what enters its output matrix."""
        sums, positions = [torch.zeros(()) for _ in self.blocks], 0

        def add(layer: int) -> Callable[..., None]:
            def look(_: nn.Module, given: tuple[Tensor]) -> None:
                sums[layer] = sums[layer] + given[0].sum((0, 1), dtype=torch.float64)

            return look

        with _hooked(self.model, {layer: add(layer) for layer in range(len(sums))}), torch.inference_mode():
            for inputs in self.inputs.split(BATCH):
                x = self.model.enter(inputs)
                positions += x.shape[0] * x.shape[1]
                for block in self.blocks:
                    x = block(x)
        return [total / positions for total in sums]

    def gradient_importance(self) -> Float[Tensor, "L H"]:
        """Mean over sequences of |d loss / d share|, every head's share being 1.

        Source: Michel, Levy and Neubig 2019, section 4.1, where the expectation is over examples too.
        """
        g = self.model.geometry
        total = torch.zeros(g.layers, g.heads, dtype=torch.float64)
        for inputs, targets in zip(self.inputs, self.targets, strict=True):
            shares = [torch.ones(g.heads, requires_grad=True) for _ in range(g.layers)]
            hooks = {layer: _times(shares[layer]) for layer in range(g.layers)}
            with _hooked(self.model, hooks), torch.enable_grad():
                loss = answer_loss(self.model(inputs[None]), targets[None])
                found = torch.autograd.grad(loss, shares)
            total += torch.stack(found).abs()
        return total / len(self.inputs)


def ablatable(held: HeldOut) -> list[tuple[int, int]]:
    """Layer and head of those whose ablation to zero, one at a time, is free."""
    g = held.model.geometry
    held.keep()
    whole = held.losses()
    every = [(layer, head) for layer in range(g.layers) for head in range(g.heads)]
    return [(layer, head) for layer, head in every if change(held.losses({layer: [head]}), whole).is_free]


@contextlib.contextmanager
def silence(model: GPT | VectorModel, heads: Heads, means: Sequence[Tensor] | None = None) -> Iterator[None]:
    """Inside, these heads of the model write nothing, or their part of the layer's `means`."""
    g = model.geometry
    hooks = {}
    for layer, silenced in heads.items():
        if silenced:
            is_silent = torch.zeros(g.heads, dtype=torch.bool)
            is_silent[list(silenced)] = True
            hooks[layer] = _instead(is_silent.repeat_interleave(g.head_dim), means[layer] if means else None)
    with _hooked(model, hooks):
        yield


def _instead(is_silent: Bool[Tensor, " HD"], mean: Tensor | None) -> Callable[..., tuple[Tensor]]:
    def replace(_: nn.Module, given: tuple[Tensor]) -> tuple[Tensor]:
        (x,) = given
        return (torch.where(is_silent.to(x.device), 0.0 if mean is None else mean.to(x), x),)

    return replace


def _times(shares: Float[Tensor, " H"]) -> Callable[..., tuple[Tensor]]:
    def scale(_: nn.Module, given: tuple[Tensor]) -> tuple[Tensor]:
        (x,) = given
        return ((x.unflatten(2, (len(shares), -1)) * shares[:, None].to(x)).flatten(2),)

    return scale


@contextlib.contextmanager
def _hooked(model: GPT | VectorModel, hooks: Mapping[int, Callable[..., object]]) -> Iterator[None]:
    """Each hook is called with what enters the output matrix of its layer."""
    blocks = cast(Sequence[Block], model.blocks)
    handles = [blocks[layer].attention.output.register_forward_pre_hook(hook) for layer, hook in hooks.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _by_sequence(answers: Tensor, targets: Tensor) -> tuple[Float[Tensor, " B"], Float[Tensor, " B"]]:
    losses = answer_loss(answers, targets, reduction="none").cpu().double().view(len(targets), -1)
    if targets.is_floating_point():
        return losses.sum(1), torch.full((len(targets),), losses.shape[1], dtype=torch.float64)
    return losses.sum(1), (targets != NO_ANSWER).sum(1).cpu().double()
