"""The kernel that is reported is the one that ran; one that is missing is refused before training."""

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

from src.config import KERNELS
from src.errors import ConfigError
from src.model.gpt import GPT
from src.model.kernel_report import check_kernel, kernel_report
from src.model.kernels import FOLD_AT_MOST


def report(geometry, dtype=None, **options) -> dict[str, str]:
    return kernel_report(GPT(geometry, 11, **options), dtype)


def test_auto_trains_on_the_fused_kernel_and_decodes_folded(of_kind):
    found = report(of_kind("gqa"))
    assert found == {"training": "fused:flash", "prefill": "fused:flash", "decode": "folded"}


def test_latent_attention_reports_the_form_that_it_decodes_in(of_kind):
    found = report(of_kind("mla_rotary"))
    assert found == {"training": "fused:flash", "prefill": "fused:flash", "decode": "absorbed:folded"}


def test_a_silent_fall_to_the_slow_path_is_told(of_kind):
    """On the CPU torch has no flash kernel with dropout, and says nothing of it."""
    found = report(of_kind("gqa"), dropout=0.2)
    assert found == {"training": "fused:math", "prefill": "fused:flash", "decode": "folded"}


@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if kernel != "auto"])
def test_a_forced_kernel_is_reported_in_every_phase(kind, kernel):
    found = report(kind, kernel=kernel)
    names = {name.removeprefix("absorbed:").split(":")[0] for name in found.values()}
    assert names == {kernel}
    assert found["decode"].startswith("absorbed:") == (kind.attention == "latent")


def test_a_short_context_folds_in_training_too(of_kind):
    assert report(of_kind("gqa", context_length=FOLD_AT_MOST))["training"] == "folded"


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["gqa_rotary", "mla_rotary"])
def test_the_reported_backend_is_the_operator_that_the_profiler_sees(of_kind, tokens, name, dtype, dropout):
    model = GPT(of_kind(name), 11, dropout=dropout).to(dtype)
    backend = kernel_report(model)["training"].split(":")[1]
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        model(tokens(1, 16)).sum().backward()
    ran = {event.name for event in profiler.events() or []}
    operators = {
        "flash": "aten::_scaled_dot_product_flash_attention_for_cpu",
        "math": "aten::_scaled_dot_product_attention_math",
    }
    assert {name for name, operator in operators.items() if operator in ran} == {backend}


def test_reporting_changes_nothing_in_the_model(of_kind):
    model = GPT(of_kind("gqa"), 11).train()
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    kernel_report(model)
    assert model.training
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_runs_on_the_cpu_for_every_kind(kind, kernel):
    for dtype in (torch.float32, torch.bfloat16):
        check_kernel(kernel, "cpu", dtype, kind)


def test_a_kernel_that_the_device_lacks_is_refused_with_the_reason(of_kind):
    for _ in range(2):
        with pytest.raises(
            ConfigError, match=r"attention_kernel=flash cannot run in training on cpu .*dropout=0.2"
        ) as caught:
            check_kernel("flash", "cpu", torch.float32, of_kind("gqa"), dropout=0.2)
        assert "do not support non-zero dropout" in str(caught.value)
        assert "choose attention_kernel=auto" in str(caught.value)
        assert "Triggered internally" not in str(caught.value)


def test_a_refusal_without_a_warning_gives_the_error(of_kind, monkeypatch):
    def missing(*args, **kwargs):
        raise RuntimeError("No available kernel.")

    monkeypatch.setattr(F, "scaled_dot_product_attention", missing)
    with pytest.raises(ConfigError, match=r"heads=4, kv_heads=2, head_dim=6.*No available kernel"):
        check_kernel("flash", "cpu", torch.float32, of_kind("gqa"))
    check_kernel("folded", "cpu", torch.float32, of_kind("gqa"))
