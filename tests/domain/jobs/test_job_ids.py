"""A job's id says where to look for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.jobs.job_ids import JobHandle, JobId, is_job_id

serials = st.text("abcdefi0123456789-", min_size=1, max_size=100)


@given(st.integers(0, 9_999), serials)
def test_a_jobs_id_names_the_shard_it_began_in(shard: int, serial: str) -> None:
    assert JobId.parse(str(JobId(shard, serial))) == (shard, serial)


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
    assert JobId.parse(stranger) is None
    assert not is_job_id(stranger)


@pytest.mark.parametrize(
    ("text", "handle"), [("job-7-a1.s3cret", ("job-7-a1", "s3cret")), ("job-7-a1", ("job-7-a1", ""))]
)
def test_a_handle_is_the_id_with_its_secret_if_it_has_one(text: str, handle: tuple[str, str]) -> None:
    assert JobHandle.parse(text) == handle
    assert str(JobHandle(*handle)) == text
