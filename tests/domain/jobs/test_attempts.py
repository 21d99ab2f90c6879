"""The names of jobs and leases say where to look for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.jobs.attempts import Attempt, job_id, parse_lease, parse_leases, shard_of

serials = st.text("abcdefi0123456789-", min_size=1, max_size=100)


def test_a_lease_names_job_attempt_and_node() -> None:
    assert Attempt("job-7-a1", 2, "node-1", 7).lease == "job-7-a1#2#node-1"


@given(
    st.integers(0, 999), serials, st.integers(1, 9), st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}", fullmatch=True)
)
def test_a_lease_is_read_back_as_it_was_written(shard: int, serial: str, number: int, node_id: str) -> None:
    attempt = Attempt(job_id(shard, serial), number, node_id, shard)
    assert parse_lease(attempt.lease, shard) == attempt


def test_a_lease_is_read_for_the_shard_it_was_found_in() -> None:
    # A retry may live in another shard than the one the job's name begins with.
    assert parse_lease("job-7-a1#2#n", 3) == Attempt("job-7-a1", 2, "n", 3)


@pytest.mark.parametrize(
    "rubbish",
    ["", "job-7-a1", "job-7-a1#2", "job-7-a1#two#n", "job-0-a#b#0#n", "job-7-a1#2#", "job-7-a1#2#n\n", "x#1#n"],
)
def test_what_is_no_lease_is_none(rubbish: str) -> None:
    assert parse_lease(rubbish, 0) is None
    assert parse_leases([rubbish, "job-7-a1#2#n"], 0) == [Attempt("job-7-a1", 2, "n", 0)]


@given(st.text() | st.from_regex(r"job-[0-9]+-.*#.*#.*"))
def test_whatever_is_read_as_a_lease_is_written_the_same(text: str) -> None:
    attempt = parse_lease(text, 0)
    assert attempt is None or attempt.lease == text or text.split("#")[1].startswith("0")


@given(st.integers(0, 9_999), serials)
def test_a_jobs_id_names_the_shard_it_began_in(shard: int, serial: str) -> None:
    assert shard_of(job_id(shard, serial)) == shard


@pytest.mark.parametrize(
    "stranger",
    [
        "",
        "job",
        "job-",
        "job-7",
        "job-7-",
        "job--a",
        "job-x-a",
        "job--7-a",
        "job-7.0-a",
        "job-٧-a",
        "job-²-a",
        "jab-7-a",
        "job-12345-a",
        "job-0-a#b",
        "job-0-a b",
        "job-0-a\n",
        "job-0-{a}",
        f"job-0-{'a' * 101}",
        f"job-{'1' * 5000}-a",
    ],
)
def test_an_id_that_is_not_ours_names_no_shard(stranger: str) -> None:
    assert shard_of(stranger) is None
