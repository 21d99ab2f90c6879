"""How long a station waits before it starts another worker."""

from lingua_scheduler.supervisor.station import RESTARTS


def test_the_first_start_waits_for_nothing() -> None:
    assert RESTARTS.pause_s(0) == 0


def test_pauses_double_up_to_a_limit() -> None:
    assert [RESTARTS.pause_s(deaths, 1.0) for deaths in (1, 2, 3)] == [0.1, 0.2, 0.4]
    assert RESTARTS.pause_s(10_000, 1.0) == 5


def test_stations_do_not_march_in_step() -> None:
    assert RESTARTS.pause_s(3, 0.0) == RESTARTS.pause_s(3, 1.0) / 2
