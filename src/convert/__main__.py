"""`python -m src.convert RUN kv_heads=2 --steps 100`: a trained model with another kind of attention, trained on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from src.attention_kinds.sharing import check_sharing
from src.errors import ConfigError, UserError, fail
from src.geometry import Geometry
from src.metrics import bytes_shown

if TYPE_CHECKING:
    from src.convert.derived import Derived
    from src.heads.trained import TrainedRun

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
TARGETS = ("kv_heads", "latent_dim")
WAYS = {"kv_heads": ("mean", "first", "random"), "latent_dim": ("svd", "random")}


@app.command()
def main(
    run: Annotated[Path, typer.Argument(help="A finished run's folder, of attention=grouped.")],
    target: Annotated[str, typer.Argument(help="kv_heads=2: GQA, or MQA with 1; latent_dim=32: MLA.")],
    by: Annotated[
        str | None, typer.Option(help="kv_heads: mean (default), first, random; latent_dim: svd (default), random.")
    ] = None,
    steps: Annotated[int, typer.Option(min=0, help="Training steps after the conversion (uptraining).")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The numbers as JSON.")] = False,
) -> None:
    """Shares the key/value heads of a trained model, or compresses them to a latent, and trains on for some steps.

    A new run, runs/<group>-converted/<run_id>, says which run it was made of, and loads wherever runs do.

    python -m src.convert runs/<group>/<run_id> kv_heads=2 --by mean --steps 100
    """
    try:
        name, width = _target(target)
        way = WAYS[name][0] if by is None else by
        if way not in WAYS[name]:
            raise ConfigError(f"--by {way} with {name}: choose one of {', '.join(WAYS[name])}")
        shown = convert(run, name, width, way, steps)
    except UserError as error:
        fail(error)
    print(json.dumps(shown, indent=2) if as_json else "\n".join(_lines(shown)))


def convert(folder: Path, name: str, width: int, by: str, steps: int) -> dict[str, Any]:
    """Converts a run and gives what came of it. Raises UserError, before a folder is made, for what cannot be."""
    from src.heads.trained import open_run

    parent = open_run(folder)
    _check(parent, name, width)
    from src.convert.derived import derive, settings_of
    from src.convert.weights import compress, share
    from src.model.gpt import GPT
    from src.model.init import initialise
    from src.training.build import make_model

    shape: dict[str, Any] = {"kv_heads": width}
    if name == "latent_dim":
        shape = {"attention": "latent", "kv_heads": None, "latent_dim": width, "rope_dim": 0}
    config = settings_of(parent, steps, f"{folder.resolve().parent.name}-converted", **shape)
    target, model = make_model(config, Geometry.of(config), parent.loaded.spec), parent.loaded.model
    assert isinstance(target, GPT), "checked above"
    assert isinstance(model, GPT), "checked above"
    initialise(target, config.model.init, config.seed)
    inputs, _ = parent.held_out(64)  # for the size of the latent alone; no answer is looked at
    weights = share(model, target, by) if name == "kv_heads" else compress(model, target, inputs, by)
    made = derive(parent, config, weights, {"how": "converted", name: width, "by": by}, steps)
    return _shown(parent, made, name, width, by, steps)


def _check(parent: TrainedRun, name: str, width: int) -> None:
    g, run = parent.loaded.geometry, parent.name
    if parent.loaded.vocabulary is None:
        raise ConfigError(f"{run} reads vectors and keeps no cache that sharing would shrink; name a run of tokens")
    if g.attention != "grouped":
        raise ConfigError(f"{run} has attention={g.attention}; only attention=grouped is converted")
    if name == "kv_heads":
        check_sharing(g.heads, width)
        if width >= g.kv_heads or g.kv_heads % width:
            fewer = [str(k) for k in range(1, g.kv_heads) if g.kv_heads % k == 0]
            ways = f"choose one of {', '.join(fewer)}" if fewer else "it has one already, and none is left to share"
            raise ConfigError(f"kv_heads={width}: {run} has {g.kv_heads}, which are pooled in equal groups; {ways}")
    elif g.positions == "rotary":
        raise ConfigError(
            f"{run} has rotary positions: its keys turn with their place, and a latent cannot hold turned keys; "
            "name a run of model.positions=learned, or share its kv-heads instead"
        )


def _shown(parent: TrainedRun, made: Derived, name: str, width: int, by: str, steps: int) -> dict[str, Any]:
    from src.convert.derived import siblings

    before = parent.record.summary
    trained = parent.loaded.step
    wanted = {"kv_heads": width} if name == "kv_heads" else {"attention": "latent", "latent_dim": width, "rope_dim": 0}
    scratch = [
        {"run_id": record.run_id, "seed": record.config["seed"], "loss": record.summary["val/loss"]}
        for record in siblings(
            parent,
            factors={"seed", "training.max_steps", "training.epochs", "kv_heads"},
            **wanted,
            **{"training.max_steps": trained + steps},
        )
    ]
    return {
        "parent": parent.name,
        "run": str(made.folder),
        name: width,
        "by": by,
        "steps": steps,
        "parent_steps": trained,
        "loss_of_parent": before["val/loss"],
        "loss_before_steps": made.before,
        "loss_after_steps": made.after,
        "cache_bytes_of_parent": before.get("cache/bytes"),
        "cache_bytes": made.cache_bytes,
        "from_scratch": scratch,
    }


def _lines(shown: dict[str, Any]) -> list[str]:
    name = next(target for target in TARGETS if target in shown)
    total = shown["parent_steps"] + shown["steps"]
    lines = [
        f"{shown['parent']}\n-> {name}={shown[name]} by {shown['by']}",
        "",
        f"val/loss   {shown['loss_of_parent']:.4f} before the conversion",
        f"           {shown['loss_before_steps']:.4f} after it, with no step trained",
    ]
    if shown["steps"]:
        share = shown["steps"] / shown["parent_steps"]
        after = f"after {shown['steps']:,} steps ({share:.1%} of the parent's)"
        lines.append(f"           {shown['loss_after_steps']:.4f} {after}")
    for run in shown["from_scratch"]:
        lines.append(f"           {run['loss']:.4f} trained from scratch for {total:,} steps, seed {run['seed']}")
    if not shown["from_scratch"]:
        lines.append(f"           no run of its group was trained from scratch so, for {total:,} steps")
    was, now = shown["cache_bytes_of_parent"], shown["cache_bytes"]
    lines.append(f"cache      {bytes_shown(was)} -> {bytes_shown(now)}, {was / now:.3g} times smaller, as allocated")
    lines.append(f"run        {shown['run']}")
    return lines


def _target(written: str) -> tuple[str, int]:
    name, _, value = written.partition("=")
    if name not in TARGETS or not value.isdecimal() or int(value) < 1:
        raise ConfigError(f"{written}: say kv_heads=N (fewer kv-heads) or latent_dim=N (a latent), N a whole number")
    return name, int(value)


if __name__ == "__main__":
    app(prog_name="python -m src.convert")
