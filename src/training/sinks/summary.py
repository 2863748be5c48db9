"""What a run's record says, for the one who started it: a table, the sample, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from src.costs import BYTES, cache_bytes, cache_formula
from src.geometry import Geometry
from src.metrics import shown, unit_of
from src.record import RECORD, SAMPLE, Record

_LABELS = {
    "val/loss": "val loss",
    "val/perplexity": "perplexity",
    "val/bits_per_token": "bits a token",
    "val/accuracy": "val accuracy",
    "val/loss_best": "best val loss",
    "train/tokens_per_second": "training",
    "decode/prefill_tokens_per_second": "prefill",
    "decode/ms_per_token": "decode",
    "cache/bytes": "KV cache",
    "cost/parameters": "parameters",
    "memory/peak_bytes": "peak memory",
}
_ONLY_WHERE_THERE = {"val/accuracy"}
_OF_TOKENS = {"val/perplexity", "val/bits_per_token", "decode/prefill_tokens_per_second", "decode/ms_per_token"}
_OF_TOKENS |= {"cache/bytes"}
_MARKUP = {"finished": "green", "skipped": "yellow", "preempted": "yellow", "interrupted": "yellow"}


def print_ending(console: Console, record: Record, folder: Path, sample: str | None = None) -> None:
    """Prints how a run ended: the table, the text sample (else sample.txt), the folder, and the next step."""
    never_refuse_a_character(console)
    console.print(summary_table(record, folder))
    text = sample if sample is not None else _stored_sample(folder)
    if text:
        console.print(Text("sample", style="bold"))
        console.print(Text(text.rstrip("\n") + "\n"), soft_wrap=True)
    for line in next_steps(record, folder):
        console.print(Text(line), soft_wrap=True)


def never_refuse_a_character(console: Console) -> None:
    """Lets a terminal that knows ASCII alone show '?' instead of ending the run with a UnicodeEncodeError."""
    reconfigure = getattr(console.file, "reconfigure", None)
    if reconfigure is not None and not console.encoding.startswith("utf"):
        reconfigure(errors="replace")


def summary_table(record: Record, folder: Path) -> Table:
    """The numbers of a run by name, value and what belongs beside it; a missing one is a dash.

    What a model of vectors does not have, such as a cache, has no row.
    """
    status = Text(record.status, style=_MARKUP.get(record.status, "red"))
    table = Table(
        title=Text.assemble(folder.name, "  ", status), title_justify="left", show_header=False, box=box.SIMPLE
    )
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    left_out = _ONLY_WHERE_THERE | (_OF_TOKENS if _reads_vectors(record) else set())
    for name, label in _LABELS.items():
        value = record.summary.get(name)
        if value is not None or name not in left_out:
            table.add_row(label, shown(name, value), Text(_beside(name, record)))
    return table


def next_steps(record: Record, folder: Path) -> Iterator[str]:
    """The run's folder and the command to type next, or where to look after a failure."""
    where = path_to_type(folder)
    yield f"run      {where}"
    if record.status == "finished" and _reads_vectors(record):
        yield f"next     python -m src.train --multirun experiment={record.config['data']['name']} heads=1,4 seed=0,1"
    elif record.status == "finished":
        prompt = shlex.quote(str(record.config.get("sample", {}).get("prompt") or "ROMEO:"))
        yield f"next     python -m src.sample {where} --prompt {prompt}"
    elif record.status in ("preempted", "interrupted"):
        yield "next     the same command again: it goes on from the checkpoint"
    elif record.error is not None:
        yield f"error    {record.error['type']}: {record.error['message']}"
        yield f"         traceback: {path_to_type(folder / RECORD)}, under error.traceback"


def path_to_type(path: Path) -> str:
    """A path as one types it from here: short where it lies below, quoted where a shell needs it."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _beside(name: str, record: Record) -> str:
    summary = record.summary
    if name == "val/loss":
        return f"{unit_of(name, of_vectors=_reads_vectors(record)).replace('/', ' a ')}, whole validation split"
    if name == "val/loss_best" and summary.get("val/loss_best_step") is not None:
        return f"at step {shown('val/loss_best_step', summary['val/loss_best_step'])}"
    if name == "decode/ms_per_token":
        return shown("decode/tokens_per_second", summary.get("decode/tokens_per_second"))
    if name == "cache/bytes":
        return _formula(record)
    return ""


def _reads_vectors(record: Record) -> bool:
    return "features" in record.data.get("ends", {})


def _formula(record: Record) -> str:
    """The cache bytes written out, from the geometry and the dtype that give exactly these bytes."""
    geometry = _geometry(record)
    count = record.summary.get("cache/bytes")
    if geometry is None or count is None:
        return ""
    for dtype in BYTES:
        if cache_bytes(geometry, batch=1, positions=geometry.context_length, dtype=dtype) == count:
            return f"= {cache_formula(geometry, dtype)}"
    return ""


def _geometry(record: Record) -> Geometry | None:
    try:
        return Geometry(**{field.name: record.geometry[field.name] for field in fields(Geometry)})
    except KeyError:
        return None  # a record of an invalid or skipped job has none


def _stored_sample(folder: Path) -> str | None:
    path = folder / SAMPLE
    return path.read_text(encoding="utf-8") if path.exists() else None
