"""The commands whose numbers are golden, typed as a user types them, and how their files are read.

What is imported of the code stands here alone, so that a move of modules is one edit. Everything else of these tests
knows commands, files and columns: what outlives any order of the rooms.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow import parquet

from tests import in_process

HERE = Path(__file__).parent
BEFORE = HERE / "before"
"""Run folders of 0b60235, as it left them; only the machine's name and folder are taken out."""

TEXT = HERE / "text.txt"
TINY = (
    *("data=text_file", "data.path=text.txt", "training=smoke", "training.batch_size=4", "training.learning_rate=0.01"),
    *("model.d_model=16", "model.layers=2", "model.ffn_ratio=2.0", "context_length=16", "sample.tokens=8"),
    *("device=cpu", "training.threads=1", "measurement.repeats=1", "measurement.decode_tokens=8", "logger=disabled"),
)
VECTORS = ("data.test_examples=50", "training.max_steps=20", "training.log_interval=1", "training.eval_interval=10")
COMMANDS = {
    "sharing": ("-m", "(heads,kv_heads)=(4,4),(4,2),(4,1)", *TINY, "group=sharing"),
    "mla": ("heads=4", "attention=latent", "latent_dim=12", "rope_dim=2", "model.positions=rotary", *TINY),
    "vectors": ("experiment=farthest_point", "heads=2", *VECTORS, *TINY[-5:]),
    "task": (
        *("heads=4", "kv_heads=2", "regime=equal_params", "model.dropout=0.1", "training.micro_batch_size=2"),
        *("data=copy", "data.test_examples=40", *TINY[2:]),
    ),
}
BEGUN = ("-m", "heads=2,4", *TINY, "group=begun")
"""A sweep of which one run is finished and the other was stopped at step 13."""


class Ended(NamedTuple):
    code: int
    text: str


def command(module: str, *words: str, here: Path) -> Ended:
    """`python -m <module> <words>` in the folder `here`, in this process."""
    done = in_process.command(module, *words, here=here)
    return Ended(done.returncode, done.stdout + done.stderr)


def record_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "record.json").read_text(encoding="utf-8"))


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def tables_of(export: Path) -> dict[str, Any]:
    """The tables of an export as Arrow reads them: types as they are on disk."""
    return {name: parquet.read_table(export / f"{name}.parquet") for name in ("runs", "steps")}


def load_export(folder: Path) -> Any:
    """What every analysis starts from: `.runs`, `.steps`, `.hash`, `.findings`."""
    from analysis.load import load

    return load(folder)


def verdicts_of(export: Path) -> list[dict[str, Any]]:
    """The verdicts of an export as verdict.json has them, without its figures."""
    from analysis.load import load
    from analysis.report.write import json_of
    from analysis.study import study_of

    return json_of(study_of(load(export)))["verdicts"]
