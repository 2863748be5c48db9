"""How often the rules are right: simulated studies judged by the very code that judges real ones.

`python -m analysis.methods` measures everything and puts the tables into METHODS.md.
Unit of all effects: the standard deviation between seeds within an arm. Arms are the five of 1, 2, 4, 8, 16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy import ndarray as Array
from statsmodels.stats.proportion import proportion_confint

from analysis.arms import interquartile_mean
from analysis.labels import ALPHA, CONFIDENCE, HELPS, HURTS, LABELS, PLATEAU, Decision, decide
from analysis.seeds import power_beyond, seeds_for_plateau, seeds_needed
from analysis.shape import best_interval, two_lines_by_break
from analysis.stats import (
    EXACT_UP_TO,
    bca_interval,
    beyond_margin_p,
    counts,
    draws,
    every_sign,
    holm,
    percentile_interval,
    pooled_sd,
    random_signs,
    t_interval,
)

SIZES = (6, 10, 20)
HEADS = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
MARGIN = 2.0
_CHUNK = 200
_FLIPS = 1000
Rng = np.random.Generator

NOISES: dict[str, Callable[[Rng, tuple[int, ...]], Array]] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "heavy tails (t, 3 df)": lambda rng, size: rng.standard_t(3, size=size) / np.sqrt(3),
    "skewed (exponential)": lambda rng, size: rng.exponential(size=size) - 1,
    "very skewed (lognormal)": lambda rng, size: (
        (rng.lognormal(size=size) - np.exp(0.5)) / np.sqrt(np.exp(1) * (np.exp(1) - 1))
    ),
}
"""Mean 0, standard deviation 1 each."""


@dataclass(frozen=True)
class Studies:
    """`values`: losses [studies, n seeds, k arms]; `pairing` is the share of variance that a seed gives to all arms."""

    values: Float[Array, "studies n k"]

    @classmethod
    def draw(cls, studies: int, n: int, means: Array, noise: str, pairing: float, rng: Rng) -> Studies:
        make = NOISES[noise]
        shared = np.sqrt(pairing) * make(rng, (studies, n, 1))
        return cls(shared + np.sqrt(1 - pairing) * make(rng, (studies, n, len(means))) + means)

    def margins(self, kind: str) -> Array:
        """The margin of each study: 'fixed' as true seed SDs, or 'same data' as estimated ones."""
        fixed = np.full(len(self.values), MARGIN)
        return MARGIN * pooled_sd(self.values) if kind == "same data" else fixed


def judge_studies(
    differences: Float[Array, "studies n m"], margins: Float[Array, " studies"], rng: Rng
) -> Iterator[Decision]:
    """The decisions, a few hundred studies at a time."""
    n = differences.shape[1]
    signs = every_sign(n) if n <= min(EXACT_UP_TO, 10) else random_signs(n, _FLIPS, rng)
    for start in range(0, len(differences), _CHUNK):
        part = slice(start, start + _CHUNK)
        yield decide(differences[part], margins[part], signs)


def interval_coverage(studies: int, rng: Rng) -> pd.DataFrame:
    """Share of 95% intervals that hold the true mean difference, and their median width in t intervals."""
    rows = []
    for noise in NOISES:
        for n in SIZES:
            samples = NOISES[noise](rng, (studies, n))
            chosen = draws(n, 2000, rng)
            low, high = (end[:, 0] for end in t_interval(samples[..., None], CONFIDENCE))
            width = np.median(high - low)
            row: dict[str, object] = {"differences": noise, "n": n, "t": _share((low < 0) & (high > 0))}
            for name, interval in (("percentile", percentile_interval), ("BCa", bca_interval)):
                low, high = interval(samples, CONFIDENCE, chosen)
                row[name] = _share((low < 0) & (high > 0))
                row[f"{name} width"] = f"{np.median(high - low) / width:.2f}"
            rows.append(row)
    return pd.DataFrame(rows)


def false_labels(studies: int, rng: Rng) -> pd.DataFrame:
    """Share of studies (four contrasts each) with any HELPS or HURTS that is false.

    'no effect': all arms alike. 'at the margin': all contrasts exactly at the margin, the hardest case; there
    PLATEAU is false too. 'any difference': p over all contrasts <= 0.05 while all arms are alike.
    """
    rows = []
    for n in SIZES:
        for noise in ("normal", "heavy tails (t, 3 df)", "very skewed (lognormal)"):
            for pairing in (0.0, 0.5):
                flat = Studies.draw(studies, n, np.zeros(5), noise, pairing, rng)
                edge = Studies.draw(studies, n, np.array([0, -2.0, -2, -2, -2]), noise, pairing, rng)
                row: dict[str, object] = {"n": n, "noise": noise, "pairing": pairing}
                for kind in ("fixed", "same data"):
                    decisions = list(judge_studies(_steps(flat), flat.margins(kind), rng))
                    row[f"no effect, {kind}"] = _share(_any(decisions, (HELPS, HURTS)))
                tiny = list(judge_studies(_steps(flat), np.full(studies, 1e-9), rng))
                row["no effect, margin 0"] = _share(_any(tiny, (HELPS, HURTS)))
                row["any difference"] = _share(np.concatenate([(d.p_family <= ALPHA).any(-1) for d in tiny]))
                for kind in ("fixed", "same data"):
                    decisions = list(judge_studies(_steps(edge), edge.margins(kind), rng))
                    row[f"at the margin, {kind}"] = _share(_any(decisions, (HELPS, HURTS)))
                    if kind == "fixed":
                        row["PLATEAU at the margin, a contrast"] = _share(_labels(decisions) == PLATEAU)
                rows.append(row)
    return pd.DataFrame(rows)


def label_shares(studies: int, rng: Rng) -> pd.DataFrame:
    """Share of contrasts with each label and of covering intervals, where all four have the same true effect."""
    rows = []
    for n in SIZES:
        for effect in (0.0, -1.0, -2.0, -3.0, -4.0, 4.0):
            drawn = Studies.draw(studies, n, np.array([0, *[effect] * 4]), "normal", 0.3, rng)
            decisions = list(judge_studies(_steps(drawn), drawn.margins("fixed"), rng))
            labels = _labels(decisions)
            covered = np.concatenate([(d.low < effect) & (d.high > effect) for d in decisions])
            shares = {label: _share(labels == label) for label in LABELS}
            rows.append({"n": n, "effect (SD)": f"{effect:+.0f}", **shares, "95% interval covers": _share(covered)})
    return pd.DataFrame(rows)


def adjustments(studies: int, rng: Rng) -> pd.DataFrame:
    """Four contrasts, one with an effect of 3 SD: how often it is found, and any of the others falsely."""
    rows = []
    for n in (6, 8, 10, 20):
        drawn = Studies.draw(studies, n, np.array([0, -3.0, 0, 0, 0]), "normal", 0.3, rng)
        decisions = list(judge_studies(_steps(drawn), np.full(studies, 1e-9), rng))
        t = holm(beyond_margin_p(_steps(drawn), 0.0))
        rows.append({"n": n})
        for name, p in (
            ("sign flips, Holm", np.concatenate([d.p_holm for d in decisions])),
            ("sign flips, max-T", np.concatenate([d.p_family for d in decisions])),
            ("t, Holm", t),
        ):
            rows[-1][f"{name}: found"] = _share(p[:, 0] <= ALPHA)
            rows[-1][f"{name}: false"] = _share((p[:, 1:] <= ALPHA).any(-1))
    return pd.DataFrame(rows)


CURVES = {
    "flat": (0.0, 0, 0, 0, 0),
    "falling": (3.0, 2, 1.5, 1, 0.5),
    "falling, then flat": (6.0, 3, 0, 0, 0),
    "shallow U": (1.0, 0.3, 0, 0.3, 1),
    "U": (3.0, 1, 0, 0.5, 2),
}


def shapes(studies: int, rng: Rng) -> pd.DataFrame:
    """Share of studies with a turn at p <= 0.05, of best intervals that hold a best arm, and their mean size."""
    rows = []
    for name, means in CURVES.items():
        for n in SIZES:
            y = Studies.draw(studies, n, np.array(means, dtype=float), "normal", 0.3, rng).values
            p = two_lines_by_break(y, np.log2(HEADS))[0]
            turns = p.min(axis=-1) * p.shape[-1] <= ALPHA
            held, size = _best_intervals(y[:1000], np.array(means), rng)
            rows.append(
                {
                    "curve (SD)": f"{name}: {', '.join(f'{m:g}' for m in means)}",
                    "n": n,
                    "turn found": _share(turns),
                    "best interval holds the best": _share(held),
                    "its head counts": f"{size:.1f}",
                }
            )
    return pd.DataFrame(rows)


def improvement_coverage(studies: int, rng: Rng) -> pd.DataFrame:
    """Share of Wilson intervals that hold the true probability of improvement."""
    rows = []
    for n in SIZES:
        row: dict[str, object] = {"n": n}
        for truth in (0.5, 0.7, 0.9):
            wins = rng.binomial(n, truth, size=studies)
            low, high = np.asarray(proportion_confint(wins, n, method="wilson"))
            row[f"P = {truth}"] = _share((low < truth) & (truth < high))
        rows.append(row)
    return pd.DataFrame(rows)


def iqm_coverage(studies: int, rng: Rng) -> pd.DataFrame:
    """Share of percentile intervals of the interquartile mean that hold the true one (0, normal and heavy tails)."""
    rows = []
    for n in SIZES:
        row: dict[str, object] = {"n": n}
        for noise in ("normal", "heavy tails (t, 3 df)"):
            samples = NOISES[noise](rng, (min(studies, 1000), n))
            chosen = draws(n, 1000, rng)
            resampled = np.stack([interquartile_mean(sample[chosen]) for sample in samples])
            low, high = np.quantile(resampled, [0.025, 0.975], axis=-1)
            row[noise] = _share((low < 0) & (high > 0))
        rows.append(row)
    return pd.DataFrame(rows)


def planned_power(studies: int, rng: Rng) -> pd.DataFrame:
    """Power that the planned number of seeds really has, by the rules of this engine (one contrast)."""
    rows = []
    for question, difference, margin in (
        ("beyond 0", 1.0, 0.0),
        ("beyond 0", 2.0, 0.0),
        ("beyond the margin", 3.5, MARGIN),
        ("inside the margin", 0.0, MARGIN),
        ("inside the margin", 1.0, MARGIN),
    ):
        inside = question == "inside the margin"
        sd = np.sqrt(2.0)
        needed = seeds_for_plateau(sd, margin, difference) if inside else seeds_needed(sd, difference, margin=margin)
        n = max(needed or 0, 6)
        d = rng.normal(difference, sd, size=(studies, n, 1))
        low, high = t_interval(d, 0.90)
        hit = (low > -margin) & (high < margin) if inside else beyond_margin_p(d, margin) <= ALPHA
        said = "" if inside else f"{power_beyond(n, sd, difference, margin):.3f}"
        rows.append(
            {"question": question, "difference (SD)": difference, "planned": needed, "used": n, "power": _share(hit)}
            | {"power by formula": said}
        )
    return pd.DataFrame(rows)


def _steps(studies: Studies) -> Float[Array, "studies n 4"]:
    return studies.values[..., 1:] - studies.values[..., :1]


def _labels(decisions: list[Decision]) -> Array:
    return np.concatenate([decision.label for decision in decisions])


def _any(decisions: list[Decision], labels: tuple[str, ...]) -> Array:
    return np.asarray(np.isin(_labels(decisions), labels).any(axis=-1))


def _best_intervals(y: Float[Array, "studies n k"], means: Array, rng: Rng) -> tuple[Array, float]:
    weights = counts(draws(y.shape[1], 1000, rng))
    best = np.flatnonzero(means == means.min())
    held, sizes = [], []
    for study in y:
        low, high = best_interval(np.argmin(weights @ study, axis=1))
        held.append(any(low <= arm <= high for arm in best))
        sizes.append(high - low + 1)
    return np.array(held), float(np.mean(sizes))


def _share(hits: Array | np.bool) -> str:
    return f"{float(np.mean(hits)):.3f}"
