"""The answer: which of the possible shapes is recommended, what it costs, and what is turned down."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from src import costs
from src.errors import ConfigError
from src.geometry import Geometry
from src.memory import TRAINING_BYTES, Device, Load
from src.metrics import bytes_shown, count_shown
from src.published import PUBLISHED, Published
from src.recommend import commands, shapes
from src.recommend.findings import FINDINGS
from src.recommend.request import Request
from src.recommend.rules import LATENT_MIN_PARAMETERS, Case, Rule, broken

INIT_STD = 0.02
"""Of model.init=gpt2; a test holds it to the weights that src.model.init draws."""


@dataclass(frozen=True)
class Answer:
    """One shape with its price, beside the other ways to keep keys and values of the very same model."""

    request: Request
    case: Case
    beside: tuple[Case, ...]
    """The same model as MHA, GQA, MLA and MQA, as far as there are such, from the largest cache to the smallest."""
    refused: tuple[Rule, ...] = ()
    """Of a proposal: the rules that turn it down. Empty for every recommendation."""
    instead: Case | None = None
    """Of a proposal: what is recommended."""

    @property
    def geometry(self) -> Geometry:
        return self.case.geometry

    @property
    def flags(self) -> list[Rule]:
        """Preferring rules that could not be kept."""
        return broken(self.case, refusing=False)

    @property
    def residual_std(self) -> float:
        """Standard deviation of O, and of the feed-forward's second matrix, which end a residual branch."""
        return INIT_STD / math.sqrt(2 * self.geometry.layers)

    @property
    def nearest(self) -> Published:
        """The published shape that is nearest in parameters and width, then in kind."""
        return nearest(self.case)

    def as_dict(self) -> dict[str, Any]:
        """Everything that is printed, as plain values; bytes and counts are integers."""
        small = commands.scaled(self.geometry)
        return {
            "status": "refused" if self.refused else "recommended" if self.instead is None else "accepted",
            "sentence": reason(self),
            **priced(self.case),
            "geometry": self.geometry.as_dict(),
            "parameters_asked": self.request.parameters,
            "vocabulary_size": self.request.vocabulary_size,
            "context": self.request.context,
            "batch": self.request.batch,
            "memory": self.request.memory,
            "priority": self.request.priority,
            "flags": [rule.name for rule in self.flags],
            "refused": [
                {"rule": r.name, "statement": r.statement, "source": r.source, "instead": r.instead}
                for r in self.refused
            ],
            "instead": None if self.instead is None else priced(self.instead),
            "beside": [priced(case) for case in self.beside],
            "initialisation": {"scheme": "gpt2", "std": INIT_STD, "residual_std": self.residual_std, "biases": False},
            "hook": _hook(self.case),
            "commands": {
                "train": commands.train(small),
                "audit": commands.audit(self.geometry, self.request.vocabulary_size),
                "bench": commands.bench(small),
            },
            "trained_geometry": small.as_dict(),
            "trained_cache_bytes_fp32": costs.cache_bytes(small, 1, small.context_length, "float32"),
            "findings": [{"study": f.path, "setting": f.setting, "says": f.says, "rule": f.rule} for f in FINDINGS],
            "nearest_published": self.nearest.name,
        }


def answer(request: Request) -> Answer:
    """The recommendation; or, where the request proposes a shape, the judgement of it.

    Raises ConfigError for what cannot be: a budget, width or memory that no shape meets, or a contradiction.
    """
    recommended = recommend(request)
    if not request.proposal:
        return Answer(request, recommended, beside(request, recommended))
    g = recommended.geometry
    proposed = case_of(request, shapes.propose(request, g.d_model, g.heads))
    return Answer(
        request,
        proposed,
        beside(request, proposed),
        refused=tuple(broken(proposed, refusing=True)),
        instead=recommended,
    )


def recommend(request: Request) -> Case:
    """The shape for a budget: width and heads by the document's rules, keys and values by what the cache costs.

    Of the candidates, from the largest cache to the smallest, the first that breaks no rule; where none is left, the
    smallest cache that fits, and MQA last. Training weighs no cache, so there the first that shares as it should.
    """
    d_model = shapes.width_for(request)
    heads = shapes.heads_for(d_model)
    candidates = [case_of(request, geometry) for geometry in _candidates(request, d_model, heads)]
    for case in candidates:
        shapes.check_depth(request, case.geometry)
    _check_memory(request, candidates)
    allowed = [case for case in candidates if not broken(case, refusing=True)]
    shared = [case for case in allowed if not _breaks(case, "kv_heads_served")] or allowed
    if request.priority == "training":
        return shared[0]
    wide = [case for case in shared if case.name != "MQA"]
    light = [case for case in wide if not _breaks(case, "cache_share") and not _breaks(case, "fits")]
    fitting = [case for case in wide if not _breaks(case, "fits")]
    return [*light[:1], *fitting[-1:], shared[-1]][0]


def beside(request: Request, case: Case) -> tuple[Case, ...]:
    """The same model, layer for layer, with every other way to keep keys and values, its own included."""
    g = case.geometry
    ways = [shapes.with_sharing(g, way) for way in shapes.sharings(g.d_model, g.heads, with_latent=True)]
    shown = {shape: None for shape in ways if shape.kind.display_name(g.heads, shape.kv_heads) != "GQA"}
    groups = [shape for shape in ways if shape not in shown]
    usual = [shape for shape in groups if shape.kv_heads in (g.kv_heads, max(s.kv_heads for s in groups))]
    return tuple(case_of(request, shape) for shape in _by_cache({*shown, *usual, g}))


