"""`python -m analysis.results`: writes into the READMEs what the studies' verdict.json say, and draws them together.

Nothing there is typed.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from analysis.results.picture import draw

RESULTS = Path(__file__).parent
README = RESULTS.parent.parent / "README.md"
_MARKS = re.compile(r"(<!-- studies -->\n).*?(<!-- end -->)", re.DOTALL)
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


def replaced(text: str, inside: str) -> str:
    """The text with what stands between its marks replaced. Raises KeyError where it has none."""
    if not _MARKS.search(text):
        raise KeyError("no place for the studies: '<!-- studies -->' and '<!-- end -->' are missing")
    return _MARKS.sub(lambda match: f"{match[1]}{inside}\n{match[2]}", text)


def pages() -> dict[Path, str]:
    """Each README as it should be."""
    studies = verdicts()
    wanted = {README: told(studies, "analysis/results/"), RESULTS / "README.md": table(studies)}
    return {path: replaced(path.read_text(encoding="utf-8"), inside) for path, inside in wanted.items()}


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
