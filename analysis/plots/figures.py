"""The figures of an export. A kind of figure is one module in this folder that declares itself with `@figure`.

    @figure("loss", at=10, needs=("val/loss",))
    def drawn(verdict: Verdict, export: Export) -> Iterator[Drawn]: ...

yields figures with title and caption for each experiment; with `spans=True` it is called once for the whole export,
as `(export, factor, metric)`. Nothing else has to change: this module finds the others by their folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import plots
from analysis.findings import AnalysisError, Finding, some
from analysis.load import Export
from analysis.plots.style import new_figure
from analysis.verdict import Verdict


@dataclass(frozen=True)
class Drawn:
    """One figure. `caption` says what the marks are, n, and where the numbers come from."""

    name: str
    title: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Gallery:
    drawn: list[Drawn]
    findings: list[Finding]


@dataclass(frozen=True)
class Kind:
    """`needs`: columns of the table of runs without which it cannot be drawn; `at`: its place among the others."""

    name: str
    at: int
    needs: tuple[str, ...]
    spans: bool
    make: Callable[..., Iterable[Drawn]]


_KINDS: dict[str, Kind] = {}


def figure(
    name: str, *, at: int, needs: tuple[str, ...] = (), spans: bool = False
) -> Callable[[Callable[..., Iterable[Drawn]]], Callable[..., Iterable[Drawn]]]:
    """Declares a kind of figure; `name` stands in the sentence that says why it could not be drawn."""

    def declare(make: Callable[..., Iterable[Drawn]]) -> Callable[..., Iterable[Drawn]]:
        _KINDS[name] = Kind(name, at, needs, spans, make)
        return make

    return declare


def kinds(*, spans: bool) -> list[Kind]:
    """What can be drawn of one experiment, or of the whole export, in the order of a report."""
    for module in iter_modules(plots.__path__):
        import_module(f"{plots.__name__}.{module.name}")
    return sorted((kind for kind in _KINDS.values() if kind.spans == spans), key=lambda kind: kind.at)


def figures_of_verdict(verdict: Verdict, export: Export) -> Gallery:
    """Every figure of one experiment; one that cannot be drawn is a finding that says why."""
    return _gallery(export, kinds(spans=False), verdict, export)


def figures_of_export(export: Export, factor: str, metric: str) -> Gallery:
    """The figures that span experiments."""
    return _gallery(export, kinds(spans=True), export, factor, metric)


def _gallery(export: Export, wanted: list[Kind], *of: Any) -> Gallery:
    drawn, findings = [], []
    for kind in wanted:
        try:
            missing = [name for name in kind.needs if name not in export.runs]
            if missing:
                raise AnalysisError(f"the table has no column {missing[0]!r}")
            drawn += kind.make(*of)
        except AnalysisError as error:
            findings.append(Finding("figures", f"no figure of {kind.name}: {error}"))
    return Gallery(drawn, findings)


def compared(verdict: Verdict) -> dict[str, str]:
    """What a verdict compares, as the drawings ask for it."""
    return {"factor": verdict.factor, "metric": verdict.metric, "unit": verdict.unit}


def new_axes() -> tuple[Figure, Axes]:
    picture = new_figure()
    return picture, picture.add_subplot()


def counts_said(verdict: Verdict) -> str:
    """'n = 6 seeds each', or n at each arm."""
    counts = verdict.arms["n"]
    if counts.nunique() == 1:
        return f"n = {counts.iloc[0]} seeds each"
    return "n = " + some([f"{n} at {arm}" for arm, n in counts.items()], shown=16)


def margin_said(verdict: Verdict) -> str:
    """What the band of a figure is; nothing where there is no margin."""
    return f"The band is {verdict.margin.sentence}. " if verdict.margin.value > 0 else ""
