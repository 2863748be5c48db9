"""A trained model, read back from its run's folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from src.config import Config
from src.data.vocabulary import Vocabulary, vocabulary_of
from src.errors import RunError
from src.geometry import Geometry
from src.model.gpt import GPT
from src.training.build import make_model
from src.training.checkpoint import load_checkpoint


@dataclass(frozen=True)
class LoadedRun:
    """What a checkpoint holds for its reader; the vocabulary is the one that the model was trained with."""

    config: Config
    geometry: Geometry
    vocabulary: Vocabulary
    model: GPT
    step: int


def load_run(folder: Path) -> LoadedRun:
    """The model of a run folder, in evaluation mode on the CPU. Raises RunError where there is none."""
    content = load_checkpoint(folder)
    if content is None:
        what = "has no checkpoint yet" if folder.is_dir() else "does not exist"
        raise RunError(f"{folder} {what}; name a run's folder: runs/<group>/<run_id>")
    config = Config.of(content["config"])
    geometry = Geometry(**content["geometry"])
    vocabulary = vocabulary_of(content["vocabulary"])
    model = make_model(config, geometry, vocabulary.size)
    model.load_state_dict(content["model"])
    return LoadedRun(config, geometry, vocabulary, model.eval(), content["state"]["step"])
