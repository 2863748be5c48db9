"""What a run really runs on: device, dtype, optimiser kernel, compiler and threads, each chosen once and recorded.

'auto' is chosen by device. What was asked for and cannot be had falls back, and says so in `notes`; only
what would change the experiment unseen (a missing device, half precision without loss scaling) is refused.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from src.config import Config
from src.errors import ConfigError
from src.geometry import Geometry
from src.io_spec import IOSpec

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True)
class Runtime:
    """The effective choices. `dtype` is what matrix products and the cache use; weights stay float32 under autocast."""

    device: torch.device
    dtype: str
    uses_autocast: bool
    uses_scaler: bool
    fused_optimizer: bool
    compile: bool
    threads: int
    micro_batch_size: int
    notes: tuple[str, ...] = field(default=())

    @property
    def torch_dtype(self) -> torch.dtype:
        return DTYPES[self.dtype]

    @property
    def weight_dtype(self) -> torch.dtype:
        return torch.float64 if self.dtype == "float64" else torch.float32

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        if not self.uses_autocast:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=self.torch_dtype)

    def synchronise(self) -> None:
        """Waits until the device has done all that was asked of it."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()

    def as_dict(self) -> dict[str, Any]:
        """For the record."""
        return {
            "device": str(self.device),
            "device_name": device_name(self.device),
            "dtype": self.dtype,
            "autocast": self.uses_autocast,
            "loss_scaling": self.uses_scaler,
            "fused_optimizer": self.fused_optimizer,
            "compile": self.compile,
            "threads": self.threads,
            "micro_batch_size": self.micro_batch_size,
            "deterministic": self.device.type == "cpu" or torch.are_deterministic_algorithms_enabled(),
            "notes": list(self.notes),
        }


def choose_runtime(config: Config, geometry: Geometry, spec: IOSpec) -> Runtime:
    """The effective runtime of a configuration on this machine.

    Raises ConfigError for a device that is not there and for float16 where losses cannot be scaled.
    """
    notes: list[str] = []
    device = _device(config.device)
    dtype = _dtype(config.training.dtype, device, notes)
    uses_autocast = dtype in ("bfloat16", "float16")
    return Runtime(
        device=device,
        dtype=dtype,
        uses_autocast=uses_autocast,
        uses_scaler=dtype == "float16",
        fused_optimizer=_fused(config.training.fused_optimizer, device, notes),
        compile=_compile(config.training.compile, device, notes),
        threads=_threads(config.training.threads),
        micro_batch_size=_micro_batch_size(config, geometry, spec, device, dtype, notes),
        notes=tuple(notes),
    )


@contextlib.contextmanager
def thread_count(threads: int) -> Iterator[None]:
    """Torch's threads inside, as they were outside: the next job of a process finds its own."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def device_name(device: torch.device) -> str:
    """The hardware's own name, as a person would say it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return _cpu_name() if device.type == "cpu" else device.type


def _cpu_name() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    import platform

    return platform.processor() or platform.machine()


def _device(asked: str) -> torch.device:
    if asked == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    device = torch.device(asked)
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        index = device.index if device.index is not None else 0
        if index >= count:
            seen = f"torch {torch.__version__} sees {count} CUDA devices here"
            raise ConfigError(f"device={asked}: {seen}; choose device=cpu or a lower index")
        return torch.device("cuda", index)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("device=mps: this torch or this machine has no MPS; choose device=cpu")
    return device


def _dtype(asked: str, device: torch.device, notes: list[str]) -> str:
    has_bf16 = device.type == "cpu" or (device.type == "cuda" and torch.cuda.is_bf16_supported())
    if asked == "auto":
        if device.type != "cuda":
            return "float32"
        return "bfloat16" if has_bf16 else "float16"
    if asked == "float16" and device.type != "cuda":
        raise ConfigError(
            f"training.dtype=float16 on device={device.type}: float16 needs loss scaling, which runs on CUDA only; "
            "choose bfloat16 or float32"
        )
    if asked == "float64" and device.type == "mps":
        raise ConfigError("training.dtype=float64 on device=mps: MPS has no float64; choose float32 or device=cpu")
    if asked == "bfloat16" and not has_bf16:
        notes.append(f"training.dtype=bfloat16 is not available on {device_name(device)}; float32 is used")
        return "float32"
    return asked


def _fused(asked: bool | str, device: torch.device, notes: list[str]) -> bool:
    if asked is False:
        return False
    try:
        parameter = torch.zeros(1, device=device, requires_grad=True)
        torch.optim.AdamW([parameter], fused=True)
    except RuntimeError as error:
        if asked is True:
            notes.append(f"no fused AdamW on {device.type}: {error}")
        return False
    return True


def _compile(asked: bool | str, device: torch.device, notes: list[str]) -> bool:
    if asked is False:
        return False
    if asked == "auto" and device.type != "cuda":
        notes.append("training.compile=auto: off, as it gains nothing at these sizes on " + device.type)
        return False
    missing = missing_compiler(device)
    if missing is None:
        return True
    if asked == "required":
        raise ConfigError(f"training.compile=required: {missing}; install it or choose training.compile=auto")
    notes.append(f"training.compile={str(asked).lower()}: off, {missing}")
    return False


def missing_compiler(device: torch.device) -> str | None:
    """What torch.compile lacks on this machine, in words; None where it lacks nothing."""
    compilers = (os.environ.get("CXX"), "g++", "clang++", "c++", "cl")
    if not any(name and shutil.which(name) for name in compilers):
        return "no C++ compiler on the PATH"
    if device.type == "cuda" and importlib.util.find_spec("triton") is None:
        return "the package triton is not installed"
    return None


def _threads(asked: int | str) -> int:
    return torch.get_num_threads() if asked == "auto" else int(asked)


def _micro_batch_size(
    config: Config, geometry: Geometry, spec: IOSpec, device: torch.device, dtype: str, notes: list[str]
) -> int:
    batch, asked = config.training.batch_size, config.training.micro_batch_size
    if asked != "auto":
        return min(int(asked), batch)
    if device.type != "cuda":
        return batch
    free, _ = torch.cuda.mem_get_info(device)
    one = activation_bytes(geometry, spec.output_width, 4 if dtype in ("float32", "float64") else 2)
    fitting = max(1, int(0.6 * free) // one)
    if fitting >= batch:
        return batch
    largest = max(d for d in range(1, fitting + 1) if batch % d == 0)
    notes.append(f"gradient accumulation: {batch // largest} micro-batches of {largest} sequences fit into the device")
    return largest


def activation_bytes(geometry: Geometry, output_width: int, item: int) -> int:
    """A rough upper estimate of what one training sequence keeps for the backward pass.

    About 16 widths a layer and token, the feed-forward twice, outputs three times in float32; fused attention
    keeps no T x T matrix. Source: Korthikanti et al. 2022, section 4, rounded up.
    """
    g = geometry
    per_token = g.layers * (16 * g.d_model + 2 * g.ffn_width + 4 * g.attention_width) * item + 12 * output_width
    return per_token * g.context_length
