"""Initial weights. Each matrix has a random stream of its own, named by seed and parameter, so that arms of a
study that share a shape start from the same numbers whatever else differs between them."""

import math

import torch
from torch import Tensor, nn

from src.model.encoder import VectorModel
from src.model.gpt import GPT
from src.randomness import stream_seed


def initialise(model: GPT | VectorModel, kind: str, seed: int) -> None:
    """Fills every parameter, on the CPU's generator whatever the device.

    gpt2    normal of scale 0.02; the two matrices that end a residual branch 0.02 / sqrt(2 layers); biases 0
            (Radford et al. 2019)
    torch   PyTorch's default: uniform within 1 / sqrt(fan-in), biases too; embeddings normal of scale 1
    fan_in  normal of scale 1 / sqrt(fan-in); biases 0; embeddings normal of scale 0.2 (the NumPy tutorial)
    """
    draw = {"gpt2": _gpt2, "torch": _torch, "fan_in": _fan_in}[kind]
    with torch.no_grad():
        for module_name, module in model.named_modules():
            if module_name == "output" and model.geometry.tied_embeddings:
                continue
            for name, parameter in module.named_parameters(recurse=False):
                for part_name, part in _parts(module_name, name, parameter, model):
                    generator = torch.Generator().manual_seed(stream_seed(seed, "init", part_name))
                    part.copy_(draw(module, part_name, part, model.geometry.layers, generator))


def _parts(module_name: str, name: str, parameter: Tensor, model: GPT | VectorModel) -> list[tuple[str, Tensor]]:
    """A fused projection counts as the matrices laid into it: queries then agree over kv-head counts."""
    owner_name, _, own_name = module_name.rpartition(".")
    widths: dict[str, int] | None = getattr(model.get_submodule(owner_name), "fused_projections", {}).get(own_name)
    if widths is None:
        return [(f"{module_name}.{name}", parameter)]
    parts = zip(widths, parameter.split(list(widths.values())), strict=True)
    return [(f"{module_name}.{part}.{name}", tensor) for part, tensor in parts]


def _gpt2(module: nn.Module, name: str, parameter: Tensor, layers: int, generator: torch.Generator) -> Tensor:
    if _is_norm(module):
        return _norm(name, parameter)
    if name.endswith("bias"):
        return torch.zeros(parameter.shape)
    ends_branch = name.endswith(("attention.output.weight", "feed_forward.down.weight"))
    return _normal(parameter, 0.02 / math.sqrt(2 * layers) if ends_branch else 0.02, generator)


def _torch(module: nn.Module, name: str, parameter: Tensor, layers: int, generator: torch.Generator) -> Tensor:
    if _is_norm(module):
        return _norm(name, parameter)
    if isinstance(module, nn.Embedding):
        return _normal(parameter, 1.0, generator)
    bound = 1 / math.sqrt(_fan_in_of(module))
    return torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator)


def _fan_in(module: nn.Module, name: str, parameter: Tensor, layers: int, generator: torch.Generator) -> Tensor:
    if _is_norm(module):
        return _norm(name, parameter)
    if name.endswith("bias"):
        return torch.zeros(parameter.shape)
    if isinstance(module, nn.Embedding):
        return _normal(parameter, 0.2, generator)
    return _normal(parameter, 1 / math.sqrt(_fan_in_of(module)), generator)


def _fan_in_of(module: nn.Module) -> int:
    assert isinstance(module, nn.Linear), f"no fan-in for {type(module).__name__}"
    return module.in_features


def _is_norm(module: nn.Module) -> bool:
    return isinstance(module, nn.LayerNorm | nn.RMSNorm)


def _norm(name: str, parameter: Tensor) -> Tensor:
    return torch.zeros(parameter.shape) if name.endswith("bias") else torch.ones(parameter.shape)


def _normal(parameter: Tensor, scale: float, generator: torch.Generator) -> Tensor:
    return torch.empty(parameter.shape).normal_(0.0, scale, generator=generator)
