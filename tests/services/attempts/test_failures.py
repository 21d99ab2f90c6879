"""Every failure leaves a trace: in the log at once, in the history when Redis is there, in a storm as a number."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from lingua_scheduler.domain.watching.failures import FailedJob, FailureFilter
from lingua_scheduler.services.attempts import failures
from lingua_scheduler.services.attempts.failures import FailureLog
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.records import JobRecord
from lingua_scheduler.store.store import Store
from tests.domain.watching.test_failures import failure

# As plain values: a limit that changes is noticed.
MAX_KINDS = 200
MAX_WAITING = 1_000


class Shelf:
    """A history that can be away."""

    def __init__(self) -> None:
        self.kept: list[FailedJob] = []
        self.calls = 0
        self.sizes: list[int] = []
        self.is_away = False

    async def add(self, failures: Sequence[FailedJob], most: int, keep_ms: int) -> None:
        self.calls += 1
        if self.is_away:
            raise RedisAway("nobody there")
        self.sizes.append(len(failures))
        self.kept += failures


async def test_a_failure_is_logged_at_once_and_written_to_the_history(store: Store) -> None:
    log = FailureLog(store.failures, 100, 60_000)
    with capture_logs() as logged:
        log.add(failure(reason="the node was too slow"), "s-0123456789ABCDEF")
    (event,) = logged
    assert (event["event"], event["job_id"], event["session_id"]) == ("job.failed", "job-0-a-1", "s-0123456789ABCDEF")
    assert (event["utterance_index"], event["src"], event["tgt"], event["node_id"]) == (3, "en", "de", "n1")
    assert (event["code"], event["detail"]) == ("JOB_TIMEOUT", "the node was too slow")
    assert await store.failures.latest(FailureFilter(), 10) == []
    await log.write()
    await log.write()
    assert await store.failures.latest(FailureFilter(), 10) == [failure(reason="the node was too slow")]


@pytest.mark.parametrize(
    ("times_ms", "took_ms"),
    [({}, 0), ({"created": 7_000, "dispatched": 8_000}, 3_000), ({"created": 60_000}, 0)],
    ids=["unknown", "known", "of a clock that is ahead"],
)
async def test_a_job_whose_instance_is_gone_is_a_failure_with_the_time_it_took(
    monkeypatch: pytest.MonkeyPatch, times_ms: dict[str, int], took_ms: int
) -> None:
    shelf = Shelf()
    log = FailureLog(cast("Any", shelf), 100, 60_000)
    monkeypatch.setattr(failures, "wall_ms", lambda: 10_000.0)
    log.forsaken(
        JobRecord("job-0-1", 0, "CREATED", 2, "n1", ("en:de:speech",), "s-1", 3, "i-gone", "", "", times_ms, (), "")
    )
    await log.write()
    (found,) = shelf.kept
    assert (found.at_ms, found.took_ms, found.attempts) == (10_000, took_ms, 2)
    assert (found.src, found.tgt, found.node_id, found.instance_id) == ("en", "de", "n1", "i-gone")
    assert (found.code, found.reason) == ("RESULT_LOST", "instance i-gone had this job and is gone")


async def test_without_failures_nothing_is_asked_of_redis() -> None:
    shelf = Shelf()
    await FailureLog(cast("Any", shelf), 100, 60_000).write()
    assert shelf.calls == 0


async def test_what_failed_while_redis_was_away_is_written_when_it_is_back() -> None:
    shelf = Shelf()
    log = FailureLog(cast("Any", shelf), 100, 60_000)
    shelf.is_away = True
    log.add(failure(job_id=""), "s-1")
    for _ in range(3):
        with pytest.raises(RedisAway):
            await log.write()
    log.add(failure(job_id="j2"), "s-1")
    shelf.is_away = False
    await log.write()
    assert [one.job_id for one in shelf.kept] == ["", "j2"]


async def test_in_a_storm_the_first_are_recorded_and_the_rest_counted_by_kind() -> None:
    shelf = Shelf()
    log = FailureLog(cast("Any", shelf), 100, 60_000)
    shelf.is_away = True
    with capture_logs():
        for number in range(3 * MAX_WAITING):
            log.add(failure(job_id=f"j{number}", tgt="de" if number % 2 else "fr"), "s-1")
    with pytest.raises(RedisAway):
        await log.write()
    shelf.is_away = False
    await log.write()
    recorded = [one for one in shelf.kept if one.job_id]
    counted = [one for one in shelf.kept if not one.job_id]
    assert len(recorded) == MAX_WAITING
    assert {(one.tgt, one.count) for one in counted} == {("de", MAX_WAITING), ("fr", MAX_WAITING)}


async def test_of_too_many_kinds_the_rest_share_one() -> None:
    shelf = Shelf()
    log = FailureLog(cast("Any", shelf), 100, 60_000)
    with capture_logs():
        for number in range(MAX_WAITING + 2 * MAX_KINDS):
            log.add(failure(node_id=f"n{number}"), "s-1")
    await log.write()
    counted = [one for one in shelf.kept if not one.job_id]
    # Some tokens may have come back meanwhile.
    assert len(counted) <= MAX_KINDS + 1
    assert sum(one.count for one in shelf.kept) == MAX_WAITING + 2 * MAX_KINDS
    assert any(one.code == "other" for one in counted)


async def test_what_was_counted_is_not_lost_while_redis_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf()
    log = FailureLog(cast("Any", shelf), 100, 60_000)
    monkeypatch.setattr(failures, "MAX_WAITING", 0)
    shelf.is_away = True
    with capture_logs():
        log.add(failure(), "s-1")
        with pytest.raises(RedisAway):
            await log.write()
        log.add(failure(), "s-1")
    shelf.is_away = False
    await log.write()
    assert [one.count for one in shelf.kept] == [2]
    await log.write()
    assert shelf.sizes == [1]


async def test_a_thousand_failures_are_recorded_at_once_then_fifty_a_second_and_the_rest_counted() -> None:
    shelf, now_s = Shelf(), 100.0
    log = FailureLog(cast("Any", shelf), 100, 60_000, lambda: now_s)
    with capture_logs():
        for number in range(1_250):
            log.add(failure(node_id=f"n{number}"), "s-1")
    await log.write()
    # Two hundred kinds have a count of their own.
    assert shelf.sizes == [200] * 5 + [201]
    counted = shelf.kept[1_000:]
    assert {one.code: one.count for one in counted if one.code == "other"} == {"other": 50}
    now_s += 1
    with capture_logs():
        for _ in range(60):
            log.add(failure(), "s-1")
    await log.write()
    assert shelf.sizes[6:] == [50, 1]
    assert shelf.kept[-1].count == 10
