"""The numbers of the golden runs: how they are read from a run, and written anew.

A commit that means to change numbers runs `python -m tests.golden.numbers`, and says in the CHANGELOG, under
Results, which moved and why. The folder before/ and the export of it are never written anew.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.golden.commands import COMMANDS, HERE, TEXT, command, record_of, rows_of, tables_of

GOLDEN = HERE / "numbers.json"
_TIMES = ("time", "started_at", "ended_at", "train/timed_seconds", "decode/ms_per_token", "train/mfu")
_MACHINE = ("code.", "environment.python", "environment.platform", "environment.host", "environment.cpu_count")
_DEVICE = ("environment.device_name", "environment.packages.", "memory/peak_bytes")


def is_steady(name: str) -> bool:
    """Whether a number is the same on every machine, at every hour, from every version of the sources."""
    return not (name in _TIMES or name.endswith("tokens_per_second") or name.startswith((*_MACHINE, *_DEVICE)))


def train_all(here: Path) -> dict[str, Path]:
    """Gives the commands in `here`; the folder of each run by what it is."""
    (here / TEXT.name).write_bytes(TEXT.read_bytes())
    folders = {}
    for name, words in COMMANDS.items():
        ended = command("src.train", *words, here=here)
        assert ended.code == 0, ended.text
        found = set(here.glob("runs/*/*/")) - set(folders.values())
        if name == "sharing":
            by_kv_heads = {record_of(folder)["geometry"]["kv_heads"]: folder for folder in found}
            folders = {"mha": by_kv_heads[4], "gqa": by_kv_heads[2], "mqa": by_kv_heads[1]}
        else:
            (folders[name],) = found
    for group in ("sharing", "single"):
        ended = command("src.export", f"runs/{group}", "--out", f"exports/{group}", here=here)
        assert ended.code == 0, ended.text
    return folders


def numbers_of(folder: Path) -> dict[str, Any]:
    """All that is steady in a run's folder and in its rows of the export."""
    record, rows = record_of(folder), rows_of(folder)
    tables = tables_of(folder.parents[2] / "exports" / folder.parent.name)
    (exported,) = [row for row in tables["runs"].to_pylist() if row["run_id"] == record["run_id"]]
    names = sorted({name for row in rows for name in row})
    return {
        "run_id": record["run_id"],
        "config": record["config"],
        "data": {name: value for name, value in record["data"].items() if name != "source"},
        "geometry": record["geometry"],
        "costs": record["costs"],
        "summary_names": sorted(record["summary"]),
        "summary": {name: value for name, value in record["summary"].items() if is_steady(name)},
        "sample": (folder / "sample.txt").read_text(encoding="utf-8") if (folder / "sample.txt").exists() else None,
        "row_names": names,
        "rows": {name: [row.get(name) for row in rows] for name in names if is_steady(name)},
        "exported": {name: value for name, value in exported.items() if value is not None and is_steady(name)},
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as here:
        numbers = {name: numbers_of(folder) for name, folder in train_all(Path(here)).items()}
    lines = [
        f'  "{name}": {{\n'
        + ",\n".join(f'    "{part}": {json.dumps(value)}' for part, value in parts.items())
        + "\n  }"
        for name, parts in numbers.items()
    ]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
