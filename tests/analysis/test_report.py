"""The report as a whole: what it opens with, that it stands alone, and that bad input ends in a sentence."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.compare import LEARNING_RATE
from analysis.load import load
from analysis.report.__main__ import main
from analysis.report.render import inline_svg
from analysis.report.write import plain, write_report
from analysis.rule.answer import CODES
from analysis.study import study_of
from src import ROOT
from tests.analysis.export_maker import curves, write_export

MakeRuns = Callable[..., pd.DataFrame]
Noisy = Callable[..., dict[int, list[float]]]


class Elements(HTMLParser):
    """Every element with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def report(make_runs: MakeRuns, noisy: Noisy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports") / "some"
    runs = make_runs(noisy({1: 1.9, 4: 1.85, 16: 1.88})).assign(**{"config.sweep.margin_nats": 0.01})
    runs.loc[(runs["heads"] == 16) & (runs["seed"] == 2), ["status", "val/loss", "error"]] = (
        "diverged",
        np.nan,
        "Diverged: <loss> is not finite & so on",
    )
    plan = {"command": ["-m", "heads=1,4,16", "note=a b"], "factors": ["heads"]}
    export = load(write_export(folder, runs, curves(runs), plans=[plan]))
    write_report(study_of(export), folder)
    return folder


def test_the_page_opens_with_one_sentence_one_figure_and_three_bullets(report: Path) -> None:
    page = (report / "report.html").read_text(encoding="utf-8")
    text = re.sub(r"<[^>]+>", "", page[page.index("<main>") :])
    sentence = json.loads((report / "verdict.json").read_text())["verdicts"][0]["sentence"]
    assert text.split()[:5] == ["Is", "more", "heads", "always", "better?"]
    opening = page[page.index("<main>") : page.index("<h2>")]
    assert opening.index(sentence) < opening.index("<figure>") < opening.index("<ul")
    assert (opening.count("<figure>"), opening.count("<li>")) == (1, 3)
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles == ["Table", "Figures", "Other margins", "Coverage", "Limits", "Reproduce", "Methods"]


@pytest.mark.parametrize(("experiments", "said"), [(2, 2), (5, 1)])
def test_the_page_opens_with_the_sentences_of_all_experiments_where_they_are_few(
    make_runs: MakeRuns, noisy: Noisy, tmp_path: Path, experiments: int, said: int
) -> None:
    parts = []
    for number in range(experiments):
        own = make_runs(noisy({1: 1.9, 4: 1.9 - 0.02 * number}))
        parts.append(own.assign(**{"config.model.dropout": number / 10, "run_id": own["run_id"] + f"-{number}"}))
    study = study_of(load(write_export(tmp_path / "some", pd.concat(parts, ignore_index=True))))
    assert len(study.verdicts) == experiments
    assert len(study.opening) == said
    for number, text in enumerate(study.opening):
        assert text.startswith(f"With model.dropout={number / 10:g}: ")
    page = write_report(study, tmp_path / "some").read_text(encoding="utf-8")
    opening = page[page.index("<main>") : page.index("<h2>")]
    assert opening.count('class="claim"') == said
    assert page.count("Setting: ") == experiments, "each setting is said once"


def test_a_loss_of_vectors_is_no_nats(make_runs: MakeRuns, noisy: Noisy, tmp_path: Path) -> None:
    runs = make_runs(noisy({1: 0.1, 4: 0.7})).assign(**{"data.vocabulary_size": np.nan})
    study = study_of(load(write_export(tmp_path / "some", runs)))
    assert study.verdicts[0].unit == "squared distance"
    assert "nats" not in write_report(study, tmp_path / "some").with_suffix(".md").read_text(encoding="utf-8")


def test_the_page_stands_alone(report: Path) -> None:
    page = (report / "report.html").read_text(encoding="utf-8")
    elements = Elements(page).found
    assert not {"script", "link", "iframe", "img"} & {tag for tag, _ in elements}
    for _, attributes in elements:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
    outside = set(re.findall(r"https?://[^\s\"'<)]+", page))
    assert outside <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "url(http" not in page
    assert "@import" not in page


def test_ids_are_unique_and_references_lead_somewhere(report: Path) -> None:
    page = (report / "report.html").read_text(encoding="utf-8")
    ids = [attributes["id"] for _, attributes in Elements(page).found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(#|xlink:href="#)([^")]+)', page)) <= set(ids)


def test_text_in_figures_follows_the_page_into_the_dark(report: Path) -> None:
    page = (report / "report.html").read_text(encoding="utf-8")
    figures = page[page.index("<figure>") :]
    assert "currentColor" in figures
    assert "#1f2328" not in figures
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_what_was_left_out_is_named_and_escaped(report: Path) -> None:
    page = (report / "report.html").read_text(encoding="utf-8")
    assert "heads=16 seed 2 (diverged: Diverged: &lt;loss&gt; is not finite &amp; so on)" in page
    assert "<loss>" not in page


def test_the_markdown_shows_figures_that_are_there(report: Path) -> None:
    text = (report / "report.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert shown
    for name in shown:
        assert (report / name).stat().st_size > 0
        assert (report / name).with_suffix(".png").stat().st_size > 0
    assert "python -m src.train -m heads=1,4,16 'note=a b'" in text


def test_the_json_is_the_verdict_without_a_number_that_json_cannot_hold(report: Path) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    content = json.loads((report / "verdict.json").read_text(), parse_constant=refuse)
    (verdict,) = content["verdicts"]
    assert verdict["answer"] in CODES
    assert [arm["arm"] for arm in verdict["arms"]] == [1, 4, 16]
    assert (verdict["margin"], verdict["margin_source"]) == (0.01, "recorded before the runs")
    assert (verdict["coverage"]["used"], verdict["coverage"]["planned"]) == (17, 18)
    assert content["export"]["hash"] == load(report).hash


def test_no_missing_number_is_printed(report: Path) -> None:
    page = re.sub(r"<[^>]+>", " ", (report / "report.html").read_text(encoding="utf-8"))
    assert re.findall(r"\b(nan|NaN|None|NA)\b", page[page.index("always better") :]) == []


def test_plain_values_are_jsons_own() -> None:
    value = {1: np.int64(2), "a": (np.nan, np.inf, pd.NA, np.bool_(True))}
    assert plain(value) == {"1": 2, "a": [None, None, None, True]}


def test_tuned_and_shared_learning_rates_stand_side_by_side(make_runs: MakeRuns, noisy: Noisy, tmp_path: Path) -> None:
    low = make_runs(noisy({1: 1.9, 8: 1.9}, seeds=8))
    high = make_runs(noisy({1: 1.95, 8: 1.85}, seeds=8)).assign(**{LEARNING_RATE: 0.01})
    high["run_id"] += "-high"
    runs = pd.concat([low, high], ignore_index=True)
    study = study_of(load(write_export(tmp_path / "some", runs)), margin=0.02)
    assert len(study.verdicts) == 2
    (verdict,) = study.tuned_verdicts
    assert study.tuning is not None
    assert study.tuning.choice["chosen"].tolist() == [0.001, 0.01]
    assert sorted(verdict.cells.values.index) == [2, 3, 4, 5, 6, 7]
    assert verdict.answer == "every_step_helps"
    assert study.opening[0].startswith("At each arm's own best learning rate: More heads")
    page = write_report(study, tmp_path / "out").read_text(encoding="utf-8")
    assert "At tuned learning rates" in page
    assert "training.learning_rate=0.01" in page
    assert (tmp_path / "out" / "figures" / "learning_rates.svg").exists()


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (lambda t: t.iloc[:0], 1, "nothing can be judged: the table holds no runs"),
        (lambda t: t[t["heads"] == 4], 0, "only 4 heads ran"),
        (lambda t: t[t["seed"] == 0], 0, "no two arms share two seeds"),
        (lambda t: t.drop(columns="val/loss"), 1, "no column 'val/loss'"),
        (lambda t: t.drop(columns="heads"), 1, "no column 'heads'"),
        (lambda t: t.assign(**{"val/loss": np.nan}), 1, "no run has a finite val/loss"),
        (lambda t: t.assign(status="failed"), 1, "0 of 4 planned runs are counted; left out: heads=1 seed 0 (failed)"),
        (lambda t: t.assign(heads=t["heads"] - 1), 1, "heads is under 1 in heads1-seed0 (0)"),
    ],
)
def test_bad_input_ends_in_a_sentence_and_a_report(
    make_runs: MakeRuns, tmp_path: Path, change: Callable[[pd.DataFrame], pd.DataFrame], code: int, says: str
) -> None:
    folder = write_export(tmp_path / "some", change(make_runs({1: [1.9, 1.91], 4: [1.8, 1.82]})))
    study = study_of(load(folder))
    write_report(study, folder)
    assert (1 if study.refusal else 0) == code
    assert says.removeprefix("nothing can be judged: ") in (folder / "report.md").read_text().replace("\\", "")
    assert json.loads((folder / "verdict.json").read_text())["refusal"] == study.refusal


def test_the_command_says_the_claim_and_where_the_report_is(
    make_runs: MakeRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_export(tmp_path / "some", make_runs({1: [1.9, 1.91], 4: [1.8, 1.82]}))
    main(folder, out=tmp_path / "out", margin="0.01 nats")
    said = capsys.readouterr().out
    assert said.startswith(json.loads((tmp_path / "out" / "verdict.json").read_text())["verdicts"][0]["sentence"])
    assert said.strip().endswith("report.html")
    assert "a margin of 0.01 (given later)" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def test_the_command_ends_in_a_sentence_where_there_is_no_export(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "analysis.report", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert done.stderr.startswith(f"error: {tmp_path} is no export")


def test_an_inlined_figure_scales_and_keeps_its_ids_to_itself() -> None:
    from analysis.plots.style import looks, new_figure

    with looks():
        figure = new_figure()
        figure.add_subplot().plot([1, 2], [1, 2], "o")
        first, second = inline_svg(figure, "a", "one & two"), inline_svg(figure, "b", "other")
    assert first.startswith('<svg role="img" aria-label="one &amp; two" ')
    assert not re.search(r'<svg [^>]*\bwidth="', first)
    ids = [set(re.findall(r'id="([^"]+)"', svg)) for svg in (first, second)]
    assert ids[0]
    assert not ids[0] & ids[1]
