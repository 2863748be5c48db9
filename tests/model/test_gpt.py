"""The whole model: decoding equals the full forward, the future stays hidden, parameters are those of the costs."""

from dataclasses import replace
from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from src import costs
from src.attention_kinds.sharing import divisors
from src.compose import groups
from src.geometry import Geometry
from src.model.gpt import GPT
from src.model.losses import next_token_loss

LENGTH = 12
CUTS = st.sets(st.integers(1, LENGTH - 1))


def decode(model: GPT, tokens: torch.Tensor, cuts: set[int]) -> torch.Tensor:
    """Logits of the tokens, fed with a cache in the pieces between the cuts."""
    cache = model.make_cache(len(tokens))
    pieces = [model(tokens[:, start:end], cache) for start, end in pairwise([0, *sorted(cuts), tokens.shape[1]])]
    assert cache.length == tokens.shape[1]
    return torch.cat(pieces, dim=1)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_cached_decoding_equals_the_full_forward_for_any_split(kind, make_model, tokens, dtype, tolerance):
    model, prompt = make_model(kind, dtype), tokens(2, LENGTH)
    with torch.no_grad():
        full = model(prompt)

        @settings(max_examples=8)
        @given(CUTS)
        def holds(cuts):
            assert (decode(model, prompt, cuts) - full).abs().max() <= tolerance

        holds()


@pytest.mark.parametrize("kernel", ["fused", "flash", "math", "folded", "repeat"])
def test_cached_decoding_equals_the_full_forward_in_every_kernel(kind, make_model, tokens, kernel):
    prompt = tokens(2, LENGTH)
    forced, reference = make_model(kind, kernel=kernel), make_model(kind, kernel="math")
    with torch.no_grad():
        full = reference(prompt)
        assert (forced(prompt) - full).abs().max() <= 1e-12
        for cuts in ({1, 2, 3}, {5}, {4, 10}, set(range(1, LENGTH))):
            assert (decode(forced, prompt, cuts) - full).abs().max() <= 1e-12


def test_a_token_changes_no_logits_before_it(kind, make_model, tokens):
    model, prompt = make_model(kind, torch.float32), tokens(2, LENGTH)
    with torch.no_grad():
        before = model(prompt)
        for position in (1, 6, LENGTH - 1):
            changed = prompt.clone()
            changed[:, position] = (changed[:, position] + 1) % model.vocabulary_size
            after = model(changed)
            assert torch.equal(after[:, :position], before[:, :position])
            assert not torch.equal(after[:, position], before[:, position])


def test_logits_have_no_gradient_towards_later_tokens(kind, make_model, tokens):
    model, prompt = make_model(kind), tokens(1, LENGTH)
    embedded = []
    model.tokens.register_forward_hook(lambda *inside: embedded.append(inside[2]))
    logits = model(prompt)
    (gradient,) = torch.autograd.grad(logits[0, 5].square().sum(), embedded[0])
    assert (gradient[0, :6].abs().amax(-1) > 0).all()
    assert torch.count_nonzero(gradient[0, 6:]) == 0


def test_dropout_is_off_outside_training(kind, make_model, tokens):
    dropped, plain, prompt = make_model(kind, dropout=0.5), make_model(kind), tokens(2, LENGTH)
    with torch.no_grad():
        assert torch.equal(dropped(prompt), plain(prompt))
        assert torch.equal(decode(dropped, prompt, {3, 4}), decode(plain, prompt, {3, 4}))
        dropped.train()
        assert not torch.allclose(dropped(prompt), dropped(prompt))


def test_attention_dropout_acts_in_training(kind, make_model, tokens):
    model = make_model(kind)
    for block in model.blocks:
        block.attention.dropout = 0.5
    prompt = tokens(2, LENGTH)
    with torch.no_grad():
        still = model(prompt)
        model.train()
        assert not torch.allclose(model(prompt), still)


def meta_parameters(geometry: Geometry, vocabulary: int) -> tuple[int, int]:
    with torch.device("meta"):
        model = GPT(geometry, vocabulary)
    named = [(name, parameter.numel()) for name, parameter in model.named_parameters()]
    return sum(size for _, size in named), sum(size for name, size in named if ".attention." in name)


