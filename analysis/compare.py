"""What makes two runs comparable: everything but the factor and the seed is alike.

A table that mixes experiments is split into groups, and the settings that differ are named with their values. At the
end, the same comparison at tuned learning rates: each arm at its own best, chosen on seeds that are not tested.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.findings import AnalysisError, Finding, caution, some
from analysis.load import FINISHED, require
from src.config import decides_result
from src.metrics import METRICS

_FINAL = ("heads", "kv_heads", "context_length", "regime", "attention", "data_hash")
"""Columns of final values that stand for the setting of the same name."""

EVERY_HEAD = "as many as heads"
RATE_OF_EACH_ARM = "tuned for each arm"
"""The condition of runs that took their learning rate from an earlier study."""
_RATE, _RATE_FROM = "training.learning_rate", "training.learning_rate_from"
Condition = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the factor and the seed."""

    condition: Condition
    runs: pd.DataFrame

    @property
    def name(self) -> str:
        c = self.condition
        parts = [c.get("model.name"), c.get("data.name"), c.get("regime")]
        return " ".join(str(part) for part in parts if part is not None) or "runs"


def conditions(
    runs: pd.DataFrame, factor: str, varying: Iterable[str] = (), identity: Sequence[str] | None = None
) -> pd.DataFrame:
    """One column a setting that must be alike, in plain comparable values (8, 8.0 and "8" are one).

    `varying` names settings that are meant to differ, such as a learning rate tuned for each head count. `identity`:
    the settings that decide a result, as the export has them; None for those of src.config.
    """
    varying = {factor.removeprefix("config."), *varying}
    columns: dict[str, pd.Series] = {}
    for name in map(str, runs.columns):
        setting = name.removeprefix("config.")
        final = name in _FINAL or name == factor
        if setting in varying or setting == "seed" or not (final or name.startswith("config.")):
            continue
        if not final and setting in _FINAL and setting in runs.columns:
            continue
        if not (decides_result(setting) if identity is None else setting in identity):
            continue
        columns[setting] = runs[name].map(plain)
    table = pd.DataFrame(columns, index=runs.index, dtype=object)
    if _RATE in table and f"config.{_RATE_FROM}" in runs:
        table.loc[runs[f"config.{_RATE_FROM}"].notna(), _RATE] = RATE_OF_EACH_ARM
    if "kv_heads" in table and "heads" in runs:
        table["kv_heads"] = _written_kv_heads(runs)
    if {"head_dim", "regime", "model.d_model"} <= set(table.columns) and "heads" in runs:
        table["head_dim"] = [_written_head_dim(*row) for row in _head_dims(table, runs)]
    return table


def split(
    runs: pd.DataFrame, factor: str, varying: Iterable[str] = (), identity: Sequence[str] | None = None
) -> list[Group]:
    """Groups of comparable runs, the largest first. A run that never finished joins the group that it fits.

    Where no run finished, the groups are of all runs.
    """
    table = conditions(runs, factor, varying, identity)
    keys = [_key(row) for row in table.to_numpy(dtype=object)]
    finished = (runs["status"] == FINISHED).to_numpy()
    anchors = finished if finished.any() else np.ones(len(runs), dtype=bool)
    found = list(dict.fromkeys(key for key, anchor in zip(keys, anchors, strict=True) if anchor))
    assigned = [_fitting(key, found) if not anchor else key for key, anchor in zip(keys, anchors, strict=True)]
    groups = []
    for key in dict.fromkeys([*found, *assigned]):
        mask = np.array([other == key for other in assigned])
        groups.append(Group(dict(zip(table.columns, key, strict=True)), runs[mask]))
    return sorted(groups, key=lambda group: -len(group.runs))


def differing(groups: Sequence[Group]) -> dict[str, list[Any]]:
    """The settings in which groups differ, each with its values."""
    names = dict.fromkeys(name for group in groups for name in group.condition)
    values = {name: list(dict.fromkeys(group.condition.get(name) for group in groups)) for name in names}
    return {name: found for name, found in values.items() if len(found) > 1}


def mixture(groups: Sequence[Group]) -> Finding | None:
    """The sentence that says which experiments a table mixes; None where it holds one."""
    if len(groups) < 2:
        return None
    differ = [f"{name} ({some([_shown(value) for value in values])})" for name, values in differing(groups).items()]
    return caution(
        "mixture",
        f"the table mixes {len(groups)} experiments, judged apart; they differ in {some(differ)}",
    )


def only(groups: Sequence[Group]) -> Group:
    """The one group of a table. Raises AnalysisError that names what differs where it mixes several."""
    mixed = mixture(groups)
    if mixed is not None:
        raise AnalysisError(f"{mixed.text}; choose one (analysis.load.select) or judge each of them")
    return groups[0]


