"""The words of the tables about jobs."""

from lingua_scheduler.cli.jobs.tables import state_word


def test_a_state_of_another_release_is_shown_as_it_is() -> None:
    assert str(state_word("FAILED")) == "FAILED"
    assert str(state_word("NEW_STATE")) == "NEW_STATE"
