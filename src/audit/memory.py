"""Memory planning: for each way to keep keys and values, the batches and contexts that fit a device, and a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from src import costs
from src.attention_kinds.sharing import divisors
from src.errors import ConfigError
from src.geometry import Geometry
from src.memory import ALLOWANCE, CACHE_DTYPES, Device, Load, parse_dtype, parse_tokens, parse_whole
from src.metrics import bytes_shown
from src.recommend.shapes import Sharing, latent_of, with_sharing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#949494", "#CA9161")
"""Told apart by every kind of colour vision (Okabe and Ito)."""


@dataclass(frozen=True)
class Plan:
    """One model kept in one way: what fits of the asked batches and contexts, with the cache in one dtype."""

    model: str
    geometry: Geometry
    vocabulary_size: int
    dtype: str
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    device: Device

    @property
    def label(self) -> str:
        """The way to keep keys and values: MHA, GQA 8, MQA, MLA 512+64."""
        g = self.geometry
        name = g.kind.display_name(g.heads, g.kv_heads)
        own = "+".join(str(getattr(g, setting)) for setting in g.kind.settings)
        return f"{name} {own or g.kv_heads}"

    def load(self, batch: int, context: int) -> Load:
        return Load(self.geometry, self.vocabulary_size, context, batch, self.dtype)

    def fits(self, batch: int, context: int) -> bool:
        return self.device.fits(self.load(batch, context))

    def as_dict(self) -> dict[str, Any]:
        g = self.geometry
        return {
            "model": self.model,
            "attention": g.attention,
            "heads": g.heads,
            "kv_heads": g.kv_heads,
            "latent_dim": g.latent_dim,
            "rope_dim": g.rope_dim,
            "cache_dtype": self.dtype,
            "memory_bytes": self.device.memory,
            "allowance_bytes": self.device.memory - self.device.usable,
            "weight_bytes": self.load(1, 1).weights,
            "cache_bytes_per_token": costs.cache_bytes(g, 1, 1, self.dtype),
            "largest_context": {b: self.device.largest_context(self.load(b, 1)) for b in self.batches},
            "largest_batch": {c: self.device.largest_batch(self.load(1, c)) for c in self.contexts},
            "fits": [
                {"batch": b, "context": c, "cache_bytes": self.load(b, c).cache, "fits": self.fits(b, c)}
                for c in self.contexts
                for b in self.batches
            ],
        }


@dataclass(frozen=True)
class Asked:
    """What --memory, --batch, --context and --cache-dtype ask for. No context: the model's own."""

    device: Device
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    dtypes: tuple[str, ...]

    @classmethod
    def read(cls, memory: int, batch: str, context: str | None, cache_dtype: str) -> Asked:
        """Raises ConfigError for a list with something in it that cannot be."""
        return cls(
            Device(memory),
            tuple(dict.fromkeys(parse_whole(part, "--batch") for part in batch.split(","))),
            () if context is None else tuple(dict.fromkeys(parse_tokens(p, "--context") for p in context.split(","))),
            tuple(dict.fromkeys(parse_dtype(part, "--cache-dtype") for part in cache_dtype.split(","))),
        )


def plans(models: Iterable[tuple[str, Geometry, int]], asked: Asked) -> list[Plan]:
    """Every model with MHA, each number of kv-heads, and MLA; name, shape and vocabulary come in.

    Raises ConfigError where the memory holds not even the lightest weights.
    """
    found = [
        Plan(name, shape, vocabulary_size, dtype, asked.batches, asked.contexts or (g.context_length,), asked.device)
        for name, g, vocabulary_size in models
        for dtype in asked.dtypes
        for shape in ways(g)
    ]
    lightest = min(plan.load(1, 1).weights for plan in found)
    if lightest > asked.device.memory:
        raise ConfigError(
            f"--memory {bytes_shown(asked.device.memory, digits=3)} is less than the lightest weights "
            f"({bytes_shown(lightest, digits=3)} at 2 bytes a parameter); choose more memory (several devices count "
            "together), or a smaller model"
        )
    return found


def ways(geometry: Geometry) -> list[Geometry]:
    """The model with MHA, every number of kv-heads that divides its heads, and MLA: from the largest cache down."""
    g = geometry
    shared = [with_sharing(g, Sharing("grouped", kv_heads)) for kv_heads in divisors(g.heads)]
    own = g if g.kind.settings else with_sharing(g, latent_of(g.heads, g.head_dim))
    return sorted({*shared, own}, key=costs.cache_elements_per_token, reverse=True)