def not_alike(runs: pd.DataFrame, factor: str) -> list[Finding]:
    """What differs within a group and splits nothing, but a reader should know: code, machines, shapes of one arm."""
    findings = []
    for name in map(str, runs.columns):
        if name == "head_dim" or name.startswith("geometry."):
            for arm, column in runs.groupby(factor)[name]:
                values = list(dict.fromkeys(plain(value) for value in column if plain(value) is not None))
                if len(values) > 1:
                    shown = some([_shown(value) for value in values])
                    findings.append(caution("mixture", f"{factor}={arm} mixes {name} {shown} in one mean"))
    for name in map(str, runs.columns):
        if name.startswith(("code.", "environment.")) or name == "attention_kernel":
            values = list(dict.fromkeys(plain(value) for value in runs[name] if plain(value) is not None))
            if len(values) > 1:
                findings.append(caution("provenance", f"{name} is not alike: {some([_shown(v) for v in values])}"))
    return findings


def varied(runs: pd.DataFrame, factor: str, varying: Iterable[str]) -> dict[str, dict[Any, Any]]:
    """Each arm's value of the settings that may differ between arms. Raises AnalysisError where one arm has two."""
    names = [name.removeprefix("config.") for name in varying]
    if f"config.{_RATE_FROM}" in runs and runs[f"config.{_RATE_FROM}"].notna().any():
        names.append(_RATE)
    found: dict[str, dict[Any, Any]] = {}
    finished = runs[runs["status"] == FINISHED]
    for name in dict.fromkeys(names):
        column = name if name in runs else f"config.{name}"
        if column not in runs:
            raise AnalysisError(f"{name} is said to vary between arms, but the table has no such setting")
        found[name] = {}
        for arm, own in finished.groupby(factor)[column]:
            values = list(dict.fromkeys(plain(value) for value in own))
            if len(values) > 1:
                shown = some([_shown(value) for value in values])
                raise AnalysisError(f"{name} may vary between arms, but {factor}={arm} has {shown}: one for each arm")
            found[name][plain(arm)] = values[0]
    return found


def refuse_copies(runs: pd.DataFrame, factor: str, metric: str, steps: pd.DataFrame | None) -> None:
    """Raises AnalysisError with the names where runs of one arm under other seeds logged the very same curve."""
    source = next((name for name in ("train/loss", "val/loss") if steps is not None and name in steps), None)
    if steps is None or source is None:
        return
    rows = steps[steps["run_id"].isin(runs["run_id"]) & steps[source].notna()].sort_values(["run_id", "step"])
    curves: dict[tuple[Any, bytes], list[str]] = {}
    arm_of = dict(zip(runs["run_id"], runs[factor], strict=True))
    seed_of = dict(zip(runs["run_id"], runs["seed"], strict=True))
    for run, own in rows.groupby("run_id", sort=False):
        values = own[source].to_numpy(dtype=float)
        if len(values) >= _CURVE and len(np.unique(values)) > 1:
            curves.setdefault((arm_of[run], values.tobytes()), []).append(str(run))
    copies = [same for same in curves.values() if len(same) > 1]
    if copies:
        named = [", ".join(f"{run} (seed {seed_of[run]})" for run in same[:4]) for same in copies]
        raise AnalysisError(
            f"runs under different seeds have the very same {source} at every step, so they are copies of one run: "
            f"{'; '.join(named[:3])}; run them anew with their own seeds"
        )


_CURVE = 3
"""Points from which on equal curves are no chance."""


def plain(value: Any) -> Hashable:
    """A value that compares: 8, 8.0 and "8" are one; missing is None."""
    if isinstance(value, list | tuple | dict | np.ndarray):
        return str(value if not isinstance(value, np.ndarray) else value.tolist())
    if value is None or pd.isna(value):
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return int(number) if number.is_integer() else number


def _key(row: Iterable[Any]) -> tuple[Hashable, ...]:
    # A column that mixes missing with numbers hands its missing values out as NaN, which equals nothing.
    return tuple(plain(value) if not isinstance(value, bool) else value for value in row)


def _fitting(key: tuple[Hashable, ...], found: Sequence[tuple[Hashable, ...]]) -> tuple[Hashable, ...]:
    """The one group that an unfinished run fits by what it knows of itself; else a group of its own."""
    if key in found:
        return key
    fits = [group for group in found if all(mine is None or mine == its for mine, its in zip(key, group, strict=True))]
    return fits[0] if len(fits) == 1 else key


