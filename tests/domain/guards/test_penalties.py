"""Who fails too often waits, longer each time; memory is bounded."""

from lingua_scheduler.domain.guards import penalties
from lingua_scheduler.domain.guards.penalties import FAILURES_PER_MIN, FORGET_S, MAX_REMEMBERED, Penalties


def fail_until_stopped(found: Penalties, name: str, now_s: float) -> int:
    for tries in range(1, 1_000):
        found.failed(name, now_s)
        if found.wait_s(name, now_s):
            return tries
    raise AssertionError("never stopped")


def test_twenty_in_a_minute_and_then_a_pause_that_doubles_up_to_an_hour() -> None:
    found, now_s, pauses = Penalties(), 1_000.0, []
    for _ in range(9):
        assert fail_until_stopped(found, "a", now_s) == FAILURES_PER_MIN
        pauses.append(found.wait_s("a", now_s))
        now_s += pauses[-1]
        assert found.wait_s("a", now_s) == 0
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_one_who_fails_now_and_then_never_waits() -> None:
    found = Penalties()
    for number in range(200):
        found.failed("a", 1_000.0 + number * 3.1)
        assert not found.wait_s("a", 1_000.0 + number * 3.1)


def test_after_two_quiet_hours_one_starts_anew() -> None:
    found = Penalties()
    fail_until_stopped(found, "a", 0.0)
    fail_until_stopped(found, "a", 60.0)
    fail_until_stopped(found, "a", 60.0 + FORGET_S + 1)
    assert found.wait_s("a", 60.0 + FORGET_S + 1) == 60


def test_others_do_not_wait() -> None:
    found = Penalties()
    fail_until_stopped(found, "a", 0.0)
    assert found.wait_s("b", 0.0) == 0


def test_many_names_do_not_fill_the_memory_and_do_not_free_who_waits() -> None:
    found = Penalties()
    fail_until_stopped(found, "a", 0.0)
    for number in range(3 * MAX_REMEMBERED):
        found.failed(f"n{number}", 1.0)
        assert len(found) <= MAX_REMEMBERED
    assert found.wait_s("a", 1.0)


def test_even_many_who_wait_are_bounded() -> None:
    found, few = Penalties(), 40
    original, penalties.MAX_REMEMBERED = penalties.MAX_REMEMBERED, few
    try:
        for number in range(3 * few):
            fail_until_stopped(found, f"n{number}", 1.0)
            assert len(found) <= few
    finally:
        penalties.MAX_REMEMBERED = original
