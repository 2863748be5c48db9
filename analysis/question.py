"""What is asked of an export: its factor, its reference, and the margin with its unit and where it comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite, log
from typing import Literal

import pandas as pd

from analysis.compare import LEARNING_RATE
from analysis.findings import AnalysisError, Finding, caution, some
from analysis.load import FINISHED, Export
from src.metrics import METRICS

FACTORS = ("heads", "kv_heads", "latent_dim", "head_dim", "context_length")
RECORDED, LATER, FROM_DATA, NONE = "recorded before the runs", "given later", "taken from the data", "none"
Provenance = Literal["recorded before the runs", "given later", "taken from the data", "none"]
_RECORDED_IN = "config.sweep.margin_nats"
_UNITS = {"": "", "nats": "nats", "nat": "nats", "bits": "bits", "bit": "bits", "%": "%", "percent": "%", "sd": "sd"}
_AMOUNT = re.compile(r"\s*(?P<number>[-+]?[\d.]*(?:e[-+]?\d+)?|nan|inf)\s*(?P<unit>[a-z%]*)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Margin:
    """The smallest difference that would matter. `value` is in the metric's unit; 0 asks for the direction alone.

    `asked` is how it was said where that is not in the metric's unit: '1% of heads=1'.
    """

    value: float
    provenance: Provenance
    asked: str = ""

    @property
    def sentence(self) -> str:
        """'a margin of 0.01 (recorded before the runs)'."""
        if self.provenance == NONE:
            return "no margin was named, so only directions are judged"
        asked = f", {self.asked}" if self.asked else ""
        return f"a margin of {self.value:.4g} ({self.provenance}{asked})"


@dataclass(frozen=True)
class Amount:
    """A margin as it was given: in nats, bits, percent of the reference's mean, or seed SDs of the same data."""

    number: float
    unit: Literal["", "nats", "bits", "%", "sd"] = ""
    provenance: Provenance = LATER

    def margin(self, unit: str, reference: str, mean: float, seed_sd: float) -> Margin:
        """In the metric's unit. Raises AnalysisError for a unit that the metric does not have."""
        if self.unit in ("nats", "bits") and not unit.startswith("nats"):
            raise AnalysisError(f"a margin in {self.unit} fits no metric in {unit or 'a number without a unit'}")
        if self.unit == "bits":
            return Margin(self.number * log(2), self.provenance, f"{self.number:g} bits")
        if self.unit == "%":
            return Margin(self.number / 100 * abs(mean), self.provenance, f"{self.number:g}% of {reference}")
        if self.unit == "sd":
            if not seed_sd > 0:
                raise AnalysisError("no arm has two seeds that differ, so no margin can be taken from their spread")
            asked = f"{self.number:g} seed standard deviations of the same data"
            return Margin(self.number * seed_sd, FROM_DATA, asked)
        return Margin(self.number, self.provenance)


@dataclass(frozen=True)
class Question:
    """What is asked of a table.

    `against`: the reference arm; None for the smallest. `margin`: an amount, or a number in the metric's unit that is
    given now; None for directions alone. `varying`: settings meant to differ between arms. `control`: settings
    ('attention': 'grouped') of runs outside the factor's arms, with which each arm is compared.
    """

    metric: str = "val/loss"
    factor: str = "heads"
    against: int | float | None = None
    margin: Amount | float | None = None
    varying: tuple[str, ...] = ()
    control: tuple[tuple[str, str], ...] = ()
    allow_unequal_tokens: bool = False
    seed: int = 0

    @property
    def amount(self) -> Amount | None:
        return Amount(self.margin) if isinstance(self.margin, int | float) else self.margin


