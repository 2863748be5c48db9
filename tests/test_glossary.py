"""The glossary lists the metrics as they are declared."""

from src import ROOT
from src.metrics import METRICS


def glossary_rows() -> list[str]:
    return [f"| `{metric.name}` | {metric.unit} | {metric.better} | {metric.meaning} |" for metric in METRICS.values()]


def test_the_glossary_lists_every_metric_as_declared() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    listed = [line for line in text.splitlines() if line.startswith("| `") and line.count("|") == 5]
    assert listed == glossary_rows(), "write docs/glossary.md anew: its table is that of src/metrics.py"
