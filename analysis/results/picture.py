"""Two figures over all studies: what each doubling of heads did, in margins; and nano by its position encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from analysis.plots.style import GRID, caption_below, count_axis, legend_below, looks, new_figure, save, style_of

_WORSE_TO_BETTER = "difference, in margins of the study (left: more heads are better; right: worse)"

_TICKS = (-100, -10, -3, -1, 0, 1, 3, 10, 100)


def draw(studies: Mapping[str, Mapping[str, Any]], folder: Path) -> list[Path]:
    """Writes `all_studies` and, where both its studies are there, `positions`; returns the files."""
    with looks():
        files = _all_studies(studies, folder)
        if {"head_count", "head_count_rotary"} <= set(studies):
            files += _positions(studies, folder)
    return files


def doublings(verdict: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The pairs of a verdict in which the later arm has twice the heads, from the fewest on."""
    pairs = [pair for pair in verdict["pairs"] if pair["later"] == 2 * pair["earlier"]]
    return sorted(pairs, key=lambda pair: pair["earlier"])


def _all_studies(studies: Mapping[str, Mapping[str, Any]], folder: Path) -> list[Path]:
    rows = list(_rows(studies))
    steps = sorted({pair["earlier"] for _, verdict in rows for pair in doublings(verdict)})
    figure = new_figure(7.6, 1.6 + 0.62 * len(rows))
    ax = figure.add_subplot()
    ax.set_xscale("symlog", linthresh=1, linscale=1.2)
    ax.set_xticks(_TICKS, [f"{tick:+g}" if tick else "0" for tick in _TICKS])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.axvspan(-1, 1, color=GRID, alpha=0.2, lw=0)
    ax.axvline(0, color=GRID, lw=0.8)
    for place, (_, verdict) in enumerate(rows):
        for pair in doublings(verdict):
            _interval(ax, pair, verdict["margin"], place, steps)
    for which, step in enumerate(steps):
        colour, marker = style_of(which)
        ax.plot([], [], color=colour, marker=marker, ls="", label=f"{step} to {2 * step} heads")
    ax.set_yticks(range(len(rows)), [name for name, _ in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlabel(_WORSE_TO_BETTER)
    ax.set_title("What one doubling of heads did, study by study", loc="left")
    figure.legend(loc="outside upper center", ncols=len(steps))
    caption_below(
        figure,
        "Mean difference of val/loss on shared seeds, with the interval that holds for all pairs of a study together "
        "(95%), divided by the study's margin (in brackets; nats a token, or the task's own loss). Grey: within one "
        "margin. The axis is linear inside it and logarithmic outside. In the last rows theory knows the answer.",
    )
    return save(figure, folder, "all_studies")


def _interval(ax: Axes, pair: Mapping[str, Any], margin: float, place: int, steps: list[Any]) -> None:
    which = steps.index(pair["earlier"])
    colour, marker = style_of(which)
    y = place + (which - (len(steps) - 1) / 2) * 0.17
    ax.plot([pair["low"] / margin, pair["high"] / margin], [y, y], color=colour, lw=1.6)
    ax.plot(pair["difference"] / margin, y, color=colour, marker=marker, ms=5)


def _rows(studies: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every experiment over heads that has a margin to be measured in, under a name of two lines."""
    for name, study in studies.items():
        for verdict in study["verdicts"]:
            if verdict["factor"] == "heads" and verdict["margin"]:
                apart = " ".join(str(verdict["condition"][key]) for key in _differing(study["verdicts"]))
                seeds = max(arm["n"] for arm in verdict["arms"])
                yield f"{name} {apart}".strip() + f"\n{seeds} seeds (margin {verdict['margin']:g})", verdict


def _differing(verdicts: list[Mapping[str, Any]]) -> list[str]:
    """The settings that tell a study's experiments apart."""
    first, *others = (verdict["condition"] for verdict in verdicts)
    return [key for key, value in first.items() if any(other.get(key) != value for other in others)]


def _positions(studies: Mapping[str, Mapping[str, Any]], folder: Path) -> list[Path]:
    figure = new_figure()
    ax = figure.add_subplot()
    verdicts = [studies[name]["verdicts"][0] for name in ("head_count", "head_count_rotary")]
    for which, verdict in enumerate(verdicts):
        colour, marker = style_of(which)
        arms = verdict["arms"]
        means = [arm["mean"] for arm in arms]
        errors = [[arm["mean"] - arm["low"] for arm in arms], [arm["high"] - arm["mean"] for arm in arms]]
        label = f"{verdict['condition']['model.positions']} positions, {max(arm['n'] for arm in arms)} seeds"
        counts = [arm["arm"] for arm in arms]
        ax.errorbar(counts, means, yerr=errors, color=colour, marker=marker, capsize=3, label=label)
    count_axis(ax, [arm["arm"] for arm in verdicts[0]["arms"]], "heads")
    ax.set_ylabel("val/loss (nats/token)")
    ax.set_title("nano by heads, with learned and with rotary positions", loc="left")
    legend_below(ax)
    caption_below(
        figure,
        "Means with 95% t intervals; nano, 2,000 steps on Shakespeare, fixed width. The two studies differ in their "
        "positions alone (and in the table that learned ones take). Studies head_count and head_count_rotary.",
    )
    return save(figure, folder, "positions")
