"""Tries that are refused; peers that space them out, and others, are in the tests of both scripts."""

from lingua_scheduler.conformance.refusing import mean_pause_s


def test_the_mean_pause() -> None:
    assert mean_pause_s([10.0, 10.5, 12.0]) == 1.0
