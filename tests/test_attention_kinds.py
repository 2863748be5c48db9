"""A new kind of attention is one module: sliding-window MHA, registered here, does all that a kind does.

Nothing in src/ knows of it: it trains, caches, generates, and is audited, benchmarked and exported by what is there.
"""

from __future__ import annotations

import doctest
import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor

from src import costs
from src.attention_kinds import display_name, kind, own_settings, register, registered
from src.attention_kinds.grouped import Grouped
from src.audit.rows import Row, audit
from src.audit.table import tables
from src.bench.measure import make_arms, measure
from src.bench.show import draw, table
from src.compose import compose
from src.config import REGIMES, Config
from src.errors import ConfigError
from src.export.__main__ import main as export
from src.geometry import Geometry
from src.io_spec import TokenSpec
from src.model.attention import GroupedAttention, combine_heads, start_of
from src.model.cache import Cache
from src.model.generate import generate
from src.model.gpt import GPT
from src.model.init import initialise
from src.model.kernel_report import kernel_report
from src.model.kernels import attend
from src.training.plan import plan_run
from src.training.run import run
from src.training.runtime import choose_runtime
from src.training.sinks.jsonl import JsonlSink
from src.training.stop import StopFlag

WINDOW = 5
TINY = (
    *("data=text_file", "logger=disabled", "heads=4", "context_length=16", "model.d_model=16", "model.layers=2"),
    *("training.max_steps=4", "training.batch_size=2", "training.warmup_steps=1", "training.eval_interval=4"),
    *("training.threads=1", "device=cpu", "sample.tokens=24", "measurement.repeats=1"),
)


# The module of a new kind, whole.
class Sliding(Grouped):
    """MHA, GQA or MQA in which a token sees itself and the WINDOW - 1 tokens before it."""

    name = "sliding"
    words = "sliding-window attention"

    def display_name(self, heads: int, kv_heads: int) -> str:
        return "SWA"

    def run_label(self, geometry: Geometry) -> str | None:
        return f"swa{WINDOW}"

    def cached_tokens(self, geometry: Geometry, tokens: int) -> int:
        return min(tokens, WINDOW)

    def modules(self) -> tuple[type[SlidingAttention], type[WindowCache]]:
        return SlidingAttention, WindowCache


class WindowCache(Cache):
    """Keys and values of the last WINDOW tokens, the latest last."""

    def shapes(self, geometry: Geometry, batch: int, capacity: int) -> list[tuple[int, ...]]:
        return [(2, geometry.layers, batch, geometry.kv_heads, min(capacity, WINDOW), geometry.head_dim)]

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        self.room(key.shape[2])
        pairs = self.storage[0][:, layer]  # 2 B K W D
        held = min(self.length, pairs.shape[3])
        seen = torch.cat([pairs[:, :, :, pairs.shape[3] - held :], torch.stack([key, value]).to(pairs)], dim=3)
        last = seen[:, :, :, -pairs.shape[3] :]
        pairs[:, :, :, pairs.shape[3] - last.shape[3] :] = last
        return seen[0], seen[1]


class SlidingAttention(GroupedAttention):
    def forward(self, x, cache=None, *, memory=None, mask=None, is_causal=True):
        q, k, v = self._split(self._features(x, memory), start_of(cache, memory))
        if cache is not None:
            k, v = cache.append(self.layer, k, v)
        near = in_window(q.shape[2], k.shape[2])
        mask = near if mask is None else mask & near
        heads = attend(q, k, v, scale=self.scale, is_causal=is_causal, mask=mask, kernel=self.kernel)
        return self.output(combine_heads(heads))

    def look_inside(self, x, *, memory=None, mask=None, is_causal=True):
        near = in_window(x.shape[1], x.shape[1])
        return super().look_inside(x, memory=memory, mask=near if mask is None else mask & near, is_causal=is_causal)


def in_window(new: int, seen: int) -> Tensor:
    behind = torch.arange(seen - new, seen)[:, None] - torch.arange(seen)[None]  # T S
    return (behind < WINDOW)[None, None]


@pytest.fixture(autouse=True)
def sliding() -> Iterator[None]:
    """The registry line of the new kind."""
    register(Sliding())
    yield
    kind._KINDS.pop("sliding")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "text.txt").write_text("".join(f"line {n}, and {n * 7919 % 1000} more\n" for n in range(80)))
    written = compose([*TINY, "kv_heads=2", f"data.path={tmp_path}/text.txt", f"runs_dir={tmp_path}/runs"])
    return Config.of({**written.model_dump(), "attention": "sliding"})


def model_of(config: Config, kernel: str = "auto") -> GPT:
    model = GPT(Geometry.of(config), 11, kernel=kernel)
    initialise(model, "torch", 0)
    return model.double().eval()


def test_an_unknown_kind_is_refused_with_those_there_are(config: Config) -> None:
    assert registered() == ("grouped", "latent", "sliding")
    with pytest.raises(ConfigError) as caught:
        Config.of({**config.model_dump(), "attention": "sidling"})
    assert str(caught.value) == "attention='sidling': there is no such kind; choose one of grouped, latent, sliding"


