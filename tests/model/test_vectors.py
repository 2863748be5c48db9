"""The model of vectors against plain float64 code, its counts and its refusals."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from src import costs
from src.costs import Costs
from src.errors import ConfigError
from src.geometry import Geometry
from src.io_spec import TokenSpec, VectorSpec, check_spec, spec_of
from src.model.encoder import VectorModel
from src.model.init import initialise
from src.model.kernel_report import kernel_report
from src.model.losses import answer_loss, squared_distance
from tests.model.reference import grouped

EACH = VectorSpec(features=5, outputs=3, is_pooled=False)
POOLED = VectorSpec(features=5, outputs=2, is_pooled=True)
MakeGeometry = Callable[..., Geometry]


def made(geometry: Geometry, spec: VectorSpec, **options) -> VectorModel:
    model = VectorModel(geometry, spec, **options)
    initialise(model, "torch", seed=0)
    return model.double().eval()


@pytest.mark.parametrize("spec", [EACH, POOLED], ids=["each", "pooled"])
@pytest.mark.parametrize("positions", ["none", "learned"])
def test_the_model_is_what_plain_code_computes(
    of_kind: MakeGeometry, normal: Callable[..., Tensor], spec: VectorSpec, positions: str
) -> None:
    """One layer, no norm, no residual, no feed-forward: input layer, attention over all, output layer."""
    shape = {"layers": 1, "ffn_width": 0, "residual": False, "norm": "none", "positions": positions, "bias": True}
    model = made(of_kind("gqa", **shape), spec)
    vectors = normal(2, 7, spec.features)
    with torch.no_grad():
        assert model.input is not None
        assert model.output is not None
        rows = []
        for example in vectors:
            x = example @ model.input.weight.T + model.input.bias
            if model.positions is not None:
                x = x + model.positions.weight[:7]
            if model.query is not None:
                x = torch.cat([x, model.query.weight])
            x = grouped(model.blocks[0].attention, x, is_causal=False)  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]
            x = x[-1:] if spec.is_pooled else x
            rows.append(x @ model.output.weight.T + model.output.bias)
        assert torch.allclose(model(vectors), torch.stack(rows), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["mha", "mqa", "mla"])
def test_every_position_sees_every_other_and_their_order_does_not_matter(
    of_kind: MakeGeometry, normal: Callable[..., Tensor], kind: str
) -> None:
    model = made(of_kind(kind, positions="none"), EACH)
    vectors = normal(1, 6, 5)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    assert torch.allclose(model(vectors[:, order]), model(vectors)[:, order], atol=1e-12)
    changed = vectors.clone()
    changed[:, -1] += 1
    assert not torch.allclose(model(changed)[:, 0], model(vectors)[:, 0]), "the last position reaches the first"


def test_a_pooled_answer_is_one_and_does_not_depend_on_the_order(
    of_kind: MakeGeometry, normal: Callable[..., Tensor]
) -> None:
    model = made(of_kind("mha", positions="none"), POOLED)
    vectors = normal(3, 6, 5)
    assert model(vectors).shape == (3, 1, 2)
    assert torch.allclose(model(vectors.flip(1)), model(vectors), atol=1e-12)


def test_without_linear_ends_a_layer_of_nothing_gives_the_vectors_back(
    of_kind: MakeGeometry, normal: Callable[..., Tensor]
) -> None:
    g = of_kind("mha", linear_ends=False, norm="none", positions="none", ffn_width=0)
    model = made(g, VectorSpec(g.d_model, g.d_model, is_pooled=False))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    vectors = normal(2, 4, g.d_model)
    assert torch.equal(model(vectors), vectors)


@pytest.mark.parametrize("spec", [EACH, POOLED], ids=["each", "pooled"])
@pytest.mark.parametrize("kind", ["mha", "gqa_rotary", "mla_rotary"])
def test_parameters_are_those_of_the_real_model(of_kind: MakeGeometry, kind: str, spec: VectorSpec) -> None:
    for bias, norm, width in product([True, False], ["layer", "none"], [0, 7]):
        g = of_kind(kind, bias=bias, norm=norm, ffn_width=width)
        real = sum(parameter.numel() for parameter in VectorModel(g, spec).parameters())
        assert costs.vector_parameters(g, spec) == real


def test_parameters_without_linear_ends_and_with_learned_positions(of_kind: MakeGeometry) -> None:
    g = of_kind("mha", positions="learned", linear_ends=False)
    spec = VectorSpec(g.d_model, g.d_model, is_pooled=True)
    assert costs.vector_parameters(g, spec) == sum(p.numel() for p in VectorModel(g, spec).parameters())


@pytest.mark.parametrize("spec", [EACH, POOLED], ids=["each", "pooled"])
@pytest.mark.parametrize("linear", [True, False])
def test_flops_are_those_that_torch_counts(
    of_kind: MakeGeometry, normal: Callable[..., Tensor], spec: VectorSpec, linear: bool
) -> None:
    g = of_kind("mha", positions="none", linear_ends=linear)
    spec = spec if linear else VectorSpec(g.d_model, g.d_model, spec.is_pooled)
    model = made(g, spec, kernel="math")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(normal(1, g.context_length, spec.features))
    counted = 3 * counter.get_total_flops() / g.context_length
    assert costs.vector_training_flops_per_token(g, spec) == round(counted)


def test_costs_of_a_model_without_a_cache_are_null(of_kind: MakeGeometry) -> None:
    costs = Costs.of(of_kind("mha"), EACH, "float32").as_dict()
    missing = {name for name, value in costs.items() if value is None}
    assert missing == {name for name in costs if "cache" in name or "decode" in name}


def test_the_kernel_report_speaks_of_training_alone(of_kind: MakeGeometry) -> None:
    assert set(kernel_report(made(of_kind("mha"), EACH, kernel="math"))) == {"training"}


def test_more_positions_than_the_context_are_refused(of_kind: MakeGeometry, normal: Callable[..., Tensor]) -> None:
    g = of_kind("mha")
    with pytest.raises(ValueError, match=f"{g.context_length + 1} positions; the model's context_length"):
        made(g, EACH)(normal(1, g.context_length + 1, 5))


def test_squared_distance_is_a_mean_over_answers_and_a_sum_over_numbers() -> None:
    answers, targets = torch.tensor([[[1.0, 2.0]], [[0.0, 0.0]]]), torch.tensor([[[0.0, 0.0]], [[3.0, 4.0]]])
    assert answer_loss(answers, targets).item() == (5 + 25) / 2
    assert answer_loss(answers, targets, "sum").item() == 30
    assert answer_loss(answers, targets, "none").tolist() == [5, 25]
    with pytest.raises(ValueError, match=r"\(2, 1, 2\) to targets of shape \(2, 3, 2\)"):
        squared_distance(answers, targets.expand(2, 3, 2))


def test_half_precision_answers_meet_their_targets_in_single_precision() -> None:
    answers = torch.full((1, 1, 1), 1.0, dtype=torch.bfloat16)
    loss = answer_loss(answers, torch.full((1, 1, 1), 1.001))
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(1e-6, rel=1e-2)


@pytest.mark.parametrize(
    ("spec", "changes", "words"),
    [
        (TokenSpec(7), {"linear_ends": False}, "model.linear_ends=false with data=x: tokens come from a table"),
        (EACH, {"tied_embeddings": True}, "model.tied_embeddings=true with data=x"),
        (EACH, {"linear_ends": False}, "vectors of 5 and 3 numbers"),
    ],
)
def test_ends_that_do_not_fit_the_model_are_refused(
    of_kind: MakeGeometry, spec: TokenSpec | VectorSpec, changes: dict, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        check_spec(of_kind("mha", **{"tied_embeddings": False} | changes), spec, "x")


def test_ends_come_back_from_plain_values() -> None:
    assert spec_of({"vocabulary_size": 7}) == TokenSpec(7)
    assert spec_of({"features": 5, "outputs": 3, "is_pooled": False}) == EACH
