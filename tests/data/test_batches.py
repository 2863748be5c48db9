"""What a run sees depends on the seed and on how the text is cut, and on nothing else."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from src.config import Order
from src.data.batches import EvaluationWindows, TrainingBatches
from src.errors import ConfigError, DataError

TOKENS = np.arange(1000, dtype=np.uint16)  # a token is its own place
ORDERS: tuple[Order, ...] = ("shuffled", "random", "sequential")
SHUFFLED, RANDOM = [327, 343, 927, 511, 855, 23], [718, 756, 657, 788, 441, 109]  # of the first six windows, seed 0
fuzz = settings(max_examples=100)
sizes = st.tuples(st.integers(2, 120), st.integers(1, 16), st.integers(1, 9), st.none() | st.integers(1, 40)).filter(
    lambda drawn: drawn[0] > drawn[1]
)


def batches(
    order: Order = "shuffled", batch_size: int = 4, stride: int | None = None, seed: int = 0, context_length: int = 8
) -> TrainingBatches:
    return TrainingBatches(TOKENS, context_length, batch_size, order, stride, seed)


def stream(source: TrainingBatches, windows: int) -> list[int]:
    """The starts of the first windows, batch after batch."""
    starts: list[int] = []
    step = 0
    while len(starts) < windows:
        starts += source.batch(step)[0][:, 0].tolist()
        step += 1
    return starts[:windows]


def windows_per_epoch(order: Order = "shuffled", stride: int | None = None) -> int:
    return batches(order, batch_size=1, stride=stride).steps_per_epoch


class TestTrainingBatches:
    @pytest.mark.parametrize("order", ORDERS)
    def test_targets_are_the_inputs_one_token_later(self, order: Order) -> None:
        inputs, targets = batches(order).batch(3)
        assert inputs.shape == targets.shape == (4, 8)
        assert inputs.dtype == targets.dtype == torch.int64
        assert inputs.is_contiguous()
        assert targets.is_contiguous()
        assert torch.equal(targets, inputs + 1)
        assert torch.equal(inputs, inputs[:, :1] + torch.arange(8))

    @pytest.mark.parametrize("order", ORDERS)
    def test_any_step_can_be_asked_for_in_any_order(self, order: Order) -> None:
        steps = list(range(100))
        in_order = {step: batches(order).batch(step) for step in steps}
        random.Random(0).shuffle(steps)
        one = batches(order)
        for step in steps:
            for ours, theirs in zip(one.batch(step), in_order[step], strict=True):
                assert torch.equal(ours, theirs)

    @pytest.mark.parametrize("order", ["shuffled", "random"])
    @pytest.mark.parametrize("batch_size", [1, 3, 7, 500])
    def test_the_batch_size_only_cuts_the_stream(self, order: Order, batch_size: int) -> None:
        assert stream(batches(order, batch_size), 700) == stream(batches(order, batch_size=4), 700)

    def test_workers_that_take_turns_give_the_batches_of_one(self) -> None:
        alone = batches()
        for workers in (1, 2, 3):
            sources = [batches() for _ in range(workers)]
            for step in range(60):
                assert torch.equal(sources[step % workers].batch(step)[0], alone.batch(step)[0])

    @pytest.mark.parametrize("stride", [None, 3, 8, 20])
    def test_an_epoch_repeats_nothing_and_the_next_differs(self, stride: int | None) -> None:
        source = batches(stride=stride)
        n = windows_per_epoch(stride=stride)
        starts = stream(source, 2 * n)
        first, second = starts[:n], starts[n:]
        assert len(set(first)) == len(set(second)) == n
        assert first != second
        assert first != sorted(first)
        for epoch in (first, second):
            assert set(np.diff(sorted(epoch))) == {stride or 8}

    def test_epochs_begin_at_different_phases_of_the_grid(self) -> None:
        source = batches()
        n = windows_per_epoch()
        starts = np.array(stream(source, 40 * n)).reshape(40, n)
        assert set(starts.min(axis=1)) == set(range(8))

    def test_without_a_stride_no_token_is_predicted_twice_in_an_epoch(self) -> None:
        source = batches(batch_size=1)
        targets = torch.cat([source.batch(step)[1].flatten() for step in range(source.steps_per_epoch)])
        assert len(targets.unique()) == len(targets) > len(TOKENS) - 3 * 8

    def test_random_starts_reach_every_place_and_repeat(self) -> None:
        starts = stream(batches("random"), 20_000)
        assert set(starts) == set(range(len(TOKENS) - 8))
        assert len(set(starts[:124])) < 124

    @pytest.mark.parametrize("order", ["shuffled", "random"])
    def test_a_seed_means_its_batches(self, order: Order) -> None:
        assert stream(batches(order, seed=1), 300) == stream(batches(order, seed=1), 300)
        assert stream(batches(order, seed=1), 300) != stream(batches(order, seed=2), 300)

    def test_the_global_random_state_neither_matters_nor_changes(self) -> None:
        np.random.seed(1)
        torch.manual_seed(1)
        before = np.random.get_state()[1].copy()  # pyright: ignore
        drawn = stream(batches(), 300)
        assert np.array_equal(np.random.get_state()[1], before)  # pyright: ignore
        np.random.seed(2)
        assert stream(batches(), 300) == drawn

    def test_the_streams_are_those_that_earlier_runs_were_trained_on(self) -> None:
        """Change these numbers only together with a note that runs before and after are not comparable."""
        assert stream(batches("shuffled"), 6) == SHUFFLED
        assert stream(batches("random"), 6) == RANDOM

    def test_file_order_keeps_the_last_partial_batch_and_never_mixes_epochs(self) -> None:
        source = batches("sequential", batch_size=5, stride=4)
        assert windows_per_epoch("sequential", stride=4) == 248
        assert source.steps_per_epoch == 50
        assert source.starts(0).tolist() == [0, 4, 8, 12, 16]
        assert source.starts(49).tolist() == [980, 984, 988]
        assert source.starts(50).tolist() == source.starts(0).tolist()

    def test_file_order_makes_the_31370_steps_of_the_numpy_tutorial(self) -> None:
        source = TrainingBatches(np.zeros(1_003_854, dtype=np.uint8), 32, 4, "sequential", 16, seed=0)
        assert 2 * source.steps_per_epoch == 31_370

    def test_shuffled_batches_are_full_across_the_end_of_an_epoch(self) -> None:
        source = batches(batch_size=5)
        assert windows_per_epoch() == 124
        assert source.steps_per_epoch == 25
        assert all(len(source.starts(step)) == 5 for step in range(80))

    @fuzz
    @given(sizes, st.sampled_from(ORDERS))
    def test_every_window_lies_inside_the_text(self, drawn: tuple[int, int, int, int | None], order: Order) -> None:
        n, context_length, batch_size, stride = drawn
        source = TrainingBatches(np.arange(n), context_length, batch_size, order, stride, seed=3)
        for step in range(2 * source.steps_per_epoch + 1):
            inputs, targets = source.batch(step)
            assert 1 <= len(inputs) <= batch_size
            assert torch.equal(targets, inputs + 1)
            assert targets.max() <= n - 1

    def test_too_few_tokens_are_refused_and_just_enough_are_not(self) -> None:
        with pytest.raises(DataError, match="8 tokens are too few for context_length=8: a window needs 9"):
            TrainingBatches(TOKENS[:8], 8, 4, "shuffled", None, seed=0)
        assert TrainingBatches(TOKENS[:9], 8, 4, "shuffled", None, seed=0).batch(0)[0].tolist() == [list(range(8))] * 4

    def test_a_negative_step_is_a_bug(self) -> None:
        with pytest.raises(ValueError, match="step=-1"):
            batches().batch(-1)


class TestEvaluationWindows:
    @fuzz
    @given(sizes)
    def test_each_prediction_is_made_exactly_once(self, drawn: tuple[int, int, int, int | None]) -> None:
        n, context_length, batch_size, _ = drawn
        windows = EvaluationWindows(np.arange(n), context_length, batch_size, None, drop_partial_batch=False)
        targets = [target for _, batch in windows for target in batch.flatten().tolist()]
        assert targets == list(range(1, n))

    @fuzz
    @given(sizes, st.booleans())
    def test_the_length_is_what_the_iteration_gives(self, drawn: tuple[int, int, int, int | None], drop: bool) -> None:
        n, context_length, batch_size, stride = drawn
        stride = None if stride is None else min(stride, context_length)
        try:
            windows = EvaluationWindows(np.arange(n), context_length, batch_size, stride, drop)
        except DataError:
            assert drop
            return
        made = list(windows)
        assert len(made) == len(windows)
        assert all(torch.equal(targets, inputs + 1) for inputs, targets in made)
        assert all(targets.numel() for _, targets in made)  # an empty batch has no mean
        if drop:
            assert all(inputs.shape == (batch_size, context_length) for inputs, _ in made)
        else:
            assert {t for _, targets in made for t in targets.flatten().tolist()} == set(range(1, n))

    @pytest.mark.parametrize("stride", [None, 5])
    def test_the_windows_do_not_depend_on_the_batch_size(self, stride: int | None) -> None:
        def rows(batch_size: int) -> list[list[int]]:
            windows = EvaluationWindows(TOKENS, 8, batch_size, stride, drop_partial_batch=False)
            return [row for inputs, _ in windows for row in inputs.tolist()]

        assert rows(1) == rows(7) == rows(1000)

    def test_a_short_last_window_is_a_batch_of_its_own(self) -> None:
        windows = EvaluationWindows(TOKENS[:21], 8, 4, None, drop_partial_batch=False)
        assert [tuple(inputs.shape) for inputs, _ in windows] == [(2, 8), (1, 4)]

    def test_it_can_be_gone_through_again(self) -> None:
        windows = EvaluationWindows(TOKENS, 8, 4, None, drop_partial_batch=False)
        assert [i.tolist() for i, _ in windows] == [i.tolist() for i, _ in windows]

    def test_the_numpy_tutorial_evaluates_1742_batches_of_4(self) -> None:
        windows = EvaluationWindows(np.zeros(111_540, dtype=np.uint8), 32, 4, 16, drop_partial_batch=True)
        assert len(windows) == 1742
        assert sum(targets.numel() for _, targets in windows) == 1742 * 4 * 32

    def test_a_stride_that_leaves_gaps_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"training\.eval_stride=9 is more than context_length=8"):
            EvaluationWindows(TOKENS, 8, 4, 9, drop_partial_batch=False)

    def test_nothing_to_evaluate_is_an_error_not_a_zero(self) -> None:
        with pytest.raises(DataError, match="holds 2 windows, fewer than one batch of 4"):
            EvaluationWindows(TOKENS[:21], 8, 4, None, drop_partial_batch=True)
