"""A job's history is read back in order."""

from lingua_scheduler.domain.jobs.history import JobStep, steps_of
from lingua_scheduler.domain.jobs.jobs import JobState


def test_moves_come_in_the_order_of_the_lines_and_a_reason_may_be_a_sentence_or_nothing() -> None:
    assert steps_of("CREATED 4 0 - \nDISPATCHED 5 1 n \nFAILED 6 1 n every node is busy") == [
        JobStep(JobState.CREATED, 4, 0, "", ""),
        JobStep(JobState.DISPATCHED, 5, 1, "n", ""),
        JobStep(JobState.FAILED, 6, 1, "n", "every node is busy"),
    ]


def test_every_move_has_a_name_among_the_times() -> None:
    moments = {state: JobStep(state, 1, 1, "n", "").moment for state in JobState}
    assert moments[JobState.CREATED] == "created"
    assert moments[JobState.ACCEPTED] == "accepted"
    assert moments[JobState.RETRYING] == "retrying"
    assert {moments[state] for state in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)} == {"ended"}


def test_a_record_without_moves_has_no_history() -> None:
    assert steps_of("") == []
