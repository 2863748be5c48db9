"""Kinds of attention, models and numbers for the tests of src.model."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from src.geometry import Geometry
from src.model.gpt import GPT, make_attention
from src.model.init import initialise

KINDS = {
    "mha": {"heads": 4, "head_dim": 6},
    "gqa": {"heads": 4, "kv_heads": 2, "head_dim": 6},
    "mqa": {"heads": 4, "kv_heads": 1, "head_dim": 6},
    "gqa_wide": {"heads": 6, "kv_heads": 3, "head_dim": 10, "bias": True},
    "gqa_rotary": {"heads": 4, "kv_heads": 2, "head_dim": 6, "positions": "rotary"},
    "mla": {"attention": "latent", "heads": 4, "head_dim": 6, "latent_dim": 10, "rope_dim": 0},
    "mla_rotary": {"attention": "latent", "heads": 3, "head_dim": 6, "latent_dim": 10, "rope_dim": 4, "bias": True,
                   "positions": "rotary"},
}  # fmt: skip
VOCABULARY = 11


@pytest.fixture(scope="session", params=KINDS)
def kind(request: pytest.FixtureRequest, geometry: Callable[..., Geometry]) -> Geometry:
    """A tiny geometry of each kind in turn."""
    return geometry(**KINDS[request.param])


@pytest.fixture(scope="session")
def of_kind(geometry: Callable[..., Geometry]) -> Callable[..., Geometry]:
    """A tiny geometry of one kind by name, with any integers put in place."""
    return lambda name, **integers: geometry(**KINDS[name] | integers)


@pytest.fixture(scope="session")
def make_model() -> Callable[..., GPT]:
    """An initialised model in evaluation mode; torch's initialisation gives logits that differ."""

    def of(geometry: Geometry, dtype: torch.dtype = torch.float64, seed: int = 0, **options) -> GPT:
        model = GPT(geometry, VOCABULARY, **options)
        initialise(model, "torch", seed)
        return model.to(dtype).eval()

    return of


@pytest.fixture(scope="session")
def make_layer(normal: Callable[..., Tensor]) -> Callable[..., torch.nn.Module]:
    """One attention layer whose scores differ enough to tell keys apart; norms are not at their 1 either."""

    def of(geometry: Geometry, dtype: torch.dtype = torch.float64, **options) -> torch.nn.Module:
        layer = make_attention(geometry, 0, options.pop("dropout", 0.0), options.pop("kernel", "auto"))
        for number, parameter in enumerate(layer.parameters()):
            scale = parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 1.0
            parameter.data = 1.5 * scale * normal(*parameter.shape, seed=number, dtype=dtype)
        return layer.to(dtype).eval()

    return of


@pytest.fixture(scope="session")
def normal() -> Callable[..., Tensor]:
    """normal(2, 3, seed=1): standard normal numbers, the same at every call."""

    def of(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)

    return of


@pytest.fixture(scope="session")
def tokens() -> Callable[..., Tensor]:
    """tokens(2, 9): two sequences of nine tokens."""

    def of(*shape: int, seed: int = 0) -> Tensor:
        return torch.randint(VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))

    return of


@pytest.fixture(scope="session")
def largest_allocation() -> Callable[[Callable[[], object]], int]:
    """Bytes of the largest piece of memory that any operation within a call asked for."""

    def of(call: Callable[[], object]) -> int:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
            call()
        return max(event.self_cpu_memory_usage for event in profiler.events() or [])

    return of


@pytest.fixture(autouse=True)
def global_randomness_is_not_needed() -> Iterator[None]:
    """The global generator starts alike for every test, so that dropout, which must use it, is repeatable."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