@pytest.mark.parametrize("size", groups()["model"])
@pytest.mark.parametrize("attention", ["grouped", "latent"])
def test_parameters_of_every_size_are_those_of_the_costs(config, size, attention):
    geometry = Geometry.of(config(f"model={size}", f"attention={attention}"))
    vocabulary = 50_257 if size.startswith("gpt2") else 65
    expected = costs.parameters(geometry, vocabulary), costs.attention_parameters(geometry)
    assert meta_parameters(geometry, vocabulary) == expected


@pytest.mark.parametrize("name", ["gqa_wide", "mla_rotary"])
def test_parameters_of_every_option_are_those_of_the_costs(of_kind, name):
    kind = of_kind(name)
    options = product(
        ["gelu", "swiglu"], ["layer", "rms", "none"], [True, False], [True, False], ["learned", "none"], [0, 20]
    )
    for activation, norm, bias, tied, positions, ffn_width in options:
        geometry = replace(
            kind,
            activation=activation,
            norm=norm,
            bias=bias,
            tied_embeddings=tied,
            positions=positions,
            ffn_width=ffn_width,
        )
        expected = costs.parameters(geometry, 13), costs.attention_parameters(geometry)
        assert meta_parameters(geometry, 13) == expected, geometry


def test_parameters_do_not_depend_on_heads_at_fixed_width(config):
    mini = Geometry.of(config("model=mini"))
    counts = {
        meta_parameters(replace(mini, heads=heads, kv_heads=heads, head_dim=240 // heads), 65)
        for heads in divisors(240)
    }
    assert len(counts) == 1


def test_a_model_without_residual_and_norm_is_attention_then_feed_forward(of_kind, make_model, tokens):
    model, prompt = make_model(of_kind("gqa", residual=False, norm="none", layers=1)), tokens(2, 5)
    (block,) = model.blocks
    with torch.no_grad():
        x = model.tokens(prompt) + model.positions.weight[:5]
        expected = model.output(block.feed_forward(block.attention(x)))
        assert torch.allclose(model(prompt), expected, atol=1e-14)


def test_tied_embeddings_are_one_matrix_and_untied_are_two(of_kind):
    tied = GPT(of_kind("gqa", tied_embeddings=True), 11)
    untied = GPT(of_kind("gqa", tied_embeddings=False), 11)
    assert tied.output.weight is tied.tokens.weight
    assert untied.output.weight is not untied.tokens.weight


def test_positions_past_the_context_are_refused(kind, make_model, tokens):
    model = make_model(kind)
    with pytest.raises(ValueError, match=r"17 positions; the model's context_length is 16"):
        model(tokens(1, 17))
    cache = model.make_cache(1)
    model(tokens(1, 16), cache)
    with pytest.raises(ValueError, match=r"17 positions"):
        model(tokens(1, 1), cache)


def test_the_loss_is_nats_a_token(normal):
    targets = torch.tensor([[0, 1, 2]])
    assert next_token_loss(torch.zeros(1, 3, 7), targets).item() == pytest.approx(torch.tensor(7.0).log().item())
    logits = normal(1, 3, 7)
    by_hand = torch.stack([logits[0, t].logsumexp(0) - logits[0, t, targets[0, t]] for t in range(3)]).sum()
    assert torch.allclose(next_token_loss(logits, targets, reduction="sum"), by_hand)


def test_every_layer_can_be_looked_into_on_the_way(kind, make_model, tokens):
    model, prompt = make_model(kind), tokens(2, 7)
    with torch.no_grad():
        layers = model.look_inside(prompt)
        assert len(layers) == kind.layers
        x = model.tokens(prompt)
        if model.positions is not None:
            x = x + model.positions.weight[:7]
        for inside, block in zip(layers, model.blocks, strict=True):
            assert torch.allclose(inside.output, block.attention(block.attention_norm(x)), atol=1e-12)
            x = block(x)
