"""What a node's log says of a job that was given up."""

import pytest

from lingua_sdk.job_course import JobCourse, ended_late, following, reached


def test_stages_are_those_of_the_job_that_is_followed() -> None:
    course = JobCourse("job-0-1")
    reached("speak")  # of no job
    with following(course):
        reached("translate")
        ended_late(ValueError("the words nobody must see"))
    reached("speak")
    assert (course.stage, course.late_end) == ("translate", "raised ValueError")


@pytest.mark.parametrize("reason", ["job_timeout", "part_timeout", "no_answer", "lease_over"])
def test_a_job_that_took_too_long_is_told_with_advice(reason: str) -> None:
    course = JobCourse("job-0-1")
    course.begin()
    event, detail = course.give_up(reason)
    assert (event, detail.partition("; ")[0]) == ("job given up", f"job-0-1: {reason} after 0.0 s")
    assert "more_time" in detail


def test_nothing_is_dropped_of_a_job_that_was_not_given_up_or_did_not_begin() -> None:
    course = JobCourse("job-0-1")
    course.begin()
    assert course.dropped("returned") == ""
    waiting = JobCourse("job-0-2")
    assert waiting.give_up(None) == ("job cancelled", "job-0-2: cancelled before it began")
    assert waiting.dropped("returned") == ""
