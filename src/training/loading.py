"""A trained model, read back from its run's folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from src.config import Config
from src.data.vocabulary import Vocabulary, vocabulary_of
from src.ends import ends_of
from src.errors import RunError
from src.geometry import Geometry
from src.model.gpt import GPT
from src.training.build import make_model
from src.training.checkpoint import load_checkpoint


@dataclass(frozen=True)
class LoadedRun:
    """A language model from its checkpoint, with the vocabulary that it was trained with."""

    config: Config
    geometry: Geometry
    vocabulary: Vocabulary
    model: GPT
    step: int


def load_run(folder: Path) -> LoadedRun:
    """The language model of a run folder, in evaluation mode on the CPU.

    Raises RunError where there is none, or one that reads vectors.
    """
    content = load_checkpoint(folder)
    if content is None:
        what = "has no checkpoint yet" if folder.is_dir() else "does not exist"
        raise RunError(f"{folder} {what}; name a run's folder: runs/<group>/<run_id>")
    config = Config.of(content["config"])
    geometry = Geometry(**content["geometry"])
    model = make_model(config, geometry, ends_of(content["ends"]))
    if not isinstance(model, GPT):
        raise RunError(f"{folder} holds a model of data={config.data.name}, which reads vectors and no text")
    vocabulary = vocabulary_of(content["vocabulary"])
    model.load_state_dict(content["model"])
    return LoadedRun(config, geometry, vocabulary, model.eval(), content["state"]["step"])
