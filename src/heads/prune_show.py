"""The curve of pruning as a table, a sentence and a picture."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from src.heads.prune import DRAWS, Curve, Point
from src.heads.table import wrapped
from src.metrics import MISSING, bytes_shown

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "0.55"  # Okabe and Ito's, for every kind of vision


def curve_lines(curve: Curve) -> list[str]:
    """The table, what it stands on, and the answer for each number of heads that was trained too."""
    lines = [
        *wrapped(f"{curve.name}: {curve.heads} heads in each layer, pruned by {curve.by}; loss {curve.loss:.4f}"),
        "",
        f"{'heads':>5}{'pruned':>18}{'by chance':>18}{'loss':>9}"
        + (f"{f'+{curve.steps:,} steps':>13}" if curve.steps else "")
        + f"{'trained':>9}{'cache':>8}",
    ]
    for point in curve.points:
        trained = [run["loss"] for run in point.trained]
        mean = f"{sum(trained) / len(trained):.4f}" if trained else MISSING
        size = MISSING if point.made.cache_bytes is None else bytes_shown(point.made.cache_bytes, digits=3)
        lines.append(
            f"{point.keep:>5}{_signed(point.cost.mean, point.cost.margin):>18}{_signed(*point.random):>18}"
            f"{point.made.before:9.4f}" + (f"{point.made.after:13.4f}" if curve.steps else "") + f"{mean:>9}{size:>8}"
        )
    whole = "" if curve.cache_bytes is None else f" The whole model's cache: {bytes_shown(curve.cache_bytes)}."
    lines += wrapped(
        f"pruned, by chance: {curve.unit} more than the whole model, on {curve.sequences} held-out sequences (95% over "
        f"them) and for the mean of {DRAWS} random choices (95% over choices). loss, trained: over all held-out data, "
        f"pruned and untrained, and trained from the start with so many heads.{whole}"
    )
    return [*lines, "", *(line for point in curve.points for line in wrapped(sentence(curve, point)))]


def sentence(curve: Curve, point: Point) -> str:
    """Whether pruned to so many heads beats trained with so many."""
    steps = f" and trained for {curve.steps:,} more steps" if curve.steps else ""
    made = f"{curve.heads} trained, pruned to {point.keep}{steps}"
    other = point.against
    if other is None:
        return f"{made}: no run of its group was trained with heads={point.keep}."
    low, high = other.mean - (other.margin or 0.0), other.mean + (other.margin or 0.0)
    told = (
        f"{abs(other.mean):.4f} {curve.unit}, 95% over {other.sequences} held-out sequences {low:+.4f} to {high:+.4f}"
    )
    if other.margin is None or low <= 0 <= high:
        verdict = f"does not beat {point.keep} trained, nor is it beaten: they differ by {told}"
    elif high < 0:
        verdict = f"beats {point.keep} trained by {told}"
    else:
        verdict = f"does not beat {point.keep} trained: it is worse by {told}"
    return f"{made} {verdict}. One run each (seed {point.against_seed}): it says nothing of other seeds."


def curve_dict(curve: Curve) -> dict[str, Any]:
    """All of it as plain values."""
    points = [
        {
            "keep": point.keep,
            "kept": point.kept,
            "cost": vars(point.cost),
            "random": {"mean": point.random[0], "margin": point.random[1], "draws": DRAWS},
            "run": str(point.made.folder),
            "loss_before_steps": point.made.before,
            "loss_after_steps": point.made.after,
            "cache_bytes": point.made.cache_bytes,
            "trained": point.trained,
            "against_trained": None if point.against is None else vars(point.against),
            "sentence": sentence(curve, point),
        }
        for point in curve.points
    ]
    return {**{name: value for name, value in vars(curve).items() if name != "points"}, "points": points}


def draw_curve(curve: Curve) -> Figure:
    """Loss against kept heads: pruned, pruned and trained on, by chance, and trained from the start."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained", dpi=130)
    axes = figure.subplots()
    points = sorted(curve.points, key=lambda point: point.keep)
    counts = [point.keep for point in points]
    base = [point.made.before - point.cost.mean for point in points]  # chance is told against the sequences' whole loss
    chance = [at + point.random[0] for at, point in zip(base, points, strict=True)]
    axes.errorbar(counts, chance, yerr=[point.random[1] for point in points], color=GREY, marker="s", ls=":", capsize=3,
                  label=f"mean of {DRAWS} random choices, untrained")  # fmt: skip
    axes.plot([*counts, curve.heads], [*(p.made.before for p in points), curve.loss], color=BLUE, marker="o",
              label=f"pruned by {curve.by}")  # fmt: skip
    if curve.steps:
        axes.plot(counts, [p.made.after for p in points], color=ORANGE, marker="^",
                  label=f"pruned, then {curve.steps:,} steps")  # fmt: skip
    trained = [(point.keep, run["loss"]) for point in points for run in point.trained]
    if trained:
        axes.scatter(*zip(*trained, strict=True), color=GREEN, marker="D", zorder=3, label="trained with so many")
    axes.set_xscale("log", base=2)
    axes.set_xticks([*counts, curve.heads], [str(count) for count in [*counts, curve.heads]])
    axes.minorticks_off()
    axes.set_xlabel("heads in each layer")
    axes.set_ylabel(f"val/loss, {curve.unit}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9")
    axes.legend(frameon=False, fontsize=8)
    figure.suptitle(curve.name, fontsize=9, parse_math=False)
    figure.supxlabel(f"one run; random choices: 95% over {DRAWS} choices, on {curve.sequences} held-out sequences",
                     fontsize=8)  # fmt: skip
    return figure


def _signed(mean: float, margin: float | None) -> str:
    return f"{mean:+.4f} ±{MISSING if margin is None else f'{margin:.4f}'}"
