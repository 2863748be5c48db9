"""Scores, similarities, ranks and ablations of heads whose roles are known, and against plain loops in float64."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from src.data.tasks.task import NO_ANSWER
from src.heads.measure import ablation, circuits, patterns, roles
from src.heads.measure.ablation import HeldOut, change, silence
from src.heads.measure.patterns import SCORES, pattern_scores, pattern_similarity, repeated_tokens
from src.heads.measure.roles import probe_scores
from src.heads.measure.summary import layer_summaries, look_at_heads, model_summary
from src.model.gpt import GPT
from src.model.init import initialise
from tests.heads.hand_made import CONTEXT, VOCABULARY, circuit, layer_of
from tests.model import reference

KINDS = {
    "mha": {"heads": 4},
    "gqa": {"heads": 4, "kv_heads": 2},
    "mla": {"attention": "latent", "heads": 4, "latent_dim": 10, "rope_dim": 4, "positions": "rotary"},
}


@pytest.fixture(scope="module")
def made(geometry):
    return circuit(geometry)


@pytest.fixture(scope="module")
def probe():
    found = repeated_tokens(VOCABULARY, CONTEXT, 6)
    assert found is not None
    return found


@pytest.fixture(params=KINDS)
def model(request, geometry):
    """A random model of each kind, in float64, that no gradient is asked of."""
    made = GPT(geometry(**KINDS[request.param], ffn_width=32), VOCABULARY)
    initialise(made, "torch", 3)
    return made.double().eval().requires_grad_(False)


def data(rows: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(VOCABULARY, (rows, CONTEXT + 1), generator=torch.Generator().manual_seed(1))
    return tokens[:, :-1], tokens[:, 1:]


# Hand-made heads.
def test_each_hand_made_head_scores_1_at_what_it_was_made_for(made, probe):
    scores = probe_scores(made, probe)
    assert scores["previous_token"][0, 0] == pytest.approx(1.0)
    assert scores["same_token"][0, 1] == pytest.approx(1.0)
    # The first token has none before it and takes itself for it, which costs its copy half of its attention.
    assert scores["induction"][1, 0] == pytest.approx((7 + 1 / 2) / 8)
    # Of two copies, itself and the earlier one, half each; in the first half of the text only itself.
    assert scores["same_token"][1, 1] == pytest.approx((7 + 8 / 2) / 15)
    assert scores["duplicate_token"][1, 1] == pytest.approx(0.5)
    assert scores["previous_token"][0, 1] == pytest.approx(0.0, abs=1e-12)
    assert scores["induction"][0, 0] == pytest.approx(0.0, abs=1e-12)


def test_the_hand_made_circuit_is_named_and_random_weights_are_not(made, probe):
    null = roles.null_of(GPT(made.geometry, VOCABULARY), "torch", probe, models=19)
    assert roles.roles(probe_scores(made, probe), null) == [
        ["previous_token", "same_token"],
        ["induction", "same_token"],
    ]
    untrained = GPT(made.geometry, VOCABULARY).eval()
    initialise(untrained, "torch", 0)
    assert roles.roles(probe_scores(untrained, probe), null) == [[None, None], [None, None]]


def test_a_dead_head_can_be_ablated_for_exactly_nothing_and_the_circuit_cannot(made, probe):
    targets = probe.tokens[:, 1:].clone()
    targets[:, : probe.period] = NO_ANSWER  # before that nothing was said twice
    held = HeldOut(made, probe.tokens[:, :-1], targets)
    held.keep()
    whole = held.losses()
    for means in (None, held.mean_outputs()):
        dead = change(held.losses({0: [1]}, means), whole)
        assert (dead.mean, dead.margin) == (0.0, 0.0)
        assert change(held.losses({1: [0]}, means), whole).mean > 1.0
    assert held.gradient_importance()[0, 1] == 0.0


def test_two_identical_heads_are_alike_in_pattern_and_output_and_a_dead_one_has_no_output_to_compare(made, probe):
    model = copy.deepcopy(made)
    layer = layer_of(model, 0)
    with torch.no_grad():
        for part in layer.projection.weight.split(layer.widths):
            part[16:] = part[:16]
        layer.output.weight[:, 16:] = layer.output.weight[:, :16]
    seen = look_at_heads(model, probe.tokens, probe)
    assert seen.numbers["pattern_similarity"][0].tolist() == pytest.approx([1.0, 1.0])
    assert seen.numbers["output_similarity"][0].tolist() == pytest.approx([1.0, 1.0])
    assert seen.nearest_output[0] == [1, 0]
    dead = look_at_heads(made, probe.tokens, probe)
    assert dead.numbers["output_similarity"][0].isnan().all()
    assert dead.nearest_output[0] == [None, None]
    assert dead.numbers["pattern_similarity"][0, 0] < 0.1


def test_the_entropy_of_a_head_that_chooses_is_0_and_of_one_that_does_not_is_1():
    sharp = torch.eye(6).expand(2, 1, 6, 6)
    uniform = torch.tril(torch.ones(6, 6)) / torch.arange(1, 7)[:, None]
    both = torch.cat([sharp, uniform.expand(2, 1, 6, 6)], dim=1)
    assert patterns.entropy(both, is_causal=True).tolist() == pytest.approx([0.0, 1.0])
    assert patterns.distance(both).tolist() == pytest.approx([0.0, sum(range(6)) / 2 / 6])
    everywhere = torch.full((2, 1, 6, 6), 1 / 6)
    assert patterns.entropy(everywhere, is_causal=False).item() == pytest.approx(1.0)


def test_the_effective_rank_is_the_number_of_equal_directions(made):
    qk, ov = circuits.circuit_ranks(layer_of(made, 0))
    assert (qk * 16).tolist() == pytest.approx([15.0, 16.0])  # no query wants the last place
    assert ov[0].item() * 16 == pytest.approx(8.0)
    assert ov[1].isnan()


def test_the_summary_of_a_layer_holds_its_highest_scores_and_leaves_out_what_is_not_there(made, probe):
    null = roles.null_of(GPT(made.geometry, VOCABULARY), "torch", probe, models=19)
    first, second = layers = layer_summaries(look_at_heads(made, probe.tokens, probe), null)
    assert first["previous_token_max"] == pytest.approx(1.0)
    assert second["induction_max"] == pytest.approx(7.5 / 8)
    assert first["output_similarity"] is None
    assert first["with_role"] == second["with_role"] == 1.0
    whole = model_summary(layers)
    assert (whole["induction_max"], whole["with_role"]) == (second["induction_max"], 1.0)
    assert first["entropy"] is not None
    assert second["entropy"] is not None
    assert whole["entropy"] == pytest.approx((first["entropy"] + second["entropy"]) / 2)


# Plain loops.
def test_the_scores_are_those_of_a_plain_loop(model, probe):
    inside = model.look_inside(probe.tokens)
    for layer, found in enumerate(inside):
        scores = pattern_scores(found.weights, probe.period)
        for head in range(model.geometry.heads):
            looped = {score: [] for score in SCORES}
            for row, tokens in zip(found.weights[:, head].tolist(), probe.tokens.tolist(), strict=True):
                for i in range(1, CONTEXT):
                    looped["previous_token"].append(row[i][i - 1])
                    looped["same_token"].append(row[i][i])
                    if i > 1:
                        looped["first_token"].append(row[i][0])
                    copies = [j for j in range(i) if tokens[j] == tokens[i]]
                    if copies:
                        looped["duplicate_token"].append(sum(row[i][j] for j in copies))
                        looped["induction"].append(sum(row[i][j + 1] for j in copies))
            for score, values in looped.items():
                expected = sum(values) / len(values)
                assert float(scores[score][head]) == pytest.approx(expected, abs=1e-12), (layer, head, score)


def test_the_similarity_of_patterns_is_that_of_a_plain_loop(model):
    weights = model.look_inside(data(2)[0])[0].weights
    found = pattern_similarity(weights)

    def entropy(row: list[float]) -> float:
        return -sum(p * math.log2(p) for p in row if p > 0)

    divergences = []
    for one, other in zip(weights[:, 0].tolist(), weights[:, 1].tolist(), strict=True):
        for a, b in zip(one[1:], other[1:], strict=True):
            middle = [(p + q) / 2 for p, q in zip(a, b, strict=True)]
            divergences.append(entropy(middle) - (entropy(a) + entropy(b)) / 2)
    assert float(found[0, 1]) == pytest.approx(1 - sum(divergences) / len(divergences), abs=1e-12)
    assert torch.equal(found, found.T)


def test_the_similarity_of_outputs_is_the_cka_of_what_the_heads_add(model):
    block = model.blocks[0]
    tokens = data(3)[0]
    inside = model.look_inside(tokens)[0]
    found = circuits.output_similarity(inside, block.attention.output.weight)
    matrices = block.attention.head_matrices()
    added = [(inside.heads[:, h] @ matrices.output[h].T).flatten(0, 1) for h in range(model.geometry.heads)]
    centred = [part - part.mean(0) for part in added]
    for a, one in enumerate(centred):
        for b, other in enumerate(centred):
            expected = (one.T @ other).norm() ** 2 / ((one.T @ one).norm() * (other.T @ other).norm())
            assert float(found[a, b]) == pytest.approx(float(expected), rel=1e-9)


def test_the_matrices_of_a_head_are_those_that_the_layer_multiplies_by(model, geometry):
    """Scores without rotary positions, and outputs, from the matrices of each head alone."""
    layer = model.blocks[0].attention
    layer.rotary = None
    if hasattr(layer, "norm"):
        layer.norm = torch.nn.Identity()
    x = torch.randn(1, 5, model.geometry.d_model, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    inside, of = layer.look_inside(x), layer.head_matrices()
    for head in range(model.geometry.heads):
        scores = (x[0] @ of.query[head].T) @ (x[0] @ of.key[head].T).T * layer.scale
        assert torch.allclose(scores, inside.scores[0, head], atol=1e-12)
        assert torch.allclose(x[0] @ of.value[head].T, inside.values[0][head * inside.values.shape[1] // 4], atol=1e-12)
    written = torch.stack([inside.heads[0, head] @ of.output[head].T for head in range(4)]).sum(0)
    assert torch.allclose(written, inside.output[0], atol=1e-12)


def test_an_ablated_loss_is_that_of_a_model_with_zeroed_columns_of_the_output_matrix(model):
    inputs, targets = data()
    held = HeldOut(model, inputs, targets)
    held.keep()
    for silenced in ({0: [1]}, {1: [0, 3]}, {0: [0, 1, 2, 3], 1: [2]}):
        zeroed = copy.deepcopy(model)
        width = model.geometry.head_dim
        for layer, heads in silenced.items():
            for head in heads:
                zeroed.blocks[layer].attention.output.weight.data[:, head * width : (head + 1) * width] = 0.0
        expected = torch.nn.functional.cross_entropy(zeroed(inputs).flatten(0, 1), targets.flatten())
        assert held.losses(silenced).mean == pytest.approx(float(expected), abs=1e-12)
        assert held.losses().mean != pytest.approx(float(expected), abs=1e-4)


def test_an_ablated_loss_is_that_of_a_plain_loop(geometry):
    model = GPT(geometry(heads=4, kv_heads=2, ffn_width=0, norm="none", positions="rotary"), VOCABULARY)
    initialise(model, "torch", 5)
    model = model.double().eval().requires_grad_(False)
    inputs, targets = data(2)
    width, total = model.geometry.head_dim, 0.0
    for row, answers in zip(inputs, targets, strict=True):
        x = model.tokens.weight[row]
        for number in range(2):
            layer = copy.deepcopy(layer_of(model, number))
            if number == 1:
                layer.output.weight.data[:, 2 * width : 3 * width] = 0.0
            x = x + reference.grouped(layer, x)
        logits = x @ model.output.weight.T
        for place, answer in enumerate(answers.tolist()):
            total += math.log(sum(math.exp(value) for value in logits[place].tolist())) - float(logits[place, answer])
    expected = total / targets.numel()
    assert HeldOut(model, inputs, targets).losses({1: [2]}).mean == pytest.approx(expected, abs=1e-12)


def test_mean_ablation_puts_the_mean_output_of_the_head_in_its_place(model):
    inputs, targets = data()
    held = HeldOut(model, inputs, targets)
    means = held.mean_outputs()
    insides = model.look_inside(inputs)
    for mean, inside in zip(means, insides, strict=True):
        assert torch.allclose(mean, inside.concatenated.mean((0, 1)), atol=1e-12)
    with silence(model, {1: [3]}, means):
        inside = model(inputs)
    width = model.geometry.head_dim
    layer = copy.deepcopy(model)
    output = layer.blocks[1].attention.output
    moved = torch.zeros(4 * width, dtype=torch.float64)
    moved[3 * width :] = means[1][3 * width :]
    shift = moved @ output.weight.T
    output.weight.data[:, 3 * width :] = 0.0
    output.bias = torch.nn.Parameter(shift + (0.0 if output.bias is None else output.bias.data))
    assert torch.allclose(layer(inputs), inside, atol=1e-12)


def test_what_the_blocks_were_given_is_kept_and_changes_no_number(model):
    held, kept = HeldOut(model, *data()), HeldOut(model, *data())
    kept.keep()
    for silenced in (None, {1: [0]}, {0: [2], 1: [1]}):
        assert torch.equal(held.losses(silenced).sums, kept.losses(silenced).sums)


def test_gradient_importance_is_the_slope_of_the_loss_by_a_heads_share(model):
    inputs, targets = data(3)
    found = HeldOut(model, inputs, targets).gradient_importance()
    step, width = 1e-5, model.geometry.head_dim
    for layer, head in ((0, 1), (1, 2)):
        slopes = []
        for row, answers in zip(inputs, targets, strict=True):
            losses = []
            for share in (1 + step, 1 - step):
                scaled = copy.deepcopy(model)
                scaled.blocks[layer].attention.output.weight.data[:, head * width : (head + 1) * width] *= share
                losses.append(float(torch.nn.functional.cross_entropy(scaled(row[None])[0], answers)))
            slopes.append(abs(losses[0] - losses[1]) / (2 * step))
        assert float(found[layer, head]) == pytest.approx(sum(slopes) / len(slopes), rel=1e-5)


def test_an_interval_counts_sequences_and_weighs_answers():
    after = ablation.Losses(torch.tensor([3.0, 6.0, 2.0]), torch.tensor([2.0, 4.0, 2.0]))
    before = ablation.Losses(torch.tensor([2.0, 4.0, 1.0]), after.answers)
    found = change(after, before)
    assert (found.mean, found.sequences) == (pytest.approx(4 / 8), 3)
    assert found.margin == pytest.approx(0.0, abs=1e-12)  # half a nat an answer in each
    assert change(before, before).mean == 0.0
    one = change(ablation.Losses(torch.ones(1), torch.ones(1)), ablation.Losses(torch.zeros(1), torch.ones(1)))
    assert one.margin is None


def test_the_probe_says_each_token_once_a_period_and_short_models_have_none():
    found = repeated_tokens(vocabulary_size=50, length=20, sequences=4)
    assert found is not None
    assert found.period == 10
    assert torch.equal(found.tokens[:, :10], found.tokens[:, 10:])
    assert {len(set(row)) for row in found.tokens.tolist()} == {10}
    assert len({tuple(row) for row in found.tokens.tolist()}) == 4
    assert repeated_tokens(50, 5, 1) is None
    assert repeated_tokens(2, 100, 1) is None


def test_scores_and_ablation_agree_with_transformer_lens_where_it_is_installed():
    pytest.importorskip(
        "transformer_lens", reason="TransformerLens is not installed; plain loops stand in for it above"
    )
    from transformer_lens import HookedTransformer, HookedTransformerConfig  # pyright: ignore

    config = HookedTransformerConfig(
        n_layers=1, d_model=16, n_ctx=CONTEXT, d_head=8, n_heads=2, d_vocab=VOCABULARY, attn_only=True, seed=0,
        normalization_type=None,
    )  # fmt: skip
    theirs = HookedTransformer(config)
    probe = repeated_tokens(VOCABULARY, CONTEXT, 4)
    assert probe is not None
    _, cache = theirs.run_with_cache(probe.tokens)
    weights = cache["pattern", 0]
    scores = pattern_scores(weights, probe.period)
    assert torch.allclose(scores["previous_token"], weights.diagonal(-1, 2, 3).mean((0, 2)))
    stripe = weights.diagonal(1 - probe.period, 2, 3)[..., 1:]
    assert torch.allclose(scores["induction"], stripe.mean((0, 2)))
