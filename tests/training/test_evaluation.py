"""Validation covers the split, whatever the batch size, with dropout off."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from pathlib import Path

import pytest
import torch

from src.compose import compose
from src.data.batches import EvaluationWindows
from src.io_spec import TokenSpec
from src.model.gpt import GPT
from src.training.build import build
from src.training.loop import Evaluation, evaluate
from src.training.plan import RunPlan, plan_run
from src.training.stop import StopFlag
from tests.training.conftest import TINY, Tiny, runtime_of, text_of


def evaluated(plan: RunPlan, model: GPT, batch_size: int) -> Evaluation:
    windows = EvaluationWindows(text_of(plan).val_tokens, plan.config.context_length, batch_size, None, False)
    return result_of(evaluate(model, windows, runtime_of(plan), StopFlag()))


def result_of(steps: Generator[object, None, Evaluation]) -> Evaluation:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def model_of(plan: RunPlan) -> GPT:
    model = build(plan, runtime_of(plan), time.perf_counter).model
    assert isinstance(model, GPT)
    return model


def test_every_token_counts_once_and_the_batch_size_does_not_matter(tiny: Tiny, tmp_path: Path) -> None:
    plan = plan_run(tiny("model.dropout=0.5"), tmp_path)
    model = model_of(plan)
    model.train()
    results = [evaluated(plan, model, size) for size in (1, 3, 64, 1000)]
    assert {r.tokens for r in results} == {len(text_of(plan).val_tokens) - 1}
    for result in results[1:]:
        assert result.loss == pytest.approx(results[0].loss, rel=1e-6)
    assert model.training, "the mode is put back"


def test_the_loss_is_the_mean_of_each_token_given_its_window(tiny: Tiny, tmp_path: Path) -> None:
    plan = plan_run(tiny("training.dtype=float64"), tmp_path)
    model = model_of(plan)
    tokens = torch.from_numpy(text_of(plan).val_tokens[:].astype("int64"))
    losses = []
    for start in range(0, len(tokens) - 1, 16):
        window = tokens[start : start + 17]
        with torch.no_grad():
            logs = model.eval()(window[None, :-1])[0].log_softmax(-1)
        losses += [-logs[i, target].item() for i, target in enumerate(window[1:])]
    assert len(losses) == len(tokens) - 1
    assert evaluated(plan, model, 7).loss == pytest.approx(sum(losses) / len(losses), rel=1e-12)


def test_perplexity_and_bits_are_those_of_the_loss() -> None:
    row = Evaluation(loss=2.0, tokens=10, correct=4).row(TokenSpec(7), bytes_per_token=1.25, has_answers=True)
    assert row["val/perplexity"] == pytest.approx(math.e**2)
    assert row["val/bits_per_token"] == pytest.approx(2.0 / math.log(2))
    assert row["val/bits_per_byte"] == pytest.approx(2.0 / math.log(2) / 1.25)
    assert row["val/accuracy"] == 0.4
    plain = Evaluation(loss=1e6, tokens=1, correct=0).row(TokenSpec(7), bytes_per_token=None, has_answers=False)
    assert plain["val/perplexity"] == math.inf
    assert not {"val/bits_per_byte", "val/accuracy"} & plain.keys()


def test_only_answers_count_and_an_accuracy_is_of_them(tmp_path: Path) -> None:
    plan = plan_run(compose([*TINY[1:], "data=copy", "training.dtype=float64"]), tmp_path)
    model = model_of(plan)
    batches = plan.data.evaluation_batches(16, plan.config.training)
    losses, right, asked = 0.0, 0, 0
    for inputs, targets in batches:
        with torch.no_grad():
            logs = model.eval()(inputs).log_softmax(-1)
        for row, answers in zip(logs, targets, strict=True):
            for log, answer in zip(row, answers, strict=True):
                if answer != -100:
                    losses, asked = losses - log[answer].item(), asked + 1
                    right += int(log.argmax() == answer)
    result = result_of(evaluate(model, batches, runtime_of(plan), StopFlag()))
    assert (result.tokens, result.correct) == (asked, right)
    assert asked == 2000 * 8
    assert result.loss == pytest.approx(losses / asked, rel=1e-12)
