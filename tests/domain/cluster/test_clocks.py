"""Jumps of Redis's clock, told apart from drift and from slow answers."""

from lingua_scheduler.domain.cluster.clocks import Drift


def test_drift_is_no_jump_and_a_slow_answer_is_none() -> None:
    drift = Drift()
    assert drift.jump_ms(1_000_000, 0, 0) == 0
    assert drift.jump_ms(1_001_900, 1_000, 1_000) == 0
    assert drift.jump_ms(1_002_900, 2_000, 8_000) == 0
    assert drift.jump_ms(1_009_900, 9_000, 9_000) == 0
    assert drift.jump_ms(5_010_900, 10_000, 10_000) == 4_000_000
    assert drift.jump_ms(5_011_900, 11_000, 11_000) == 0
