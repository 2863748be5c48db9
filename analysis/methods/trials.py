"""How often a sentence is wrong: studies of a known truth, judged by the very code that judges real ones.

A truth is the mean losses of five arms, the noise of their seeds, and which runs are lost. A sentence is wrong where
any of its claims is false (analysis.rule.answer), the refuted or supported 'more is always better' among them. A table
is wrong where anything that its intervals show of any pair is false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray as Array
from scipy import stats

from analysis.rule.answer import CODES, OPEN, Judged, Said, judge_many, said_of
from analysis.rule.critical import WIDE, Rng, lognormal, normal
from src.randomness import stream_seed

MARGIN = 0.01
"""Nats; what the curves are measured in."""
PAIRING = 0.3
"""Share of a run's variance that its seed gives to all arms."""

CURVES: dict[str, tuple[float, ...]] = {
    "flat": (0, 0, 0, 0, 0),
    "falling, 2 margins a step": (8, 6, 4, 2, 0),
    "rising, 2 margins a step": (0, 2, 4, 6, 8),
    "falling, half a margin a step": (2, 1.5, 1, 0.5, 0),
    "rising, half a margin a step": (0, 0.5, 1, 1.5, 2),
    "falling, one margin a step": (4, 3, 2, 1, 0),
    "rising, one margin a step": (0, 1, 2, 3, 4),
    "U": (4, 2, 0, 2, 4),
    "hump": (2, 4, 4, 3, 0),
    "falling, then flat": (4, 2, 0, 0, 0),
}
"""Mean losses of 1, 2, 4, 8, 16 heads in margins; lower is better."""


def t3(rng: Rng, size: tuple[int, ...]) -> Array:
    return rng.standard_t(3, size=size) / np.sqrt(3)


@dataclass(frozen=True)
class Noise:
    """`wide`: the last arm scatters WIDE times as much. `lost`: share of the worst runs of the last `lost_arms` arms
    that diverge. `missing`: some runs are not there, for reasons of their own. `neighbours`: the correlation of what
    is an arm's own with that of the arm before it."""

    kind: str = "normal"
    wide: bool = False
    lost: float = 0.0
    missing: bool = False
    lost_arms: int = 1
    neighbours: float = 0.0


NOISES: dict[str, Noise] = {
    "normal": Noise(),
    "normal, one arm 4x": Noise(wide=True),
    "lognormal": Noise("lognormal"),
    "lognormal, one arm 4x": Noise("lognormal", wide=True),
    "t, 3 df": Noise("t3"),
    "t, 3 df, one arm 4x": Noise("t3", wide=True),
    "normal, runs missing": Noise(missing=True),
    "one arm's worst 10% diverge": Noise(lost=0.10),
    "one arm's worst 38% diverge": Noise(lost=0.38),
}
FURTHER_NOISES: dict[str, Noise] = {
    "normal, neighbours alike (0.7)": Noise(neighbours=0.7),
    "two arms' worst 10% diverge": Noise(lost=0.10, lost_arms=2),
    "two arms' worst 38% diverge": Noise(lost=0.38, lost_arms=2),
}
"""Measured beside the others, at one spread."""
CONTROL = 2.0
"""The mean of a control, in margins: below some arms, above others, and at one margin from two of a falling curve."""
KINDS = {"normal": normal, "lognormal": lognormal, "t3": t3}


@dataclass(frozen=True)
class Truth:
    """Of one curve, noise and spread: what holds of each pair. [a, b]: b is worse than a, by its mean or by rank."""

    means: Float[Array, " k"]
    worse: Bool[Array, "k k"]
    worse_by_rank: Bool[Array, "k k"]

    def beyond(self, margin: float) -> Bool[Array, "k k"]:
        return self.means[None, :] - self.means[:, None] > margin + 1e-12

    def within(self, margin: float) -> Bool[Array, "k k"]:
        return np.abs(self.means[None, :] - self.means[:, None]) < margin - 1e-12


