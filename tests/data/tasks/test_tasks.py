"""Each task is what its docstring says, and theory's answer can be reached."""

import hashlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src.data.examples import Arrays, Examples
from src.data.tasks.copy import Copy
from src.data.tasks.farthest_point import FarthestPoint, farthest
from src.data.tasks.induction import Induction
from src.data.tasks.markov import Markov
from src.data.tasks.max_retrieval import MaxRetrieval, moments_of_largest, sum_of_largest
from src.data.tasks.recall import Recall
from src.data.tasks.task import NO_ANSWER, Task
from src.data.tasks.two_lookups import TwoLookups
from src.errors import ConfigError
from src.io_spec import TokenSpec
from tests.data.tasks.conftest import (
    COPY,
    FARTHEST_POINT,
    INDUCTION,
    LENGTHS,
    MARKOV,
    MAX_RETRIEVAL,
    RECALL,
    TASKS,
    TOKEN_TASKS,
    TWO_LOOKUPS,
    make,
    named,
)

Draw = Callable[..., Arrays]
each_task = pytest.mark.parametrize("task", TASKS, ids=named)

FIRST_TOKENS = {
    "copy": "87dd481a22ca827c",
    "induction": "633750a8f4470572",
    "recall": "7e01b22232d6514a",
    "markov": "158325ce2ba25512",
    "two_lookups": "9d2643344a72ba15",
}
FIRST_NUMBERS = {
    "max_retrieval": ([-0.212986, -1.454095, -1.263109, -0.874108], 0.607089),
    "farthest_point": ([-0.093731, -0.639919, -0.55587, -0.384678], 0.144237),
}
MAY_CHANGE = "the examples of this task changed: raise its `version`, so that runs before and after are not compared"


@each_task
def test_the_first_examples_are_those_of_this_version(task: Task, examples: Draw) -> None:
    assert task.version == 1, "put the new numbers above"
    inputs, targets = examples(task, count=3, key=7)
    if task.name in FIRST_TOKENS:
        digest = hashlib.sha256(inputs.tobytes() + targets.tobytes()).hexdigest()
        assert digest[:16] == FIRST_TOKENS[task.name], MAY_CHANGE
    else:  # the last bits of a float may differ by processor
        first, answer = FIRST_NUMBERS[task.name]
        assert inputs.ravel()[:4] == pytest.approx(first, abs=1e-5), MAY_CHANGE
        assert targets.ravel()[0] == pytest.approx(answer, abs=1e-5), MAY_CHANGE


@each_task
def test_examples_fit_the_ends_that_a_model_is_built_to(task: Task, examples: Draw) -> None:
    inputs, targets = examples(task)
    if isinstance(task.io_spec, TokenSpec):
        assert inputs.shape == targets.shape == (100, LENGTHS[task.name])
        asked = targets[targets != NO_ANSWER]
        tokens = np.concatenate([inputs.ravel(), asked])
        assert (tokens.min(), tokens.max()) == (0, task.io_spec.vocabulary_size - 1)
        assert ((targets != NO_ANSWER).sum(axis=1) == (targets[0] != NO_ANSWER).sum()).all()
    else:
        answers = 1 if task.io_spec.is_pooled else LENGTHS[task.name]
        assert inputs.shape == (100, LENGTHS[task.name], task.io_spec.features)
        assert targets.shape == (100, answers, task.io_spec.outputs)
        assert inputs.dtype == targets.dtype == np.float32


class TestCopy:
    def test_an_answer_is_what_stood_half_a_context_ago(self, examples: Draw) -> None:
        inputs, targets = examples(COPY)
        assert np.array_equal(targets[:, 32:], inputs[:, :32])
        assert (targets[:, :32] == NO_ANSWER).all()
        assert (inputs[:, 32] == 16).all()
        assert (np.delete(inputs, 32, axis=1) != 16).all()

    def test_an_odd_context_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"context_length=7 with data=copy.*such as 8"):
            make(Copy, symbols=4).check_length(7)


