"""`python -m analysis.results`: writes into the READMEs what the studies' verdict.json say, and draws them together.

Nothing there is typed.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.results.picture import draw
from src.costs import Costs
from src.io_spec import TokenSpec
from src.metrics import bytes_shown
from src.published import GPT2_SMALL

RESULTS = Path(__file__).parent
ROOT = RESULTS.parent.parent
README = ROOT / "README.md"
EXERCISES = ROOT / "docs" / "exercises.md"
_ORDER = (
    *("head_count_rotary", "head_count", "tutorial_heads"),
    *("two_lookups", "max_retrieval", "farthest_point"),
)


def verdicts() -> dict[str, dict[str, Any]]:
    """What each study says, by name; the known ones first, in the order in which they are told."""
    found = {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*/verdict.json")}
    names = [name for name in _ORDER if name in found] + sorted(set(found) - set(_ORDER))
    return {name: found[name] for name in names}


def told(studies: dict[str, dict[str, Any]], folder: str) -> str:
    """A list: each study with its sentences, and under which setting; links from `folder` ('' or a path with /)."""
    lines = []
    for name, study in studies.items():
        first = study["verdicts"][0]
        lines.append(f"- [`{name}`]({folder}{name}/report.md) ({_setting(first)}):")
        lines += [f"  {'- ' if len(study['sentences']) > 1 else ''}{sentence}" for sentence in study["sentences"]]
    return "\n".join(lines)


def table(studies: dict[str, dict[str, Any]]) -> str:
    """One row an experiment: runs, answer, sentence."""
    rows = ["| study | runs | answer | what it says |", "|---|---|---|---|"]
    for name, study in studies.items():
        for verdict, sentence in zip(study["verdicts"], study["sentences"], strict=True):
            answer = verdict["answer"].replace("_", " ") + ("" if verdict["at"] is None else f" {verdict['at']}")
            rows.append(f"| `{name}` | {verdict['coverage']['used']} | {answer} | {sentence} |")
    return "\n".join(rows)


def told_alone(name: str, study: dict[str, Any]) -> str:
    """One study for the page of exercises: its sentences, its setting, its first figure, and how to run it anew."""
    folder = f"../analysis/results/{name}"
    command = "\n".join(
        [
            f"uv run python -m src.train sweeps={name} hydra/launcher=processes training.threads=1",
            f"uv run python -m src.export runs/{name} --out exports/{name}",
            f"uv run python -m analysis.report exports/{name}",
        ]
    )
    return "\n\n".join(
        [
            *(f"> **{sentence}**" for sentence in study["sentences"]),
            f"{_setting(study['verdicts'][0])}. [Report]({folder}/report.md), [every run]({folder}/export).",
            f"![{name}: each head count beside the fewest]({folder}/figures/headline.png)",
            f"```bash\n{command}\n```",
        ]
    )


def replaced(text: str, inside: str, mark: str = "studies") -> str:
    """The text with what stands between its marks replaced. Raises KeyError where it has none."""
    between = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not between.search(text):
        raise KeyError(f"no place for the {mark}: '<!-- {mark} -->' and '<!-- end -->' are missing")
    return between.sub(lambda match: f"{match[1]}{inside}\n{match[2]}", text)


def exercises(studies: dict[str, dict[str, Any]]) -> str:
    """The page of exercises with what each study says now, and the costs of sharing keys and values."""
    text = replaced(EXERCISES.read_text(encoding="utf-8"), sharing(), "sharing")
    for name, study in studies.items():
        text = replaced(text, told_alone(name, study), name)
    return text


def sharing(context: int = 2048) -> str:
    """A table: parameters and KV cache of GPT-2 small at this context, by its kv-heads; exact, from `src.costs`."""
    rows = [
        "| kv-heads | parameters of attention | | parameters of the model | | KV cache | |",
        "|---|---|---|---|---|---|---|",
    ]
    model = replace(GPT2_SMALL, context_length=context)
    costs = {kv: Costs.of(replace(model, kv_heads=kv), TokenSpec(50_257), "bfloat16") for kv in (model.heads, 4, 2, 1)}
    for kv, cost in costs.items():
        cells = [str(kv)]
        for name in ("attention_parameters", "parameters", "cache_bytes"):
            value, whole = getattr(cost, name), getattr(costs[model.heads], name)
            cells += [bytes_shown(value) if name == "cache_bytes" else f"{value:,}", f"{value / whole:.1%}"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def pages() -> dict[Path, str]:
    """Each page as it should be."""
    studies = verdicts()
    wanted = {README: told(studies, "analysis/results/"), RESULTS / "README.md": table(studies)}
    pages = {path: replaced(path.read_text(encoding="utf-8"), inside) for path, inside in wanted.items()}
    return {**pages, EXERCISES: exercises(studies)}


def _setting(verdict: dict[str, Any]) -> str:
    c = verdict["condition"]
    parameters = [arm["cost/parameters"] for arm in verdict["arms"] if arm.get("cost/parameters")]
    seeds = max(arm["n"] for arm in verdict["arms"])
    words = [str(c.get("model.name")), str(c.get("data.name")), str(c.get("regime")).replace("_", " ")]
    if c.get("model.positions") != "none":
        words.append(f"{c.get('model.positions')} positions")
    if parameters:
        words.insert(1, f"{max(parameters):,.0f} parameters")
    margin = f"margin {verdict['margin']:g} {verdict['margin_source']}"
    return ", ".join([*words, f"{seeds} seeds", margin])


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(README.parent))
    for path in draw(verdicts(), RESULTS):
        print(path.relative_to(README.parent))