def draw(
    curve: str,
    noise: str,
    sd: float,
    n: int,
    studies: int,
    rng: Rng,
    control: bool = False,
    paired: bool = True,
) -> tuple[Float[Array, "studies n k"], Bool[Array, "studies n k"]]:
    """Losses (NaN where a run gave none) and which runs diverged. With a `control`, it is the last column, and what
    `noise` says of the last arm is said of it. Not `paired`: a seed gives nothing to all arms."""
    means, shape = means_of(curve, control), (NOISES | FURTHER_NOISES)[noise]
    k, make = len(means), KINDS[shape.kind]
    own = make(rng, (studies, n, k))
    for arm in range(1, k if shape.neighbours else 0):
        own[..., arm] = shape.neighbours * own[..., arm - 1] + np.sqrt(1 - shape.neighbours**2) * own[..., arm]
    scatter = np.sqrt(1 - PAIRING) * own
    scatter[..., -1] *= WIDE if shape.wide else 1.0
    scatter += np.sqrt(PAIRING) * make(rng, (studies, n, 1 if paired else k))
    losses = means + sd * scatter
    diverged = np.zeros(losses.shape, dtype=bool)
    if shape.lost:
        last = slice(-shape.lost_arms, None)
        diverged[..., last] = scatter[..., last] > stats.norm.isf(shape.lost)
    if shape.missing:
        losses[:, 0, 1] = losses[:, 1, 3] = losses[:, 0, 4] = np.nan
    return np.where(diverged, np.nan, losses), diverged


def means_of(curve: str, control: bool = False) -> Float[Array, " k"]:
    """True means, the control's last."""
    return np.array([*CURVES[curve], *([CONTROL] if control else [])]) * MARGIN


def truth_of(curve: str, noise: str, sd: float, rng: Rng, control: bool = False, paired: bool = True) -> Truth:
    """By the means exactly; by rank (a diverged run is worst) from 100,000 drawn seeds."""
    means = means_of(curve, control)
    worse = means[None, :] > means[:, None]
    losses, diverged = draw(curve, noise, sd, 100_000, 1, rng, control, paired)
    ranked = np.where(diverged[0], np.inf, losses[0])
    share = (ranked[:, None, :] > ranked[:, :, None]).mean(axis=0)
    return Truth(means, worse, share > share.T if (NOISES | FURTHER_NOISES)[noise].lost else worse)


# How often a sentence is wrong: studies of a known truth, judged by the very code that judges real ones.
SIZES = (4, 6, 10, 20)
SETTINGS = ((MARGIN, 0.004), (MARGIN, 0.01), (0.0, 0.01))
"""(margin, standard deviation between seeds) in nats."""
STUDIES = 2000
_AT_ONCE = 2000

Judge = Callable[..., Judged]


@dataclass(frozen=True)
class Cell:
    """One row of the simulation."""

    curve: str
    noise: str
    n: int
    margin: float
    sd: float
    paired: bool = True
    control: bool = False

    @property
    def name(self) -> str:
        beyond = (" | control" if self.control else "") + ("" if self.paired else " | unpaired")
        return f"{self.curve} | {self.noise} | n={self.n} | margin={self.margin:g} | sd={self.sd:g}{beyond}"


@dataclass(frozen=True)
class Result:
    """Shares of the studies. `answers`: code -> share; `wrong_by`: code -> share that is wrong with that answer."""

    studies: int
    wrong: float
    wrong_table: float
    settled: float
    refuted: float
    supported: float
    answers: dict[str, float]
    wrong_by: dict[str, float]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def cells() -> Iterator[Cell]:
    """Every row, those of one noise and number of seeds together."""
    for n in SIZES:
        for noise in NOISES:
            for margin, sd in SETTINGS:
                for curve in CURVES:
                    yield Cell(curve, noise, n, margin, sd)