class TestInduction:
    def test_each_answer_is_what_followed_the_same_symbol_before(self, examples: Draw) -> None:
        inputs, targets = examples(INDUCTION)
        assert (targets[:, :16] == NO_ANSWER).all()
        for row, answers in zip(inputs, targets, strict=True):
            for t in range(16, 32):
                earlier = np.flatnonzero(row[:t] == row[t])
                assert len(earlier)
                assert set(row[earlier + 1]) == {answers[t]}

    def test_the_text_has_any_length_from_a_quarter_to_half_a_context(self, examples: Draw) -> None:
        inputs, _ = examples(INDUCTION, count=500)
        assert {len(set(row.tolist())) for row in inputs} == set(range(8, 17))

    def test_no_symbol_is_likelier_than_another(self) -> None:
        inputs, _ = Examples(make(Induction, symbols=8), 8, key=1).arrays(0, 4000)
        assert np.bincount(inputs[:, 0], minlength=8) / 4000 == pytest.approx([1 / 8] * 8, abs=0.03)

    @pytest.mark.parametrize(
        ("symbols", "length", "message"),
        [(16, 2, "at least 4"), (16, 31, "an even one"), (15, 32, r"data\.symbols=15: a text of up to 16 different")],
    )
    def test_a_context_that_does_not_fit_is_refused(self, symbols: int, length: int, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            make(Induction, symbols=symbols).check_length(length)


class TestRecall:
    def test_each_key_is_asked_for_once_and_answered_by_its_value(self, examples: Draw) -> None:
        inputs, targets = examples(RECALL)
        for row, answers in zip(inputs, targets, strict=True):
            table = dict(zip(row[0:8:2].tolist(), row[1:8:2].tolist(), strict=True))
            asked = np.flatnonzero(answers != NO_ANSWER)
            assert len(table) == len(set(table.values())) == len(asked) == 4
            assert asked.min() >= 8
            assert sorted(row[asked].tolist()) == sorted(table)
            assert [table[key] for key in row[asked].tolist()] == answers[asked].tolist()
            assert all(1 <= key < 32 <= value < 64 for key, value in table.items())

    def test_short_gaps_are_likelier_and_a_power_of_1_makes_all_alike(self) -> None:
        def share_of_first_places(power: float) -> float:
            _, targets = Examples(make(Recall, vocabulary_size=64, pairs=2, power=power), 44, key=3).arrays(0, 2000)
            places = np.nonzero(targets != NO_ANSWER)[1]
            return float((places < 4 + 2 * 5).mean())

        assert share_of_first_places(1.0) == pytest.approx(0.25, abs=0.03)
        assert share_of_first_places(0.01) > 0.5

    @pytest.mark.parametrize(("length", "message"), [(14, "at least 16"), (17, "even"), (16, None)])
    def test_a_context_without_room_is_refused(self, length: int, message: str | None) -> None:
        if message is None:
            RECALL.check_length(length)
            return
        with pytest.raises(ConfigError, match=message):
            RECALL.check_length(length)

    def test_more_pairs_than_keys_are_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"data\.pairs=8: a vocabulary of 16 has 7 keys"):
            make(Recall, vocabulary_size=16, pairs=8, power=1.0).check_length(64)


class TestMarkov:
    def test_the_last_symbols_decide_the_next(self) -> None:
        inputs, _ = Examples(make(Markov, symbols=2, depth=2), 6000, key=2).arrays(0, 3)
        for row in inputs:
            rule = {last: [_share_of_ones(row, (third, *last)) for third in (0, 1)] for last in PAIRS}
            assert all(abs(shares[0] - shares[1]) < 0.1 for shares in rule.values())  # a third one back does not
            assert np.ptp([shares[0] for shares in rule.values()]) > 0.2

    def test_targets_are_the_next_symbols_from_the_first_full_context_on(self, examples: Draw) -> None:
        inputs, targets = examples(MARKOV)
        assert (targets[:, 0] == NO_ANSWER).all()
        assert np.array_equal(targets[:, 1:-1], inputs[:, 2:])

    def test_every_example_has_a_rule_of_its_own_drawn_evenly(self) -> None:
        inputs, _ = Examples(make(Markov, symbols=2, depth=1), 400, key=4).arrays(0, 400)
        shares = np.array([_share_of_ones(row, (0,)) for row in inputs])
        deciles = np.histogram(shares, bins=5, range=(0, 1))[0] / len(shares)
        assert deciles == pytest.approx([0.2] * 5, abs=0.09)

    def test_the_loss_floor_is_that_of_counting_and_nothing_simple_beats_it(self) -> None:
        task = make(Markov, symbols=3, depth=1)
        inputs, targets = Examples(task, 60, key=5).arrays(0, 300)
        best = task.loss_floor(inputs, targets)
        by_hand = []
        for row, answer in zip(inputs[:20].tolist(), targets[:20].tolist(), strict=True):
            for t in range(60):
                followers = [answer[s] for s in range(t) if row[s] == row[t]]
                by_hand.append(-np.log((followers.count(answer[t]) + 1) / (len(followers) + 3)))
        assert task.loss_floor(inputs[:20], targets[:20]) == pytest.approx(np.mean(by_hand))
        assert 0.5 < best < np.log(3)
        assert best < make(Markov, symbols=3, depth=2).loss_floor(
            inputs, targets
        )  # which learns more rows than there are