def _written_kv_heads(runs: pd.DataFrame) -> list[Any]:
    """What the kv-heads follow: EVERY_HEAD where they are as many as heads at each head count, else their number.

    One head with one kv-head belongs to either: to the runs with kv_heads=1 where there are some. None where
    a run that never finished does not say.
    """
    column = runs["config.kv_heads"] if "config.kv_heads" in runs else runs["kv_heads"]
    pairs = [(plain(kv), plain(heads)) for kv, heads in zip(column, runs["heads"], strict=True)]
    shared = {kv for kv, heads in pairs if kv is not None and kv != heads}
    written = [EVERY_HEAD if kv is None or (kv == heads and kv not in shared) else kv for kv, heads in pairs]
    final = runs.get("kv_heads", column)
    unknown = (final.isna() & column.isna() & (runs["status"] != FINISHED)).to_numpy()
    return [None if nobody_knows else kv for kv, nobody_knows in zip(written, unknown, strict=True)]


def _head_dims(table: pd.DataFrame, runs: pd.DataFrame) -> Iterable[tuple[Any, ...]]:
    return zip(table["head_dim"], table["regime"], table["model.d_model"], runs["heads"], strict=True)


def _written_head_dim(head_dim: Any, regime: Any, d_model: Any, heads: Any) -> Any:
    """None where the written width is the one that the regime would derive anyway."""
    if head_dim is None or pd.isna(head_dim):
        return None
    own = regime == "fixed_width" and not pd.isna(heads) and head_dim * heads == d_model
    return None if own else head_dim


def _shown(value: Any) -> str:
    return "null" if value is None else str(value)


# The same comparison at tuned learning rates: each arm at its own best, chosen on seeds that are not tested.
LEARNING_RATE = "config.training.learning_rate"


@dataclass(frozen=True)
class Tuned:
    """`runs`: each arm at its chosen setting, tuning seeds left out; give `varying=(setting,)` to the verdict.

    `choice`: indexed by arm: chosen, mean (on the tuning seeds), seeds, at_edge (of the values tried), sensitivity
    (mean over the values tried of how much worse each is than the best).
    """

    setting: str
    runs: pd.DataFrame
    choice: pd.DataFrame
    findings: tuple[Finding, ...]


def tuned(
    runs: pd.DataFrame, factor: str, metric: str, tuning_seeds: Iterable[int], setting: str = LEARNING_RATE
) -> Tuned:
    """Chooses for each arm the value of `setting` with the best mean metric on the tuning seeds.

    A value counts only where all tuning seeds of the arm finished with a number. Raises AnalysisError where
    an arm has none, or where no seed is left to test on.
    """
    require(runs, (setting, factor, metric, "seed", "status"))
    tuning = sorted(set(tuning_seeds))
    held_out = runs[~runs["seed"].isin(tuning)]
    if held_out.empty or not tuning:
        raise AnalysisError(f"tuning seeds {some(list(map(str, tuning)))} leave no seed to choose or none to test on")
    finished = runs[runs["status"] == FINISHED]
    table = finished.groupby([factor, setting, "seed"])[metric].first().unstack("seed").reindex(columns=tuning)
    means = table.astype(float).mean(axis=1, skipna=False).unstack(setting).sort_index(axis=1)
    untried = [
        str(arm) for arm in runs[factor].dropna().unique() if arm not in means.index or means.loc[arm].isna().all()
    ]
    if untried:
        raise AnalysisError(
            f"{factor}={some(untried)} has no {setting} at which all tuning seeds ({some(list(map(str, tuning)))}) "
            "finished; nothing can be chosen for it"
        )
    choice = _choice(means, METRICS[metric].better == "lower", len(tuning))
    chosen = held_out[held_out[setting] == held_out[factor].map(choice["chosen"])]
    edge = [f"{arm} ({row.chosen:g})" for arm, row in choice.iterrows() if row["at_edge"]]
    found = (
        [caution("tuning", f"the best {_short(setting)} lies at the edge of those tried for {some(edge)}")]
        if edge
        else []
    )
    return Tuned(setting, chosen, choice, tuple(found))


def _choice(means: pd.DataFrame, lower: bool, seeds: int) -> pd.DataFrame:
    best = means.idxmin(axis=1) if lower else means.idxmax(axis=1)
    top = means.min(axis=1) if lower else means.max(axis=1)
    tried = means.apply(lambda row: list(row.dropna().index), axis=1)
    edges = [len(values) > 1 and chosen in (values[0], values[-1]) for values, chosen in zip(tried, best, strict=True)]
    gap = means.sub(top, axis=0).abs().mean(axis=1)
    return pd.DataFrame({"chosen": best, "mean": top, "seeds": seeds, "at_edge": edges, "sensitivity": gap})


def _short(setting: str) -> str:
    return setting.removeprefix("config.")
