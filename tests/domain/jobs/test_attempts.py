"""A lease names job, attempt and node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.jobs.attempts import Attempt, NumberedJob, Try
from lingua_scheduler.domain.jobs.job_ids import JobId

serials = st.text("abcdefi0123456789-", min_size=1, max_size=100)


def test_a_lease_names_job_attempt_and_node() -> None:
    assert Attempt("job-7-a1", 2, "node-1", 7).lease == "job-7-a1#2#node-1"


@given(
    st.integers(0, 999), serials, st.integers(1, 9), st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}", fullmatch=True)
)
def test_a_lease_is_read_back_as_it_was_written(shard: int, serial: str, number: int, node_id: str) -> None:
    attempt = Attempt(str(JobId(shard, serial)), number, node_id, shard)
    assert Attempt.parse(attempt.lease, shard) == attempt


def test_a_lease_is_read_for_the_shard_it_was_found_in() -> None:
    # A retry may live in another shard than the one the job's name begins with.
    assert Attempt.parse("job-7-a1#2#n", 3) == Attempt("job-7-a1", 2, "n", 3)


@pytest.mark.parametrize(
    "rubbish",
    ["", "job-7-a1", "job-7-a1#2", "job-7-a1#two#n", "job-0-a#b#0#n", "job-7-a1#2#", "job-7-a1#2#n\n", "x#1#n"],
)
def test_what_is_no_lease_is_none(rubbish: str) -> None:
    assert Attempt.parse(rubbish, 0) is None
    assert Attempt.parse_all([rubbish, "job-7-a1#2#n"], 0) == [Attempt("job-7-a1", 2, "n", 0)]


@given(st.text() | st.from_regex(r"job-[0-9]+-.*#.*#.*"))
def test_whatever_is_read_as_a_lease_is_written_the_same(text: str) -> None:
    attempt = Attempt.parse(text, 0)
    assert attempt is None or attempt.lease == text or text.split("#")[1].startswith("0")


def test_a_job_without_an_id_gets_the_one_of_the_shard_it_begins_in() -> None:
    wanted = Try(1, "a1", 1_000)
    assert wanted.id_in(7) == "job-7-a1"
    assert (wanted.shard, wanted.job_id) == (-1, "")
    wanted.begin_in(7)
    assert (wanted.shard, wanted.job_id) == (7, "job-7-a1")
    assert wanted.id_in(3) == "job-7-a1"


def test_a_numbered_job_is_read_back_as_it_was_written() -> None:
    assert str(NumberedJob("job-7-a1", 2)) == "job-7-a1#2"
    assert NumberedJob.parse("job-7-a1#2") == ("job-7-a1", 2)
