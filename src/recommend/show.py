"""The answer as people read it at 80 columns: the sentence first, then each number where it is looked for."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from src.memory import ALLOWANCE, CACHE_DTYPES
from src.metrics import bytes_shown, count_shown
from src.recommend import commands
from src.recommend.answer import INIT_STD, Answer, priced, reason
from src.recommend.findings import FINDINGS, Finding
from src.recommend.rules import RULES, Case

WIDTH = 80
_INDENT = " " * 10


def answer_lines(given: Answer) -> Iterator[str]:
    """All of an answer, the sentence first. Of a refused proposal: what was asked and what it would cost, beside."""
    if given.refused:
        load = given.case.load
        yield f"The cache of this model at {load.context:,} tokens x {load.batch}, by how keys and values are kept:"
        yield from _table(given)
        return
    yield from textwrap.wrap(reason(given), WIDTH)
    yield ""
    for label, lines in _parts(given):
        yield from _labelled(label, lines)
    yield ""
    yield from _table(given)
    yield ""
    for label, line in _commands(given):
        yield from textwrap.wrap(label, WIDTH, initial_indent="# ", subsequent_indent="# ")
        yield from command_lines(line)


def rule_lines() -> Iterator[str]:
    """Every rule: name, what it does and how well it is founded, statement, source."""
    for rule in RULES:
        yield f"{rule.name} ({'refuses' if rule.refuses else 'prefers'}; {rule.status})"
        yield from textwrap.wrap(rule.statement, WIDTH, initial_indent="  ", subsequent_indent="  ")
        yield from textwrap.wrap(f"source: {rule.source}", WIDTH, initial_indent="  ", subsequent_indent="  ")
        for finding in FINDINGS:
            if finding.rule == rule.name:
                yield from textwrap.wrap(_found(finding), WIDTH, initial_indent="  ", subsequent_indent="  ")


def command_lines(command: str) -> list[str]:
    """A command within the width, broken so that it can still be pasted as it stands."""
    lines = textwrap.wrap(command, WIDTH - 2, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [line + " \\" for line in lines[:-1]] + lines[-1:]


def _parts(given: Answer) -> Iterator[tuple[str, list[str]]]:
    yield "shape", _shape(given)
    yield "cache", _cache(given.case)
    yield "memory", _memory(given)
    yield (
        "start",
        [
            f"Q, K, V: model.init=gpt2, normal of standard deviation {INIT_STD}; O the same over sqrt(2 x layers), "
            f"{given.residual_std:.5f}, as it ends a residual branch; no biases."
        ],
    )
    hook = commands.HOOKS[given.case.name]
    yield (
        "hook",
        [
            f"Induction (A B ... A asks for B): a two-layer {given.case.name} with heads of "
            f"{_hook_width(given.case.name)} reached {hook.accuracy:.1%} of answers at context {hook.context} in "
            f"{hook.steps:,} steps; at least 95% is asked of it. Run once, seed 0."
        ],
    )
    yield "measured", [_found(finding) for finding in FINDINGS if finding.contradicts]
    yield "nearest", [_nearest(given)]
    if given.instead is not None:
        yield "proposal", [_proposal(given)]
    if given.flags:
        yield "flagged", [f"{rule.name}: not kept: {rule.statement}; choose {rule.instead}." for rule in given.flags]


def _shape(given: Answer) -> list[str]:
    g, case = given.geometry, given.case
    own = "".join(f" {name}={getattr(g, name)}" for name in g.kind.settings)
    kv_heads = f" kv_heads={g.kv_heads}" if g.kind.shares_kv_heads else ""
    off = case.parameters / case.parameters_asked - 1
    return [
        f"heads={g.heads}{kv_heads} head_dim={g.head_dim}{own}: d_model {g.d_model} = {g.heads} x {g.head_dim}",
        f"{g.layers} layers, {_parameters(case.parameters)} parameters ({_parameters(case.parameters_asked)} asked, "
        f"{off:+.1%}) with a vocabulary of {given.request.vocabulary_size:,}",
    ]


def _cache(case: Case) -> list[str]:
    price, load = priced(case), case.load
    dtype = next(written for written, name in CACHE_DTYPES.items() if name == load.dtype)
    sequences = "1 sequence" if load.batch == 1 else f"{load.batch} sequences"
    return [
        f"{price['cache_bytes_per_token_per_layer_fp16']:,} bytes a token and layer in fp16; in {dtype} "
        f"{price['cache_bytes_per_token']:,} bytes a token in all, {bytes_shown(load.cache, digits=3)} at "
        f"{load.context:,} tokens x {sequences}"
    ]


def _memory(given: Answer) -> list[str]:
    case, price = given.case, priced(given.case)
    lines = []
    total = bytes_shown(case.load.total, digits=3)
    parts = f"{bytes_shown(case.load.weights, digits=3)} of weights (2 bytes each) + cache = {total}"
    if case.device is None:
        lines.append(f"{parts}; --memory says whether it fits")
    else:
        verdict = "fits" if price["fits"] else "DOES NOT FIT"
        kept = bytes_shown(case.device.memory // ALLOWANCE, digits=3)
        lines.append(f"{verdict} {bytes_shown(case.device.memory, digits=3)}: {parts}, {kept} (a tenth) kept free")
        lines.append(
            f"largest context at batch {case.load.batch}: {_most(price['largest_context'])} tokens; largest batch at "
            f"{case.load.context:,} tokens: {_most(price['largest_batch'])}"
        )
    if case.priority == "training":
        needed = bytes_shown(price["training_bytes"], digits=3)
        lines.append(f"training it in float32 with AdamW takes {needed} (16 bytes a parameter) and the activations")
    return lines


def _nearest(given: Answer) -> str:
    model = given.nearest
    g = model.geometry
    kind = g.kind.display_name(g.heads, g.kv_heads)
    kv_heads = f", {g.kv_heads} kv-heads" if g.kind.shares_kv_heads else f", latent {g.latent_dim} + {g.rope_dim}"
    return (
        f"{model.name}: {_parameters(model.parameters)} parameters, {kind}, {g.heads} heads{kv_heads}, head_dim "
        f"{g.head_dim}, d_model {g.d_model}, {g.layers} layers ({model.source})"
    )


def _proposal(given: Answer) -> str:
    assert given.instead is not None
    best = given.instead
    return (
        f"no rule refuses it. Recommended is {best.name} with heads={best.geometry.heads} "
        f"kv_heads={best.geometry.kv_heads}: cache {bytes_shown(best.load.cache, digits=3)}."
    )


def _table(given: Answer) -> Iterator[str]:
    """The same model with each way to keep keys and values: what a token and layer keeps, and what the cache takes."""
    yield f"{'':3}{'variant':8}{'kept':>18}{'B/token/layer':>15}{'cache':>10}{'fits':>6}{'largest context':>17}"
    for case in given.beside:
        price = priced(case)
        mark = "->" if case.geometry == given.geometry else ""
        fits = "" if price["fits"] is None else "yes" if price["fits"] else "no"
        most = "" if price["fits"] is None else _most(price["largest_context"])
        kept = _kept(case)
        cache = bytes_shown(case.load.cache, digits=3)
        per_layer = f"{price['cache_bytes_per_token_per_layer_fp16']:,}"
        yield f"{mark:3}{case.name:8}{kept:>18}{per_layer:>15}{cache:>10}{fits:>6}{most:>17}".rstrip()


def _kept(case: Case) -> str:
    g = case.geometry
    if not g.kind.shares_kv_heads:
        return f"latent {g.latent_dim} + {g.rope_dim}"
    return f"{g.kv_heads} kv-heads" if g.kv_heads > 1 else "1 kv-head"


def _commands(given: Answer) -> Iterator[tuple[str, str]]:
    small = commands.scaled(given.geometry)
    how = "as it is"
    if small != given.geometry:
        how = (
            f"scaled down to two CPU cores: {small.heads} heads of {small.head_dim}, d_model {small.d_model}, "
            f"{small.layers} layers, context {small.context_length}"
        )
    yield f"train, {how}", commands.train(small)
    yield "what it costs beside MHA, at full size", commands.audit(given.geometry, given.request.vocabulary_size)
    yield f"how fast it decodes, {'as it is' if small == given.geometry else 'scaled down'}", commands.bench(small)
    yield "the hook", commands.HOOKS[given.case.name].command


def _parameters(count: int) -> str:
    return count_shown(count).replace("G", "B")


def _hook_width(kind: str) -> int:
    numbers = dict(part.split("=") for part in commands.HOOKS[kind].geometry_overrides)
    return int(numbers["model.d_model"]) // int(numbers["heads"])


def _found(finding: Finding) -> str:
    side = "against" if finding.contradicts else "for"
    return f"{side} {finding.rule}: {finding.says} ({finding.path}: {finding.setting}; small models only)"


def _most(count: int | None) -> str:
    return "any" if count is None else f"{count:,}"


def _labelled(label: str, lines: Iterable[str]) -> Iterator[str]:
    first = f"{label:10}"
    for line in lines:
        yield from textwrap.wrap(line, WIDTH, initial_indent=first, subsequent_indent=_INDENT)
        first = _INDENT
