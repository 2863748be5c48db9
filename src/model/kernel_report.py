"""Which path attention really takes on a device, found by running it; and a refusal of one that it lacks.

A fast kernel can be missing without a word: torch then takes a slow one with quadratic memory (in float32, with
a mask or with dropout on some devices, at some head widths). Speeds over head counts may then compare kernels.
"""

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend
from torch.overrides import TorchFunctionMode

from src.errors import ConfigError
from src.geometry import Geometry
from src.model.attention import AttentionLayer
from src.model.cache import make_cache
from src.model.encoder import VectorModel
from src.model.gpt import GPT, make_attention
from src.model.kernels import resolve

PHASES = ("training", "prefill", "decode")


def kernel_report(model: GPT | VectorModel, dtype: torch.dtype | None = None) -> dict[str, str]:
    """The kernel that runs in training and, in a GPT, in prefill and decode.

    By name: 'fused:flash', 'folded', 'absorbed:folded'; behind the colon of the fused call stands what torch chose
    for it. `dtype` is that of queries, keys and values: autocast's, where it is on; else the weights'.
    """
    (first, *_) = (block.attention for block in model.blocks)
    assert isinstance(first, AttentionLayer)
    weight = first.output.weight
    layer = _small_layer(first.geometry, first.kernel, first.dropout, weight.device, dtype or weight.dtype)
    context = first.geometry.context_length
    is_language_model = isinstance(model, GPT)
    calls = dict(zip(PHASES, _calls(layer, context, is_causal=is_language_model), strict=True))
    if not is_language_model:
        calls = {"training": calls["training"]}
    new = {"training": context, "prefill": context, "decode": 1}
    report = {}
    for phase, call in calls.items():
        name = resolve(first.kernel, new=new[phase], dropout=first.dropout if phase == "training" else 0.0)
        if name in ("fused", "repeat"):
            name = f"{name}:{_backend(call)}"
        report[phase] = first.kernel_name(name, new[phase], has_cache=phase != "training")
    return report


def check_kernel(
    kernel: str, device: torch.device | str, dtype: torch.dtype, geometry: Geometry, dropout: float = 0.0
) -> None:
    """Raises ConfigError where this kernel cannot run on the device for this shape, with torch's reason.

    Tries it, forward and backward, in training, prefill and decode; a few milliseconds.
    """
    layer = _small_layer(geometry, kernel, dropout, device, dtype)
    for phase, call in zip(PHASES, _calls(layer, min(geometry.context_length, 16)), strict=True):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                call()
            except RuntimeError as error:
                reason = _reason([str(warning.message) for warning in caught]) or str(error)
                raise ConfigError(
                    f"attention_kernel={kernel} cannot run in {phase} on {device} (dtype {str(dtype)[6:]}, "
                    f"heads={geometry.heads}, kv_heads={geometry.kv_heads}, head_dim={geometry.head_dim}, "
                    f"dropout={dropout}): {reason}; choose attention_kernel=auto, fused, math, folded or repeat"
                ) from None


def _small_layer(
    geometry: Geometry, kernel: str, dropout: float, device: torch.device | str, dtype: torch.dtype
) -> AttentionLayer:
    """One layer of the same heads in a narrow model: the model's width decides no kernel."""
    narrow = replace(geometry, layers=1, d_model=8)
    return make_attention(narrow, 0, dropout, kernel).to(device=device, dtype=dtype)


def _calls(layer: AttentionLayer, tokens: int, *, is_causal: bool = True) -> list[Callable[[], None]]:
    """What a model asks of a layer in each of the phases."""
    weight = layer.output.weight
    x = torch.zeros(1, tokens, layer.geometry.d_model, device=weight.device, dtype=weight.dtype)

    def training() -> None:
        layer.train()
        layer(x, is_causal=is_causal).sum().backward()

    @torch.inference_mode()
    def with_cache(new: Tensor, length: int) -> None:
        layer.eval()
        cache = make_cache(layer.geometry, 1, tokens, weight.dtype, weight.device)
        cache.length = length
        layer(new, cache)

    return [training, lambda: with_cache(x, 0), lambda: with_cache(x[:, :1], tokens - 1)]


class _Watch(TorchFunctionMode):
    """Asks torch, at every fused call, the question that it answers for itself in there."""

    def __init__(self) -> None:
        super().__init__()
        self.backend = "unknown"

    def __torch_function__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is F.scaled_dot_product_attention:
            with contextlib.suppress(AttributeError, RuntimeError, ValueError):  # where torch does not tell
                choice = SDPBackend(torch._fused_sdp_choice(*args, **(kwargs or {})))  # pyright: ignore[reportPrivateImportUsage]
                self.backend = choice.name.lower().removesuffix("_attention")
        return func(*args, **(kwargs or {}))


def _backend(call: Callable[[], None]) -> str:
    with _Watch() as watch:
        call()
    return watch.backend


def _reason(messages: list[str]) -> str:
    """The specific ones of torch's warnings, without its source lines."""
    plain = [message.split(" (Triggered internally")[0].strip(" .") for message in messages]
    return ". ".join(message for message in plain if message and not message.endswith("not used because:"))
