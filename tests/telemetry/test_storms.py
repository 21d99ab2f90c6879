"""Lines of one kind: so many in a while, the rest is a number; and nothing of it grows."""

from lingua_scheduler.telemetry.storms import MAX_NAMES, OTHERS, WINDOW_S, Storms


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_comes_now_and_then_is_always_written() -> None:
    clock = Clock()
    storms = Storms(2, clock)
    for _ in range(100):
        assert storms.may_write("a.b")
        clock.now += WINDOW_S / 2
    assert storms.over() == []


def test_one_kind_does_not_silence_another() -> None:
    storms = Storms(1, Clock())
    assert storms.may_write("a.b")
    assert not storms.may_write("a.b")
    assert storms.may_write("a.c")


def test_a_number_is_told_once_and_only_when_the_while_is_over() -> None:
    clock = Clock()
    storms = Storms(1, clock)
    for _ in range(8):
        storms.may_write("a.b")
    assert storms.over() == []
    clock.now = WINDOW_S
    assert storms.over() == [("a.b", 7)]
    assert storms.over() == []
    assert storms.may_write("a.b")


def test_no_line_is_lost_without_being_counted() -> None:
    """Whether or not anybody asks in time."""
    clock = Clock()
    storms = Storms(3, clock)
    written = told = 0
    for step in range(1000):
        clock.now += 0.7
        written += storms.may_write("a.b")
        for _ in range(step % 5):
            written += storms.may_write("a.b")
        if step % 37 == 0:
            told += sum(lines for _, lines in storms.over())
    clock.now += WINDOW_S
    told += sum(lines for _, lines in storms.over())
    assert written + told == 1000 + sum(step % 5 for step in range(1000))


def test_names_without_end_take_no_memory_without_end() -> None:
    storms = Storms(1, clock := Clock())
    for number in range(3 * MAX_NAMES):
        storms.may_write(f"name.{number}")
    assert len(storms._windows) <= MAX_NAMES + 1
    clock.now = WINDOW_S
    assert storms.over() == [(OTHERS, 2 * MAX_NAMES - 1)]
