"""Attention maps: what each head looks at, one panel a head."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

COLOURS = "cividis"  # even in lightness and alike to every kind of colour vision
GAMMA = 0.5  # square root: a weight of 0.05 can still be told from 0
HIDDEN = "0.85"
LABELS_AT_MOST = 24
COLUMNS_AT_MOST = 8

SHOWN = {" ": "␣", "\n": "↵", "\t": "⇥"}
"""Characters that would print as nothing."""


def draw_head(axes: Axes, weights: Float[np.ndarray, "T S"], labels: Sequence[str]) -> AxesImage:
    """One head's weights: a row a token that looks, a column a token that is looked at; later tokens in grey.

    Colours run from 0 to 1 on a square-root scale in every panel, so that panels compare.
    """
    hidden = np.triu(np.ones_like(weights, dtype=bool), k=1)
    axes.set_facecolor(HIDDEN)
    seen = np.ma.array(weights, mask=hidden)
    image = axes.imshow(seen, cmap=COLOURS, norm=PowerNorm(GAMMA, vmin=0.0, vmax=1.0), interpolation="nearest")
    step = -(-len(labels) // LABELS_AT_MOST)
    places = range(0, len(labels), step)
    shown = ["".join(SHOWN.get(character, character) for character in labels[place]) for place in places]
    size = min(9.0, 130.0 / max(len(shown), 1))
    rotation = 90 if max(map(len, shown)) > 2 else 0
    axes.set_xticks(places, shown, fontsize=size, parse_math=False, rotation=rotation)
    axes.set_yticks(places, shown, fontsize=size, parse_math=False)
    axes.tick_params(length=0, pad=2)
    return image


def draw_layers(
    layers: Sequence[Float[np.ndarray, "H T S"]],
    labels: Sequence[str],
    *,
    kv_heads: int,
    caption: str,
    first_layer: int = 0,
) -> Figure:
    """Every head of every layer, at most eight panels a row; `caption` says whose they are."""
    heads = len(layers[0])
    rows_a_layer = -(-heads // COLUMNS_AT_MOST)
    columns = -(-heads // rows_a_layer)
    rows = rows_a_layer * len(layers)
    panel = min(max(0.12 * len(labels), 1.7), 3.2)  # inches
    figure = Figure(figsize=(panel * columns + 1.6, (panel + 0.25) * rows + 0.7), layout="constrained", dpi=130)
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes in panels.flat:
        axes.set_visible(False)
    images = []
    for layer, weights in enumerate(layers):
        for head in range(heads):
            row, column = layer * rows_a_layer + head // columns, head % columns
            axes = panels[row, column]
            axes.set_visible(True)
            images.append(draw_head(axes, weights[head], labels))
            axes.set_title(head_name(head, heads, kv_heads), fontsize=9, pad=3)
            axes.tick_params(labelleft=column == 0, labelbottom=row == rows - 1)
            if column == 0:
                axes.set_ylabel(f"layer {first_layer + layer}", fontsize=10)
    bar = figure.colorbar(images[0], ax=panels, fraction=0.03, pad=0.01, aspect=30, ticks=[0, 0.05, 0.2, 0.5, 1])
    bar.set_label("attention weight, square-root scale")
    figure.supxlabel(caption, fontsize=9, parse_math=False)
    return figure


def head_name(head: int, heads: int, kv_heads: int) -> str:
    """What stands above a panel; the kv-head too, where heads share.

    >>> head_name(3, 4, 4), head_name(3, 4, 2)
    ('head 3', 'head 3, kv-head 1')
    """
    return f"head {head}" if kv_heads == heads else f"head {head}, kv-head {head // (heads // kv_heads)}"
