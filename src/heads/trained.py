"""A finished run and its held-out data, for looking at its heads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from src.data.load import Data, load_data
from src.errors import DataError, RunError
from src.record import Record

if TYPE_CHECKING:
    from torch import Tensor

    from src.training.checkpoint import LoadedModel


@dataclass(frozen=True)
class TrainedRun:
    """A finished run: its record, its model in evaluation mode on the CPU, and the data that it was judged by."""

    folder: Path
    record: Record
    loaded: LoadedModel
    data: Data

    @property
    def name(self) -> str:
        return self.record.run_id

    def held_out(self, sequences: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of so many held-out sequences, evenly spread, or of all where there are fewer."""
        config = self.loaded.config
        return self.data.evaluation_batches(config.context_length, config.training).some(sequences)


def open_run(folder: Path) -> TrainedRun:
    """The finished run of this folder.

    Raises RunError for a run that is not finished or of another version, DataError for a corpus that is gone or is no
    longer what the run was trained on.
    """
    record = Record.read(folder)
    if record.status != "finished":
        raise RunError(
            f"{folder} is not finished (status {record.status}); give its command again to go on, or name another run"
        )
    from src.training.checkpoint import load_model

    loaded = load_model(folder)
    data = _data_of(folder, loaded)
    return TrainedRun(folder, record, loaded, data)


def _data_of(folder: Path, loaded: LoadedModel) -> Data:
    """The run's data, where its paths start at the current folder, or at the one that the run was started from."""
    started = folder.resolve().parents[min(2, len(folder.resolve().parents) - 1)]
    try:
        data = load_data(loaded.config.data)
    except DataError as here:
        try:
            data = load_data(loaded.config.data, started)
        except DataError:
            raise DataError(f"the held-out data of {folder.name} is gone: {here}") from None
    if data.hash != loaded.data_hash:
        raise DataError(
            f"data={data.name} is not what {folder.name} was trained on: its hash is {data.hash[:12]}, the run's "
            f"{loaded.data_hash[:12]}; put the former file back"
        )
    return data