def case_of(request: Request, geometry: Geometry) -> Case:
    """What the rules look at."""
    load = Load(geometry, request.vocabulary_size, request.context, request.batch, request.dtype)
    device = None if request.memory is None else Device(request.memory)
    return Case(geometry, load, request.parameters, request.priority, device, request.is_benchmark)


def nearest(case: Case) -> Published:
    def distance(model: Published) -> float:
        shape = model.geometry
        kind = shape.kind.display_name(shape.heads, shape.kv_heads)
        parameters = abs(math.log(model.parameters / case.parameters))
        return parameters + abs(math.log(shape.d_model / case.geometry.d_model)) + 0.1 * (kind != case.name)

    return min(PUBLISHED.values(), key=distance)


def priced(case: Case) -> dict[str, Any]:
    """A case as plain values."""
    g, load = case.geometry, case.load
    one_layer = replace(g, layers=1)
    device = case.device
    return {
        "variant": case.name,
        "heads": g.heads,
        "kv_heads": g.kv_heads,
        "head_dim": g.head_dim,
        "latent_dim": g.latent_dim,
        "rope_dim": g.rope_dim,
        "d_model": g.d_model,
        "layers": g.layers,
        "parameters": case.parameters,
        "cache_bytes_per_token_per_layer_fp16": costs.cache_bytes(one_layer, 1, 1, "float16"),
        "cache_bytes_per_token": costs.cache_bytes(g, 1, 1, load.dtype),
        "cache_bytes": load.cache,
        "weight_bytes": load.weights,
        "training_bytes": TRAINING_BYTES * case.parameters,
        "fits": None if device is None else device.fits(load),
        "largest_context": None if device is None else device.largest_context(load),
        "largest_batch": None if device is None else device.largest_batch(load),
    }


def reason(given: Answer) -> str:
    """One sentence: why this way to keep keys and values, with the numbers of the cache."""
    case, load = given.case, given.case.load
    g, cache, weights = case.geometry, bytes_shown(load.cache, digits=3), bytes_shown(load.weights, digits=3)
    where = f"at {load.context:,} tokens" + (f" x {load.batch} sequences" if load.batch > 1 else "")
    mha = next(c for c in given.beside if c.geometry.kv_heads == g.heads and c.name != "MLA")
    smaller = f"{bytes_shown(mha.load.cache, digits=3)} as MHA, {mha.load.cache / load.cache:.3g} times as much"
    weighed = f"beside {weights} of weights ({case.cache_share:.2g} times as much)"
    if case.name == "MHA" and case.priority == "training":
        return f"MHA: training keeps no KV cache, and serving it {where} takes {cache} {weighed}."
    if case.name == "MHA":
        so = "so every head may keep its own" if case.cache_share <= 1 else "so a token reads more cache than weights"
        return f"MHA: the KV cache {where} is {cache} {weighed}, {so}."
    if case.name == "MLA":
        kept = f"one latent of {g.latent_dim} + {g.rope_dim} numbers a token and layer serves {g.heads} heads"
    else:
        count = "one key and value" if g.kv_heads == 1 else f"{g.kv_heads} keys and values"
        kept = f"{g.heads} heads share {count}"
    return f"{case.name}: {kept}, so the KV cache {where} is {cache} {weighed}; it would be {smaller}."


def refusal(given: Answer) -> str:
    """One message for a proposal that is turned down: the rule, its source, and what instead with its price."""
    case = given.case
    g = case.geometry
    got = f"heads={g.heads} kv_heads={g.kv_heads} head_dim={g.head_dim}"
    whose = f"{case.name} ({got}, {count_shown(case.parameters)} parameters, context {case.load.context:,})"
    rules = "; and ".join(f"{rule.statement} [{rule.name}: {rule.status}, {rule.source}]" for rule in given.refused)
    return f"{whose} is refused: {rules}; choose {_priced_words(given.instead)}"


def _priced_words(case: Case | None) -> str:
    assert case is not None
    g = case.geometry
    return (
        f"{case.name} with heads={g.heads} kv_heads={g.kv_heads} head_dim={g.head_dim}, whose cache is "
        f"{bytes_shown(case.load.cache, digits=3)}"
    )


def _candidates(request: Request, d_model: int, heads: int) -> list[Geometry]:
    with_latent = request.parameters >= LATENT_MIN_PARAMETERS or request.is_benchmark
    ways = shapes.sharings(d_model, heads, with_latent)
    return _by_cache({shapes.build(request, d_model, heads, way) for way in ways})


def _by_cache(shapes_: set[Geometry]) -> list[Geometry]:
    return sorted(shapes_, key=costs.cache_elements_per_token, reverse=True)


def _breaks(case: Case, name: str) -> bool:
    return any(rule.name == name for rule in broken(case, refusing=False))


def _check_memory(request: Request, candidates: list[Case]) -> None:
    if request.memory is None:
        return
    weights = min(case.load.weights for case in candidates)
    if weights > request.memory:
        least = -(-weights * 10 // 9 // 2**30)
        raise ConfigError(
            f"--memory {bytes_shown(request.memory, digits=3)} is less than the weights of {request.parameters:,} "
            f"parameters ({bytes_shown(weights, digits=3)} at 2 bytes each); choose at least {least:,}GiB (several "
            f"devices count together), or --parameters up to {count_shown(request.memory * 9 // 20)}"
        )


def _hook(case: Case) -> dict[str, Any]:
    hook = commands.HOOKS[case.name]
    return {"command": hook.command, "context": hook.context, "steps": hook.steps, "accuracy": hook.accuracy}
