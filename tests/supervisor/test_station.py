"""How long a station waits before it starts another worker."""

from lingua_scheduler.supervisor.station import BACKOFF_FIRST_S, BACKOFF_MAX_S, pause_s


def test_the_first_start_waits_for_nothing() -> None:
    assert pause_s(0, 1.0) == 0


def test_pauses_double_up_to_a_limit() -> None:
    assert [pause_s(deaths, 1.0) for deaths in (1, 2, 3)] == [BACKOFF_FIRST_S, 2 * BACKOFF_FIRST_S, 4 * BACKOFF_FIRST_S]
    assert pause_s(10_000, 1.0) == BACKOFF_MAX_S


def test_stations_do_not_march_in_step() -> None:
    assert pause_s(3, 0.0) == pause_s(3, 1.0) / 2