PAIRS = [(0, 0), (0, 1), (1, 0), (1, 1)]


def _share_of_ones(row: np.ndarray, after: tuple[int, ...]) -> float:
    depth = len(after)
    windows = np.lib.stride_tricks.sliding_window_view(row, depth + 1)
    following = windows[(windows[:, :-1] == after).all(axis=1), -1]
    return float(following.mean()) if len(following) else 0.5


class TestTwoLookups:
    def test_the_answer_is_the_ordered_pair_of_the_values_of_the_two_keys(self, examples: Draw) -> None:
        inputs, targets = examples(TWO_LOOKUPS)
        for row, answers in zip(inputs.tolist(), targets.tolist(), strict=True):
            table = {item // 3: item % 3 for item in row[:-1]}
            assert all(table[item // 3] == item % 3 for item in row[:-1]), "a key has one value"
            first, second = divmod(row[-1] - 18, 6)
            assert first != second
            assert answers == [NO_ANSWER] * 12 + [18 + 36 + table[first] * 3 + table[second]]

    def test_both_keys_are_repeated_up_to_the_limit_and_independently(self, examples: Draw) -> None:
        inputs, _ = examples(TWO_LOOKUPS, count=4000)
        keys = inputs[:, :-1] // 3
        first, second = np.divmod(inputs[:, -1] - 18, 6)
        counts = [(keys == asked[:, None]).sum(axis=1) for asked in (first, second)]
        for count in counts:
            assert np.bincount(count, minlength=5)[1:] / 4000 == pytest.approx([0.25] * 4, abs=0.03)
        assert abs(np.corrcoef(counts)[0, 1]) < 0.06

    def test_neither_place_nor_question_tells_the_answer(self, examples: Draw) -> None:
        inputs, targets = examples(TWO_LOOKUPS, count=20_000)
        answers = targets[:, -1] - 54
        assert np.bincount(answers) / 20_000 == pytest.approx([1 / 9] * 9, abs=0.01)
        assert np.bincount(answers[inputs[:, -1] == inputs[0, -1]], minlength=9).min() > 30
        asked_for_first = inputs[:, 0] // 3 == (inputs[:, -1] - 18) // 6
        assert asked_for_first.mean() == pytest.approx(2.5 / 12, abs=0.02), "no place is likelier than another"

    def test_the_landmarks_are_those_of_an_ideal_reader(self, examples: Draw) -> None:
        inputs, targets = examples(TWO_LOOKUPS, count=20_000)
        losses = []
        for row, answer in zip(inputs.tolist(), targets[:, -1].tolist(), strict=True):
            table = {item // 3: item % 3 for item in row[:-1]}
            pair = {table[key] for key in divmod(row[-1] - 18, 6)}  # blind to the order: a set
            assert set(divmod(answer - 54, 3)) == pair
            losses.append(np.log(len(pair)))
        landmarks = list(TWO_LOOKUPS.landmarks.values())
        assert landmarks == pytest.approx([2 * np.log(3), np.mean(losses), 0], abs=0.01)

    def test_a_context_without_room_for_the_repeats_is_refused(self) -> None:
        TWO_LOOKUPS.check_length(9)
        with pytest.raises(ConfigError, match="at least 9, or fewer repeats"):
            TWO_LOOKUPS.check_length(8)


class TestMaxRetrieval:
    def test_the_answer_is_the_sum_of_largest_reaches_with_mean_0_and_variance_1(self, examples: Draw) -> None:
        task = MAX_RETRIEVAL
        inputs, targets = examples(task, count=4000)
        mean, variance = moments_of_largest(LENGTHS[task.name])
        by_hand = sum(np.max(inputs @ axis, axis=1) for axis in task.axes())
        assert targets[:, 0, 0] == pytest.approx((by_hand - 3 * mean) / np.sqrt(3 * variance), abs=1e-4)
        assert targets.mean() == pytest.approx(0, abs=0.06)
        assert targets.var() == pytest.approx(1, abs=0.1)

    def test_directions_stand_at_right_angles_and_are_no_axes(self) -> None:
        axes = make(MaxRetrieval, directions=4, features=6).axes()
        assert axes @ axes.T == pytest.approx(np.eye(4), abs=1e-12)
        assert np.abs(axes).max() < 0.95

    def test_one_sharp_head_a_direction_solves_it(self, examples: Draw) -> None:
        """Keys a_i . x_t, a sharp softmax, values a_i . x_t, summed: heads = directions are enough."""
        task = MAX_RETRIEVAL
        inputs, targets = (part.astype(np.float64) for part in examples(task))
        scores = inputs @ task.axes().T  # B T D
        weights = np.exp(400 * (scores - scores.max(axis=1, keepdims=True)))
        weights /= weights.sum(axis=1, keepdims=True)
        mean, variance = moments_of_largest(LENGTHS[task.name])
        answer = ((weights * scores).sum(axis=(1, 2)) - 3 * mean) / np.sqrt(3 * variance)
        assert np.mean((answer - targets[:, 0, 0]) ** 2) < 1e-5

    def test_more_directions_than_features_are_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"data\.directions=5: vectors of data\.features=4"):
            make(MaxRetrieval, directions=5, features=4).check_length(8)

    def test_a_sum_along_the_axes_is_a_sum_of_largest_coordinates(self) -> None:
        vectors = np.arange(24.0).reshape(2, 3, 4)
        assert sum_of_largest(vectors, np.eye(4)).tolist() == vectors.max(axis=1).sum(axis=1).tolist()


class TestFarthestPoint:
    def test_an_answer_is_a_point_of_the_set_and_none_is_less_aligned(self, examples: Draw) -> None:
        points, targets = examples(FARTHEST_POINT)
        for cloud, answers in zip(points, targets, strict=True):
            assert np.linalg.norm(cloud, axis=1) == pytest.approx(1, abs=1e-6)
            for point, answer in zip(cloud, answers, strict=True):
                assert any(np.array_equal(answer, other) for other in cloud)
                assert (cloud @ point).min() == pytest.approx(answer @ point, abs=1e-6)

    def test_a_constant_answer_has_loss_1(self, examples: Draw) -> None:
        _, targets = examples(FARTHEST_POINT, count=2000)
        assert ((targets - targets.mean(axis=(0, 1))) ** 2).sum(axis=2).mean() == pytest.approx(1, abs=0.01)

    def test_one_sharp_head_of_full_rank_solves_it(self, examples: Draw) -> None:
        """Scores -x_i . x_j, a sharp softmax, values x_j."""
        points, targets = (part.astype(np.float64) for part in examples(FARTHEST_POINT))
        scores = -(points @ points.transpose(0, 2, 1))
        weights = np.exp(3000 * (scores - scores.max(axis=2, keepdims=True)))
        answers = weights / weights.sum(axis=2, keepdims=True) @ points
        assert ((answers - targets) ** 2).sum(axis=2).mean() < 1e-2

    @settings(max_examples=25)
    @given(st.integers(2, 6), st.integers(2, 9), st.integers(0, 2**32))
    def test_turning_all_points_turns_the_answers(self, features: int, points: int, key: int) -> None:
        generator = np.random.default_rng(key)
        cloud = generator.normal(size=(1, points, features))
        turn = np.linalg.qr(generator.normal(size=(features, features)))[0]
        assert farthest(cloud @ turn) == pytest.approx(farthest(cloud) @ turn, abs=1e-9)

    def test_a_single_point_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="choose at least 2 points"):
            make(FarthestPoint, features=3).check_length(1)


class TestCausality:
    @pytest.mark.parametrize("task", [task for task in TOKEN_TASKS if not isinstance(task, Markov)], ids=named)
    def test_an_answer_is_decided_by_what_stands_before_it(self, task: Task, examples: Draw) -> None:
        """A reader of the past alone is right every time. (A Markov chain draws its answers; its floor is above.)"""
        inputs, targets = examples(task, count=50)
        for row, answers in zip(inputs, targets, strict=True):
            for t in np.flatnonzero(answers != NO_ANSWER):
                assert _answer_from_the_past(task, row[: t + 1]) == answers[t]


def _answer_from_the_past(task: Task, past: np.ndarray) -> int:
    """What a reader who knows the rule says, from the tokens up to the question."""
    if isinstance(task, TwoLookups):
        table = {item // 3: item % 3 for item in past[:-1].tolist()}
        first, second = divmod(int(past[-1]) - 18, 6)
        return 54 + 3 * table[first] + table[second]
    if isinstance(task, Copy):
        return int(past[len(past) - 1 - LENGTHS[task.name] // 2])
    earlier = past[: 2 * task.pairs : 2] if isinstance(task, Recall) else past[:-1]
    place = int(np.flatnonzero(earlier == past[-1])[-1]) * (2 if isinstance(task, Recall) else 1)
    return int(past[place + 1])
