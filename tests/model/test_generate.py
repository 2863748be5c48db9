"""Continuing a prompt: the same text as without a cache, past the context too."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from src.model.generate import choose, generate


def continued(model, prompt, tokens, **options) -> torch.Tensor:
    options = {"temperature": 0.0, "top_k": None, "generator": torch.Generator().manual_seed(0)} | options
    return torch.stack(list(generate(model, prompt, tokens, **options)), dim=1)


@torch.no_grad()
def continued_without_cache(model, prompt, tokens) -> torch.Tensor:
    seen = prompt
    for _ in range(tokens):
        seen = torch.cat([seen, model(seen)[:, -1:].argmax(-1)], dim=1)
    return seen[:, prompt.shape[1] :]


def test_greedy_text_is_that_of_full_forwards(kind, make_model, tokens):
    model, prompt = make_model(kind, torch.float32), tokens(3, 4)
    assert torch.equal(continued(model, prompt, 12), continued_without_cache(model, prompt, 12))


def test_past_the_context_the_last_half_is_seen_anew(kind, make_model, tokens):
    model, prompt = make_model(kind, torch.float32), tokens(32, 16)
    text = continued(model, prompt, 3, temperature=1.0)
    generator = torch.Generator().manual_seed(0)
    seen = prompt
    for place, first_seen in enumerate((0, 9, 9)):
        with torch.no_grad():
            expected = choose(model(seen[:, first_seen:])[:, -1], 1.0, None, generator)
        assert torch.equal(text[:, place], expected)
        seen = torch.cat([seen, expected[:, None]], dim=1)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 40])
def test_any_prompt_goes_on_for_any_length(of_kind, make_model, tokens, length):
    model, prompt = make_model(of_kind("gqa"), torch.float32), tokens(1, length)
    assert continued(model, prompt, 50).shape == (1, 50)
    assert torch.equal(continued(model, prompt, 5), continued(model, prompt[:, -16:], 5))


def test_a_context_of_one_still_generates(of_kind, make_model, tokens):
    model = make_model(of_kind("gqa", context_length=1), torch.float32)
    text = continued(model, tokens(1, 3), 4)
    with torch.no_grad():
        assert torch.equal(
            text[:, 1:],
            model(text[:, :1]).argmax(-1).new_tensor([[step.item() for step in _chain(model, text[:, :1], 3)]]),
        )


@torch.no_grad()
def _chain(model, token, steps):
    for _ in range(steps):
        token = model(token)[:, -1:].argmax(-1)
        yield token


def test_an_empty_prompt_is_refused(of_kind, make_model):
    with pytest.raises(ValueError, match="empty prompt"):
        continued(make_model(of_kind("gqa"), torch.float32), torch.zeros(1, 0, dtype=torch.long), 1)


def test_sampling_is_without_dropout_and_leaves_the_mode_alone(kind, make_model, tokens):
    plain, dropped = make_model(kind, torch.float32), make_model(kind, torch.float32, dropout=0.5).train()
    assert torch.equal(continued(dropped, tokens(2, 4), 12), continued(plain, tokens(2, 4), 12))
    assert dropped.training
    stopped = generate(
        dropped, tokens(1, 4), 9, temperature=0.0, top_k=None, generator=torch.Generator().manual_seed(0)
    )
    next(stopped)
    stopped.close()
    assert dropped.training


def test_a_seed_decides_a_sample(of_kind, make_model, tokens):
    model, prompt = make_model(of_kind("gqa"), torch.float32), tokens(1, 4)
    samples = [
        continued(model, prompt, 30, temperature=1.0, generator=torch.Generator().manual_seed(seed)).tolist()
        for seed in (1, 1, 2)
    ]
    assert samples[0] == samples[1] != samples[2]


def test_tokens_come_as_often_as_the_softmax_says():
    logits = torch.tensor([[0.0, 1.0, 2.0, -1.0]]).expand(20_000, -1)
    drawn = choose(logits, 2.0, None, torch.Generator().manual_seed(0)).bincount(minlength=4) / 20_000
    assert torch.allclose(drawn, (logits[0] / 2.0).softmax(0), atol=0.02)


@given(top_k=st.integers(1, 8), seed=st.integers(0, 100))
def test_only_the_top_k_are_drawn(top_k, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(50, 6, generator=generator)
    drawn = choose(logits, 5.0, top_k, generator)
    allowed = logits.topk(min(top_k, 6)).indices
    assert (allowed == drawn[:, None]).any(1).all()
