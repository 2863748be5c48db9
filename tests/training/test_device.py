"""What a run really runs on: fallbacks say so, and what would change the experiment unseen is refused."""

from __future__ import annotations

from pathlib import Path

import jaxtyping
import pytest
import torch

from src.errors import ConfigError
from src.training import build, runtime
from src.training.plan import plan_run
from tests.training.conftest import RunIt, Tiny, runtime_of


def chosen_for(tiny: Tiny, tmp_path: Path, *overrides: str) -> runtime.Runtime:
    return runtime_of(plan_run(tiny(*overrides), tmp_path))


def test_on_a_cpu_auto_means_float32_eager_and_the_whole_batch(tiny: Tiny, tmp_path: Path) -> None:
    chosen = chosen_for(tiny, tmp_path, "device=cpu")
    assert (chosen.dtype, chosen.uses_autocast, chosen.uses_scaler, chosen.compile) == ("float32", False, False, False)
    assert chosen.micro_batch_size == 4
    assert chosen.fused_optimizer
    assert any("compile" in note for note in chosen.notes)


def test_bfloat16_runs_on_a_cpu_and_the_record_and_the_cache_say_so(tiny: Tiny, run_it: RunIt) -> None:
    record = run_it(tiny("device=cpu", "training.dtype=bfloat16")).record
    assert record.status == "finished"
    assert record.environment["dtype"] == "bfloat16"
    assert record.environment["autocast"] is True
    assert record.summary["cache/bytes"] == 2 * 2 * 4 * 2 * 16 * 2


@pytest.mark.parametrize("asked", ["true", "required"])
def test_without_a_compiler_training_falls_back_or_refuses_early(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    if asked == "required":
        with pytest.raises(ConfigError, match=r"no C\+\+ compiler"):
            chosen_for(tiny, tmp_path, "training.compile=required")
        return
    chosen = chosen_for(tiny, tmp_path, "training.compile=true")
    assert not chosen.compile
    assert any("no C++ compiler" in note for note in chosen.notes)


def test_a_compilation_that_fails_is_taken_back_and_recorded(
    tiny: Tiny, run_it: RunIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_badly(self: torch.nn.Module) -> None:
        def broken(*_: object) -> None:
            raise RuntimeError("the compiler broke")

        self._compiled_call_impl = broken  # pyright: ignore[reportAttributeAccessIssue]

    monkeypatch.setattr(build.GPT, "compile", compile_badly)
    record = run_it(tiny("training.compile=true")).record
    assert record.status == "finished"
    assert record.environment["compile"] is False
    assert any("the compiler broke" in note for note in record.environment["notes"])


def test_threads_are_those_asked_for_inside_a_run_and_as_before_after_it(tiny: Tiny, run_it: RunIt) -> None:
    before = torch.get_num_threads()
    with runtime.thread_count(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
    assert run_it(tiny("training.threads=2", "training.max_steps=2")).record.environment["threads"] == 2
    assert torch.get_num_threads() == before


def test_checkpoints_do_not_depend_on_compilation(tiny: Tiny, run_it: RunIt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.GPT, "compile", lambda self: torch.nn.Module.compile(self, backend="eager"))
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # torch.compile cannot trace the checks
    torch.compiler.reset()
    from src.training.checkpoint import load_checkpoint

    compiled = run_it(tiny("training.compile=true", "training.max_steps=4"))
    plain = run_it(tiny("training.max_steps=4"))
    assert compiled.record.environment["compile"] is True
    ours, theirs = (load_checkpoint(r.folder) for r in (compiled, plain))
    assert ours is not None
    assert theirs is not None
    assert ours["model"].keys() == theirs["model"].keys()
    for name, tensor in ours["model"].items():
        torch.testing.assert_close(tensor, theirs["model"][name])
