"""How often a sentence is wrong: studies of a known truth, judged by the very code that judges real ones.

A sentence is wrong where any of its claims is false (analysis.claims), the refuted or supported 'more is always
better' among them. A table is wrong where anything that its intervals show of any pair is false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np

from analysis.answer import CODES, OPEN, Judged, judge_many
from analysis.claims import Said, said_of
from analysis.truths import CURVES, MARGIN, NOISES, Truth, draw, truth_of
from src.randomness import stream_seed

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

    @property
    def name(self) -> str:
        return f"{self.curve} | {self.noise} | n={self.n} | margin={self.margin:g} | sd={self.sd:g}"


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


def measure(cell: Cell, studies: int = STUDIES, seed: int = 0, judge: Judge = judge_many) -> Result:
    """One row; the same however many others are measured. `judge` can be another rule, to see it fail."""
    rng = np.random.default_rng(stream_seed(seed, "bootstrap", "trials", cell.name))
    truth = truth_of(cell.curve, cell.noise, cell.sd, rng)
    parts = []
    for start in range(0, studies, _AT_ONCE):
        values, diverged = draw(cell.curve, cell.noise, cell.sd, cell.n, min(_AT_ONCE, studies - start), rng)
        judged = judge(values, cell.margin, diverged)
        wrong = false_claims(said_of(judged), judged, truth, cell.margin)
        table = Said(judged.shown.worse, judged.shown.beyond, judged.shown.within)
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
