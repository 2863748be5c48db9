"""What a run, or a model of random weights, looks at: each head's attention over one text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from src.compose import compose
from src.errors import ConfigError, DataError
from src.geometry import Geometry

if TYPE_CHECKING:
    from src.data.vocabulary import Vocabulary
    from src.model.gpt import GPT


def random_weights(text: str, chosen: list[str]) -> tuple[str, GPT, Vocabulary]:
    """What the picture is of, the model and the characters of the text as its vocabulary.

    Initialised by fan-in: scores then have unit spread, and heads differ visibly before any training.
    """
    from src.data.vocabulary import CharacterVocabulary
    from src.model.gpt import GPT
    from src.model.init import initialise

    config = compose([*chosen, f"context_length={len(text)}", "model.init=fan_in"])
    vocabulary = CharacterVocabulary.of(text)
    network = GPT(Geometry.of(config), vocabulary.size).eval()
    initialise(network, config.model.init, config.seed)
    return f"{config.model.name}, random weights, seed {config.seed}", network, vocabulary


def trained_weights(run: Path) -> tuple[str, GPT, Vocabulary]:
    """The same of a run's checkpoint. Raises RunError where there is none."""
    from src.training.checkpoint import load_run

    loaded = load_run(run)
    return run.name, loaded.model.eval(), loaded.vocabulary


def draw(network: GPT, vocabulary: Vocabulary, text: str, source: str, layer: int | None, out: Path) -> str:
    """Writes the picture; gives one line about it.

    Raises DataError for a text past the context or with unknown characters, ConfigError for a layer that is not.
    """
    import torch

    from src.heads.maps import draw_layers

    g = network.geometry
    tokens = vocabulary.encode(text).astype("int64")
    if len(tokens) == 0:
        raise DataError(f"{text!r} holds no token to look at; give a longer --text")
    if len(tokens) > g.context_length:
        raise DataError(f"the text has {len(tokens)} tokens; the model sees {g.context_length}: give a shorter --text")
    if layer is not None and not 0 <= layer < g.layers:
        raise ConfigError(f"layer={layer}: the model has layers 0 to {g.layers - 1}")
    with torch.inference_mode():
        layers = [layer.weights[0].numpy() for layer in network.look_inside(torch.tensor(tokens)[None])]
    labels = [vocabulary.decode([token]) for token in tokens.tolist()]
    first = 0 if layer is None else layer
    shared = "" if g.kv_heads == g.heads else f" on {g.kv_heads} kv-heads"
    caption = (
        f"{g.kind.words} of {g.heads} heads{shared}, {g.head_dim} wide; {source}\n"
        "rows look, columns are looked at; each row sums to 1, grey is the future"
    )
    figure = draw_layers(
        layers if layer is None else [layers[layer]],
        labels,
        kv_heads=g.kv_heads,
        caption=caption,
        first_layer=first,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)
    where = f"in each of {g.layers} layers" if layer is None else f"in layer {layer}"
    return f"{out}: {g.heads} heads {where}, {len(tokens)} x {len(tokens)} weights a head; {source}"
