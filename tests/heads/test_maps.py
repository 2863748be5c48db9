"""The picture shows the numbers: every head a panel, in place, named, on one scale."""

import io

import numpy as np
import pytest
from matplotlib.figure import Figure

from src.heads.maps import COLUMNS_AT_MOST, LABELS_AT_MOST, draw_head, draw_layers, head_name


def causal_weights(heads: int, tokens: int, seed: int = 0) -> np.ndarray:
    scores = np.tril(np.random.default_rng(seed).random((heads, tokens, tokens)) + 0.1)
    return scores / scores.sum(-1, keepdims=True)


def panels(figure: Figure) -> list:
    return [axes for axes in figure.axes if axes.get_visible() and axes.get_title()]


def test_every_panel_holds_the_weights_of_its_head():
    layers = [causal_weights(4, 5, seed=1), causal_weights(4, 5, seed=2)]
    figure = draw_layers(layers, "hello", kv_heads=2, caption="c", first_layer=3)
    found = panels(figure)
    assert len(found) == 8
    for place, axes in enumerate(found):
        shown = axes.images[0].get_array()
        expected = layers[place // 4][place % 4]
        assert np.allclose(shown.filled(0.0), expected)
        assert axes.get_title() == head_name(place % 4, 4, 2)
    assert [axes.get_ylabel() for axes in found[::4]] == ["layer 3", "layer 4"]


def test_all_panels_share_one_scale_from_0_to_1():
    figure = draw_layers([causal_weights(2, 3)], "abc", kv_heads=2, caption="c")
    assert {(axes.images[0].norm.vmin, axes.images[0].norm.vmax) for axes in panels(figure)} == {(0.0, 1.0)}


def test_the_future_is_left_out_and_a_weight_of_0_is_not():
    axes = Figure().subplots()
    weights = np.array([[1.0, 0.0], [0.0, 1.0]])
    shown = draw_head(axes, weights, "ab").get_array()
    assert shown is not None
    assert np.ma.getmaskarray(shown).tolist() == [[False, True], [False, False]]


@pytest.mark.parametrize("heads", [1, 8, 9, 16])
def test_no_row_is_longer_than_eight_and_every_head_has_a_panel(heads):
    found = panels(draw_layers([causal_weights(heads, 2)], "ab", kv_heads=heads, caption="c"))
    assert [axes.get_title() for axes in found] == [f"head {head}" for head in range(heads)]
    assert max(axes.get_subplotspec().colspan.start for axes in found) < COLUMNS_AT_MOST


def test_invisible_tokens_are_shown_and_long_texts_are_labelled_sparsely():
    axes = Figure().subplots()
    draw_head(axes, causal_weights(1, 4)[0], "a \n$")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "␣", "↵", "$"]
    axes = Figure().subplots()
    draw_head(axes, causal_weights(1, 100)[0], "x" * 100)
    assert len(axes.get_xticks()) <= LABELS_AT_MOST


@pytest.mark.parametrize("text", ["$a$", "_^{", "\\"])
def test_no_token_is_read_as_markup(text):
    figure = draw_layers([causal_weights(1, len(text))], text, kv_heads=1, caption=text)
    figure.savefig(io.BytesIO())


def test_a_head_is_named_with_the_kv_head_that_it_shares():
    assert [head_name(head, 4, 2) for head in range(4)] == [
        "head 0, kv-head 0",
        "head 1, kv-head 0",
        "head 2, kv-head 1",
        "head 3, kv-head 1",
    ]
    assert head_name(0, 4, 1) == "head 0, kv-head 0"