def tables(found: Sequence[Plan]) -> Iterator[RenderableType]:
    """One table a model and dtype: the asked batches that fit at each context, the largest one, the largest context."""
    for (model, dtype), group in groupby(found, key=lambda plan: (plan.model, plan.dtype)):
        rows = list(group)
        written = next(name for name, known in CACHE_DTYPES.items() if known == dtype)
        yield Text(f"{model}, cache in {written}", style="bold")
        yield _table(rows)
        yield Text()
    device, batches = found[0].device, found[0].batches
    kept = bytes_shown(device.memory - device.usable, digits=3)
    yield Text(
        f"Weights (2 bytes each) + cache within {bytes_shown(device.memory, digits=3)}, of which {kept} (1 part in "
        f"{ALLOWANCE}, a rule of thumb) is kept free. Under each context: the batches of {_list(batches)} that fit, - "
        "for those that do not, and in brackets the largest that does.",
        style="dim",
    )


def _table(rows: Sequence[Plan]) -> Table:
    table = Table(box=None, padding=(0, 1), collapse_padding=True, pad_edge=False, header_style="bold")
    table.add_column("keys, values")
    table.add_column("weights\nB/token", justify="right")
    for context in rows[0].contexts:
        table.add_column(f"{context:,}\ntokens", justify="right")
    table.add_column(f"largest context\nat batch {rows[0].batches[0]}", justify="right")
    for plan in rows:
        per_token = costs.cache_bytes(plan.geometry, 1, 1, plan.dtype)
        weights = bytes_shown(plan.load(1, 1).weights, digits=3)
        most = plan.device.largest_context(plan.load(plan.batches[0], 1))
        cells = [_cell(plan, context) for context in plan.contexts]
        table.add_row(plan.label, f"{weights}\n{per_token:,}", *cells, _count(most))
    return table


def _cell(plan: Plan, context: int) -> str:
    fitting = " ".join(str(batch) if plan.fits(batch, context) else "-" for batch in plan.batches)
    return f"{fitting}\n({_count(plan.device.largest_batch(plan.load(1, context)))})"


def _count(count: int | None) -> str:
    return "any" if count is None else f"{count:,}"


def _list(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts))


def plot(found: Sequence[Plan], path: Path) -> None:
    """Writes the picture; its format is that of the file's ending. One panel a model, dtype and batch.

    Raises ConfigError where the file cannot be written.
    """
    from matplotlib.figure import Figure

    panels = [
        ([plan for plan in found if (plan.model, plan.dtype) == key], batch)
        for key in dict.fromkeys((plan.model, plan.dtype) for plan in found)
        for batch in found[0].batches
    ]
    across = len(found[0].batches)
    size = (4.0 * across + 1.2, 3.4 * (len(panels) // across) + 0.5)
    figure = Figure(figsize=size, layout="constrained", dpi=130)
    axes = figure.subplots(len(panels) // across, across, squeeze=False, sharex=True, sharey=True)
    for ax, (rows, batch) in zip(axes.flat, panels, strict=True):
        draw(rows, batch, ax)
    for ax in axes[:, 0]:
        ax.set_ylabel("cache")
    for ax in axes[-1]:
        ax.set_xlabel("context, tokens")
    for ax in axes[:, -1]:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)
    memory = bytes_shown(found[0].device.memory, digits=3)
    figure.supxlabel(
        f"Dashed: what {memory} leaves beside weights (2 bytes each) and a tenth kept free, least over the kinds",
        fontsize=8,
    )
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--plot {path}: it cannot be written ({error}); choose another file, .png or .svg") from None


def draw(rows: Sequence[Plan], batch: int, ax: Axes) -> Axes:
    """Cache against context, a line for each way to keep keys and values, and the line of the device."""
    contexts = _axis(rows[0].contexts)
    for place, plan in enumerate(rows):
        cache = [plan.load(batch, context).cache for context in contexts]
        dashes = (0, (4, 1)) if plan.geometry.kind.settings else "-"
        ax.plot(contexts, cache, color=COLOURS[place % len(COLOURS)], linestyle=dashes, label=plan.label)
    room = min(plan.device.usable - plan.load(1, 1).weights for plan in rows)
    if room > 0:
        ax.axhline(room, color="#1f2328", linestyle="--", linewidth=1, label="the device")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.xaxis.set_major_formatter(lambda tokens, _: f"{tokens:,.0f}")
    ax.yaxis.set_major_formatter(lambda count, _: bytes_shown(count, digits=3))
    ax.tick_params(labelsize=8)
    for context in rows[0].contexts:
        ax.axvline(context, color="#8c959f", linewidth=0.5, alpha=0.5)
    written = next(name for name, known in CACHE_DTYPES.items() if known == rows[0].dtype)
    ax.set_title(f"{rows[0].model}, {written}, batch {batch}", fontsize=9)
    ax.grid(alpha=0.25)
    return ax


def _axis(contexts: Sequence[int]) -> list[int]:
    """Powers of two from half the least context to twice the greatest."""
    least, greatest = max(1, min(contexts) // 2), 2 * max(contexts)
    places = [least]
    while places[-1] < greatest:
        places.append(2 * places[-1])
    return places
