"""Speed is tokens over seconds with warm-up, evaluation and saving left out of both."""

from src.training.measure import Stopwatch, Tally


class FakeClock:
    """A clock that a test moves; it starts far from zero, so that a start time taken for a duration shows."""

    def __init__(self) -> None:
        self.now = 16_000.0

    def __call__(self) -> float:
        return self.now


def trained(clock: FakeClock, watch: Stopwatch, steps: int, seconds: float = 0.5, tokens: int = 100) -> None:
    for _ in range(steps):
        clock.now += seconds
        watch.step(tokens)


def test_a_slow_first_step_and_a_slow_evaluation_do_not_change_the_speed() -> None:
    clock = FakeClock()
    watch = Stopwatch(clock, lambda: None, warmup_steps=2)
    watch.start()
    trained(clock, watch, 1, seconds=2.5)  # step 0 compiles
    trained(clock, watch, 1)
    trained(clock, watch, 4)
    watch.stop()
    clock.now += 2.0  # an evaluation
    watch.start()
    trained(clock, watch, 4)
    watch.stop()
    clock.now += 99.0
    assert watch.total == Tally(steps=8, tokens=800, seconds=4.0)
    assert watch.total.tokens_per_second == 200.0


def test_an_interval_holds_what_came_since_the_last_one() -> None:
    clock = FakeClock()
    watch = Stopwatch(clock, lambda: None, warmup_steps=0)
    watch.start()
    trained(clock, watch, 3)
    assert watch.take_interval().tokens_per_second == 200.0
    trained(clock, watch, 3, seconds=1.0)
    assert watch.take_interval().tokens_per_second == 100.0
    assert watch.take_interval().tokens_per_second is None
    assert watch.total.steps == 6


def test_nothing_timed_is_null_not_zero() -> None:
    watch = Stopwatch(FakeClock(), lambda: None, warmup_steps=10)
    watch.start()
    watch.step(100)
    watch.stop()
    assert watch.total.tokens_per_second is None


def test_a_later_segment_adds_to_what_was_timed_before() -> None:
    clock = FakeClock()
    watch = Stopwatch(clock, lambda: None, Tally(steps=5, tokens=500, seconds=5.0), warmup_steps=0)
    watch.start()
    trained(clock, watch, 5, seconds=1.0)
    watch.stop()
    assert watch.total == Tally(steps=10, tokens=1000, seconds=10.0)


def test_the_device_is_waited_for_wherever_time_is_read() -> None:
    clock = FakeClock()

    def device_finishes() -> None:
        clock.now += 1.0

    watch = Stopwatch(clock, device_finishes, warmup_steps=0)
    watch.start()
    watch.step(100)
    watch.lap()
    assert watch.total.seconds == 1.0