def test_every_example_in_the_docstrings_holds() -> None:
    result = doctest.testmod(kind)
    assert result.attempted
    assert result.failed == 0


def test_a_record_of_a_kind_that_is_not_known_here_can_still_be_read() -> None:
    assert display_name("from_the_future", 8, 2) == "from_the_future"
    assert own_settings("from_the_future") == own_settings(None) == own_settings("grouped") == ()
    assert own_settings("latent") == ("latent_dim", "rope_dim")


@pytest.mark.parametrize("first", [1, 3, 7, 16])
def test_it_decodes_with_its_bounded_cache_what_it_computes_in_full(config: Config, first: int) -> None:
    model, tokens = model_of(config), torch.arange(32).view(2, 16) * 5 % 11
    with torch.no_grad():
        full = model(tokens)
        cache = model.make_cache(2)
        parts = [model(tokens[:, :first], cache)]
        parts += [model(tokens[:, t : t + 1], cache) for t in range(first, 16)]
    assert torch.allclose(torch.cat(parts, dim=1), full, atol=1e-12)
    assert cache.bytes == costs.cache_bytes(model.geometry, batch=2, positions=16, dtype="float64")
    assert costs.cache_bytes(model.geometry, 1, 16, "float32") == WINDOW * costs.cache_bytes(
        model.geometry, 1, 1, "float32"
    )


def test_it_sees_its_window_and_nothing_else(config: Config) -> None:
    model, tokens = model_of(config), torch.arange(16)[None] % 11
    for layer in model.look_inside(tokens):
        seen = (layer.weights[0] > 0).any(0)
        assert torch.equal(seen, in_window(16, 16)[0, 0] & torch.ones(16, 16, dtype=torch.bool).tril())


def test_it_trains_generates_and_is_exported_by_what_is_there(config: Config, tmp_path: Path) -> None:
    plan = plan_run(config, tmp_path)
    result = run(plan, lambda c, folder, segment: [JsonlSink(folder, segment)], StopFlag())
    record = result.record
    assert record.status == "finished", record.error
    assert "-h4-swa5-c16-" in record.run_id
    held = 2 * 2 * 4 * 2 * WINDOW * 4  # keys and values, kv-heads, width, layers, window, bytes
    assert record.summary["cache/bytes"] == record.costs["cache_bytes"] == held
    assert len((result.folder / "sample.txt").read_text()) > 24
    export(str(result.folder.parent), tmp_path / "export")
    (row,) = pd.read_parquet(tmp_path / "export" / "runs.parquet").to_dict("records")
    assert (row["attention"], row["kv_heads"], row["cache/bytes"]) == ("sliding", 2, held)
    assert pd.isna(row["latent_dim"])
    assert json.loads((result.folder / "record.json").read_text())["geometry"]["attention"] == "sliding"


def test_it_generates_past_its_context(config: Config) -> None:
    model, prompt = model_of(config), torch.tensor([[1, 2, 3]])
    drawn = list(generate(model, prompt, 40, temperature=0.0, top_k=None, generator=torch.Generator()))
    assert len(drawn) == 40


def test_it_is_audited_in_every_regime(config: Config) -> None:
    wide = config.model_copy(update={"model": config.model.model_copy(update={"d_model": 256})})
    asked = [wide.model_copy(update={"regime": regime}) for regime in REGIMES]
    rows = audit(asked, vocabulary_size=65)
    assert [row.as_dict()["status"] for row in rows] == ["met"] * len(REGIMES)
    assert len(list(tables(rows, 65, 160))) == len(REGIMES)
    (first, *_) = rows
    assert isinstance(first, Row)
    assert first.costs.cache_bytes == WINDOW * 2 * 2 * 64 * 2 * 4
    assert first.costs.parameters == sum(p.numel() for p in GPT(first.geometry, 65).parameters())
    (refused,) = audit([config.model_copy(update={"latent_dim": 8})], vocabulary_size=65)
    assert "belong to attention=latent; leave them null with attention=sliding" in refused.as_dict()["reason"]


def test_it_is_benchmarked_beside_naive_code(config: Config) -> None:
    from matplotlib.figure import Figure

    runtime = choose_runtime(config, Geometry.of(config), TokenSpec(65))
    arms = list(make_arms([config], runtime, 65, [1]))
    ticks = iter(range(1000))
    rows = measure(
        arms, decode_tokens=2, rounds=1, bandwidth=1e9, clock=lambda: float(next(ticks)), tick=lambda what: None
    )
    assert [(row.attention, row.way) for row in rows] == [("sliding", "ours"), ("sliding", "naive repeat")]
    assert rows[0].cache_bytes == WINDOW * 2 * 2 * 4 * 2 * 4
    assert table(rows, 1e9).row_count == 2
    assert draw(rows, Figure().subplots()).get_legend() is not None


def test_its_kernel_is_reported(config: Config) -> None:
    assert set(kernel_report(model_of(config))) == {"training", "prefill", "decode"}
