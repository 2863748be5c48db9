"""What a sweep's words vary."""

from __future__ import annotations

import pytest

from src.errors import ConfigError
from src.sweeps.grid import Request, hide_pairs, read_request


def rows(request: Request) -> list[tuple[tuple[str, ...], list[tuple[object, ...]]]]:
    return [(axis.names, [tuple(c.value for c in position) for position in axis.positions]) for axis in request.axes]


def test_lists_vary_and_single_values_hold_for_all() -> None:
    request = read_request(["heads=1,2,4", "seed=range(3)", "data=text_file", "training.max_steps=5"])
    assert rows(request) == [(("heads",), [(1,), (2,), (4,)]), (("seed",), [(0,), (1,), (2,)])]
    assert request.fixed == ("data=text_file", "training.max_steps=5")


def test_paired_settings_vary_together_not_as_a_full_grid() -> None:
    (axis,) = read_request(["(heads,kv_heads)=(8,8),(8,2),(4,null)"]).axes
    assert axis.names == ("heads", "kv_heads")
    assert [tuple(c.value for c in p) for p in axis.positions] == [(8, 8), (8, 2), (4, None)]
    assert [c.text for c in axis.positions[2]] == ["4", "null"]


def test_a_file_s_lists_may_be_text_numbers_or_yaml_lists() -> None:
    request = read_request([], {"heads": "1,2", "seed": [0, 1], "kv_heads": 1, "training.compile": [True, False]})
    assert rows(request) == [
        (("heads",), [(1,), (2,)]),
        (("seed",), [(0,), (1,)]),
        (("training.compile",), [(True,), (False,)]),
    ]
    assert request.fixed == ("kv_heads=1",)


def test_the_command_line_wins_over_a_file_s_lists() -> None:
    params = {"heads": "1,2,4", "seed": "range(6)"}
    assert rows(read_request(["seed=7,8"], params)) == [(("heads",), [(1,), (2,), (4,)]), (("seed",), [(7,), (8,)])]
    request = read_request(["heads=2"], params)
    assert request.fixed == ("heads=2",)
    assert [axis.names for axis in request.axes] == [("seed",)]


def test_a_setting_given_on_the_command_line_leaves_its_pair() -> None:
    request = read_request(["heads=4"], {"(heads,kv_heads)": "(8,8),(8,2)"})
    assert rows(request) == [(("kv_heads",), [(8,), (2,)])]
    assert request.fixed == ("heads=4",)


def test_pairs_pass_through_hydra_s_grammar() -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    pairs = ["(heads,kv_heads)=(8,8),(8,1)", "(model.d_model,model.layers)=(64,2),(128,4)"]
    hidden = hide_pairs(["-m", pairs[0], "seed=0", pairs[1]])
    assert hidden[:2] == ["-m", "seed=0"]
    assert OverridesParser.create().parse_override(hidden[2]).value() == pairs


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["heads=1,2", "heads=4"], "heads is given twice"),
        (["heads=1,2", "(heads,kv_heads)=(8,8),(8,1)"], "heads is given twice"),
        (["head=1,2"], "did you mean 'heads'"),
        (["(heads,kv_head)=(8,8),(8,1)"], "did you mean 'kv_heads'"),
        (["(heads,kv_heads)=(8,8),(8,1,2)"], "is not one value for each of heads, kv_heads"),
        (["(heads,heads)=(8,8),(8,1)"], "twice"),
        (["training.learning_rate=interval(0,1)"], "a sweep runs listed values"),
        (["heads=1,2,(3"], "cannot be read"),
        (["group=a,b"], "one for a whole sweep"),
        (["sweep.fail_fast=true,false"], "one for a whole sweep"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_request(words)
