"""Text into token shards: after `python -m src.data.prepare book.txt --out shards`, data=token_shards reads them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from src.data.prepare.folder import prepare
from src.data.prepare.sources import Files, HuggingFace, TextSource
from src.data.shards import ShardManifest
from src.data.text import read_text
from src.data.vocabulary import BpeVocabulary, ByteVocabulary
from src.errors import DataError, UserError, fail

MEGABYTE = 10**6


def main(
    out: Annotated[Path, typer.Option(help="The folder to write; the same command goes on where it stopped.")],
    inputs: Annotated[list[Path] | None, typer.Argument(help="Text files, .jsonl or .parquet.")] = None,
    vocabulary: Annotated[str, typer.Option(help="bpe (learnt from the text), bytes, or a tokenizer.json.")] = "bpe",
    vocabulary_size: Annotated[int, typer.Option(help="Tokens of a learnt vocabulary.")] = 4096,
    learn_megabytes: Annotated[int, typer.Option(min=1, help="Training text that a vocabulary is learnt from.")] = 100,
    validation_fraction: Annotated[float, typer.Option(help="Share kept for validation.")] = 0.01,
    column: Annotated[str, typer.Option(help="Where JSON lines, parquet and data sets hold their text.")] = "text",
    part_megabytes: Annotated[int, typer.Option(min=1, help="Text held in memory at once, and in one file.")] = 64,
    dataset: Annotated[str | None, typer.Option(help="A Hugging Face data set instead of files, streamed.")] = None,
    config: Annotated[str | None, typer.Option(help="The data set's configuration.")] = None,
    split: Annotated[str, typer.Option(help="The data set's split to read.")] = "train",
    revision: Annotated[str | None, typer.Option(help="The data set's commit; without one it may change.")] = None,
    part_rows: Annotated[int, typer.Option(min=1, help="Rows of a data set held in memory at once.")] = 20_000,
) -> None:
    """Turn text of any size into token shards that data=token_shards reads."""
    try:
        if not 0 < validation_fraction < 1:
            raise DataError(
                f"--validation-fraction {validation_fraction}: it must be above 0 and below 1, such as 0.01"
            )
        if bool(inputs) == bool(dataset):
            raise DataError("give either files or --dataset, and only one of the two")
        settings: dict[str, Any] = {"vocabulary": vocabulary}
        if vocabulary == "bpe":
            settings |= {"vocabulary_size": vocabulary_size, "learn_megabytes": learn_megabytes}
        settings |= {"validation_fraction": validation_fraction, "column": column}
        source: TextSource
        if dataset:
            settings["part_rows"] = part_rows
            source = HuggingFace(dataset, config, split, revision, column, validation_fraction, part_rows)
        else:
            settings["part_megabytes"] = part_megabytes
            source = Files(inputs or [], column, validation_fraction, part_megabytes * MEGABYTE)
        _show(run(out, source, settings), out)
    except UserError as error:
        fail(error)


def run(out: Path, source: TextSource, settings: dict[str, Any]) -> ShardManifest:
    """Prepares a folder with a progress bar."""
    unit = "rows" if source.total is None else "MB"
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[read]} " + unit),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("encoding", total=source.total, read="0")

        def report(read: int) -> None:
            done = progress.tasks[task].completed + read
            shown = f"{done:,.0f}" if source.total is None else f"{done / MEGABYTE:,.1f}"
            progress.update(task, advance=read, read=shown)

        return prepare(out, source, settings, lambda: make_vocabulary(source, settings), report)


def make_vocabulary(source: TextSource, settings: dict[str, Any]) -> BpeVocabulary | ByteVocabulary:
    """The vocabulary that was asked for: the bytes, learnt from the first training text, or read from a file."""
    if settings["vocabulary"] == "bytes":
        return ByteVocabulary()
    if settings["vocabulary"] == "bpe":
        texts = training_texts(source, settings["learn_megabytes"] * MEGABYTE)
        return BpeVocabulary.learn(texts, settings["vocabulary_size"])
    return BpeVocabulary(read_text(Path(settings["vocabulary"])))


def training_texts(source: TextSource, most_bytes: int) -> Iterator[str]:
    """The first training text of a source, up to a number of bytes."""
    read = 0
    for number in count():
        pieces = source.part(number)
        if pieces is None:
            return
        for piece in pieces:
            if read >= most_bytes:
                return
            if piece.split == "train":
                read += len(piece.text.encode("utf-8", "replace"))
                yield piece.text


def _show(manifest: ShardManifest, out: Path) -> None:
    for split, entries in (("training", manifest.train), ("validation", manifest.validation)):
        tokens, text_bytes = sum(one.tokens for one in entries), sum(one.text_bytes for one in entries)
        print(f"{split}: {tokens:,} tokens in {len(entries)} files, {text_bytes / tokens:.3f} bytes of text a token")
    print(f"vocabulary: {manifest.vocabulary.kind} of {manifest.vocabulary.size:,} tokens")
    print(f"train on it with: python -m src.train data=token_shards data.path={out}")


if __name__ == "__main__":
    typer.run(main)