@dataclass(frozen=True)
class Further:
    """A row of the table of further studies: what sets them apart from those of `cells`, and the seeds tried."""

    about: str
    noise: str
    paired: bool = True
    control: bool = False
    sizes: tuple[int, ...] = SIZES

    def cells(self, n: int) -> list[Cell]:
        return [Cell(curve, self.noise, n, *SETTINGS[1], self.paired, self.control) for curve in CURVES]


FURTHER = (
    Further("a control", "normal", control=True),
    Further("a control, 4x as wide", "normal, one arm 4x", control=True),
    Further("a control, 4x as wide, lognormal", "lognormal, one arm 4x", control=True),
    Further("a control, its worst 10% diverge", "one arm's worst 10% diverge", control=True),
    Further("not paired", "normal", paired=False),
    Further("not paired, one arm 4x", "normal, one arm 4x", paired=False),
    Further("not paired, lognormal, one arm 4x", "lognormal, one arm 4x", paired=False),
    *(Further(noise, noise) for noise in FURTHER_NOISES),
    Further("many seeds", "normal", sizes=(80, 200)),
    Further("many seeds, lognormal, one arm 4x", "lognormal, one arm 4x", sizes=(80, 200)),
)


def measure(cell: Cell, studies: int = STUDIES, seed: int = 0, judge: Judge = judge_many) -> Result:
    """One row; the same however many others are measured. `judge` can be another rule, to see it fail."""
    rng = np.random.default_rng(stream_seed(seed, "bootstrap", "trials", cell.name))
    truth = truth_of(cell.curve, cell.noise, cell.sd, rng, cell.control, cell.paired)
    beyond = {} if cell.paired and not cell.control else {"paired": cell.paired, "control": cell.control}
    parts = []
    for start in range(0, studies, _AT_ONCE):
        count = min(_AT_ONCE, studies - start)
        values, diverged = draw(cell.curve, cell.noise, cell.sd, cell.n, count, rng, cell.control, cell.paired)
        judged = judge(values, cell.margin, diverged, **beyond)
        wrong = false_claims(said_of(judged), judged, truth, cell.margin)
        everything = judged.shown_of_all
        table = Said(everything.worse, everything.beyond, everything.within)
        parts.append((judged, wrong, false_claims(table, judged, truth, cell.margin)))
    code = np.concatenate([judged.code for judged, _, _ in parts])
    wrong, wrong_table = (np.concatenate([part[at] for part in parts]) for at in (1, 2))
    refuted = np.concatenate([judged.refuting[:, 0] >= 0 for judged, _, _ in parts])
    supported = np.concatenate([judged.supported for judged, _, _ in parts])
    shares = {name: float((code == at).mean()) for at, name in enumerate(CODES)}
    return Result(
        studies,
        float(wrong.mean()),
        float(wrong_table.mean()),
        float((code != OPEN).mean()),
        float(refuted.mean()),
        float(supported.mean()),
        {name: share for name, share in shares.items() if share},
        {name: float((wrong & (code == at)).mean()) for at, name in enumerate(CODES) if (wrong & (code == at)).any()},
    )


def false_claims(said: Said, judged: Judged, truth: Truth, margin: float) -> np.ndarray:
    """Of each study, whether anything said is not true; a pair compared by rank is held against the true ranks."""
    k = len(truth.means)
    by_rank = np.zeros((len(judged.code), k, k), dtype=bool)
    found = judged.intervals
    by_rank[:, found.earlier, found.later] = by_rank[:, found.later, found.earlier] = judged.ranks.applies
    worse = np.where(by_rank, truth.worse_by_rank, truth.worse)
    false = (said.worse & ~worse) | (said.beyond & ~truth.beyond(margin)) | (said.within & ~truth.within(margin))
    false[:, np.arange(k), np.arange(k)] = False
    return np.logical_or.reduce(false, axis=(1, 2))
