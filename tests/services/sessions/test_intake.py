"""Timers of sessions."""

from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.services.sessions.intake import moment_of


@given(st.floats(0, 10**12))
def test_a_timer_never_rings_before_it_is_due(due_ms: float) -> None:
    """If it did it would be set again for the same moment: a loop without an end where the clock stands still."""
    assert moment_of(due_ms) * 1000 >= due_ms
    assert moment_of(due_ms) * 1000 - due_ms < 2
