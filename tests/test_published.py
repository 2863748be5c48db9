"""Published shapes: our arithmetic against the counts that others printed."""

import pytest

from src import costs
from src.errors import ConfigError
from src.published import PUBLISHED, Published, published


@pytest.mark.parametrize("model", PUBLISHED.values(), ids=lambda model: model.name)
def test_parameters_are_the_published_ones_within_a_percent(model: Published) -> None:
    assert model.counted_parameters == pytest.approx(model.parameters, rel=0.01)
    if not model.note:
        assert model.counted_parameters == model.parameters


@pytest.mark.parametrize("model", PUBLISHED.values(), ids=lambda model: model.name)
def test_every_shape_is_complete_and_says_where_it_was_read(model: Published) -> None:
    assert model.source
    assert model.geometry.reference.heads >= 1
    assert model.decode_flops_per_token > 0
    if model.geometry.regime == "fixed_width":
        assert model.geometry.attention_width == model.geometry.d_model


@pytest.mark.parametrize(
    ("name", "active"), [("deepseek_v2_lite", 2.4e9), ("deepseek_v2", 21e9), ("deepseek_v3", 37e9)]
)
def test_a_mixture_of_experts_passes_a_token_through_the_parameters_that_its_authors_print(
    name: str, active: float
) -> None:
    model = published(name)
    passed = costs.parameters(model.active, model.vocabulary_size) - model._saved_by_query_rank
    tables = model.vocabulary_size * model.geometry.d_model
    # Their counts of what is active are rounded, and leave the input table in or out.
    assert passed - 2 * tables < 1.02 * active
    assert passed > 0.98 * active


def test_deepseeks_cache_is_what_its_paper_prints() -> None:
    g = published("deepseek_v2").geometry
    assert costs.cache_elements_per_token(g) * g.layers == 34_560  # table 9: 34.6K elements a token


def test_more_heads_than_llama_2_13b_has_are_never_published_with_keys_of_their_own() -> None:
    from src.recommend.rules import MHA_HEADS_PUBLISHED

    own = [m for m in PUBLISHED.values() if m.geometry.kv_heads == m.geometry.heads and not m.geometry.latent_dim]
    assert max(model.geometry.heads for model in own) == MHA_HEADS_PUBLISHED


def test_an_unknown_name_is_told_the_near_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'llama3_70b'"):
        published("llama3_70")