def parsed_margin(text: str) -> Amount:
    """'0.01', '0.01 nats', '0.02 bits', '1%' or '2 sd'. Raises AnalysisError for anything else.

    >>> parsed_margin("1 bit"), parsed_margin("0.5%").unit
    (Amount(number=1.0, unit='bits', provenance='given later'), '%')
    """
    match = _AMOUNT.fullmatch(text)
    unit = _UNITS.get(match["unit"].lower()) if match else None
    try:
        number = float(match["number"]) if match else float("nan")
    except ValueError:
        number = float("nan")
    if unit is None or not isfinite(number) or number < 0:
        raise AnalysisError(
            f"margin={text!r}: give a finite number, 0 or more, alone or with a unit: 0.01, 0.01 nats, 0.02 bits, "
            "1% (of the reference), 2 sd (of the same data)"
        )
    return Amount(number, unit)  # pyright: ignore[reportArgumentType]


def question_for(
    export: Export,
    metric: str = "val/loss",
    factor: str | None = None,
    against: int | float | None = None,
    margin: Amount | float | None = None,
    varying: tuple[str, ...] = (),
) -> tuple[Question, list[Finding]]:
    """The question, and what must be said of where its margin comes from."""
    chosen = factor or _factor(export)
    recorded, findings = _recorded_margin(export, metric)
    given = Amount(margin) if isinstance(margin, int | float) else margin
    if given is None:
        given = None if recorded is None else Amount(recorded, "", RECORDED)
    elif recorded is not None and (given.number, given.unit) in ((recorded, ""), (recorded, "nats")):
        given = Amount(recorded, "", RECORDED)
    elif recorded is not None:
        words = f"{given.number:g} {given.unit}".strip()
        text = f"the margin of {words} was given later; the runs recorded {recorded:g} before their first step"
        findings.append(caution("margin", text))
    planned = [name for plan in export.manifest["plans"] for name in (plan.get("varying") or "").split(",") if name]
    names = tuple(dict.fromkeys(name.strip().removeprefix("config.") for name in (*planned, *varying)))
    return Question(metric, chosen, against, given, names, _control(export, chosen)), findings


def has_learning_rates(runs: pd.DataFrame, factor: str) -> bool:
    """Whether every arm that finished ran at several learning rates, so that it can be tuned."""
    if LEARNING_RATE not in runs or factor not in runs:
        return False
    finished = runs[runs["status"] == FINISHED]
    tried = finished.groupby(factor)[LEARNING_RATE].nunique()
    return len(tried) > 0 and bool((tried > 1).all())


def _factor(export: Export) -> str:
    if "heads" not in export.runs:
        return "heads"  # the table lacks what it is about, and judging it says so
    planned = [name for plan in export.manifest["plans"] for name in plan["factors"]]
    candidates = [name for name in planned if name in FACTORS] + list(FACTORS)
    for name in sorted(dict.fromkeys(candidates), key=lambda name: name != "heads"):
        values = export.runs[name].nunique() if name in export.runs else 0
        if values > 1 or name in planned:
            return name
    return "heads"


def _control(export: Export, factor: str) -> tuple[tuple[str, str], ...]:
    """The settings of the control that a plan names; or of its one arm that has no value of the factor."""
    for plan in export.manifest["plans"]:
        named = plan.get("control")
        if named:
            pairs = [item.partition("=") for item in str(named).split(",")]
            return tuple((name.strip(), value.strip()) for name, _, value in pairs)
        arms = [arm for arm in plan.get("arms") or () if factor in arm]
        without = [arm for arm in arms if arm[factor] is None]
        if len(without) == 1 and len(arms) > 1:
            return tuple((str(name), str(value)) for name, value in without[0].items() if value is not None)
    return ()


def _recorded_margin(export: Export, metric: str) -> tuple[float | None, list[Finding]]:
    if metric not in METRICS or not METRICS[metric].unit.startswith("nats"):
        return None, []
    if _RECORDED_IN not in export.runs or export.runs.empty:
        return None, []
    ordered = export.runs.sort_values("started_at") if "started_at" in export.runs else export.runs
    margins = list(dict.fromkeys(None if pd.isna(value) else float(value) for value in ordered[_RECORDED_IN]))
    if len(margins) == 1:
        return margins[0], []
    shown = some(["none" if margin is None else f"{margin:g}" for margin in margins])
    return margins[0], [caution("margin", f"runs recorded different margins ({shown}); the earliest one is used")]
