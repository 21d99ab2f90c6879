"""What Redis keeps of a job that is over here is ended when Redis is back: slots are freed, records are closed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from lingua_scheduler.domain.jobs.attempts import Attempt, Try
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.services.dispatch import leftovers as module
from lingua_scheduler.services.dispatch.leftovers import CONTINUED, Leftovers
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.jobs import JobNote
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.errors import ErrorCode
from tests.support.fleet import POOL, dispatch, entry, join, ledger, order
from tests.support.schedulers import settings_with
from tests.support.waiting import until

DOWN = ErrorCode.SCHEDULER_DEPENDENCY_DOWN.value
DETAIL = "Redis is away"


class Runner:
    """Frees slots in Redis, and keeps which."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.freed: list[Attempt] = []

    async def free(self, attempt: Attempt) -> None:
        self.freed.append(attempt)
        await self._store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, "send_failed")


class Place:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.now_s = 0.0
        self.runner = Runner(store)
        settings = settings_with(job__timeout_max_ms=40_000, job__keep_ms=70_000).job
        self.leftovers = Leftovers(store, self.runner, settings, lambda: self.now_s)  # type: ignore[arg-type]

    async def done(self) -> None:
        await until(lambda: not len(self.leftovers.tasks))

    async def states(self) -> dict[str, tuple[str, str]]:
        return {one.job_id: (one.state, one.reason) for one in await self.store.jobs.latest()}


@pytest.fixture
async def place(store: Store) -> AsyncIterator[Place]:
    await join(store, entry("n1", max_jobs=2))
    found = Place(store)
    yield found
    await found.leftovers.tasks.close()


def note_of(wanted: Try) -> JobNote:
    return JobNote(wanted.job_id, (POOL,), "s-1", 3, "i-here", error=DOWN, detail=DETAIL)


async def test_a_job_that_redis_began_for_a_caller_that_is_gone_is_closed_and_its_slot_freed(place: Place) -> None:
    begun = order(1)
    await dispatch(place.store, begun)
    wanted = Try(1, begun.job_id.split("-", 2)[2], 1_000, doubtful=(0, 0))
    place.leftovers.close(wanted, JobEvent.FAIL, DETAIL, note_of)
    assert (wanted.job_id, wanted.doubtful) == (begun.job_id, ())
    await place.done()
    assert await place.states() == {begun.job_id: ("FAILED", DETAIL)}
    assert await ledger(place.store, "n1") == (0, 2, 0)


async def test_a_job_that_redis_may_have_begun_and_did_not_is_written_down_as_failed(place: Place) -> None:
    wanted = Try(1, "w", 1_000, doubtful=(0,))
    place.leftovers.close(wanted, JobEvent.FAIL, DETAIL, note_of)
    await place.done()
    assert await place.states() == {"job-0-w": ("FAILED", DOWN)}


async def test_a_job_that_waited_for_its_first_attempt_is_written_down_as_failed(place: Place) -> None:
    wanted = Try(1, "w", 1_000)
    wanted.begin_in(0)
    await place.store.jobs.note(0, JobNote("job-0-w", (POOL,), "s-1", 3, "i-here"), 60_000)
    place.leftovers.close(wanted, JobEvent.FAIL, DETAIL, note_of)
    await place.done()
    assert await place.states() == {"job-0-w": ("FAILED", DOWN)}


async def test_a_job_that_redis_cannot_have_begun_has_no_id_and_costs_nothing(place: Place) -> None:
    wanted = Try(1, "w", 1_000)
    place.leftovers.close(wanted, JobEvent.FAIL, DETAIL, note_of)
    assert (wanted.job_id, len(place.leftovers.tasks)) == ("", 0)


@pytest.mark.parametrize("is_ended", [True, False])
async def test_a_job_whose_last_attempt_was_lost_is_closed(place: Place, is_ended: bool) -> None:
    """Redis may not know yet that the attempt was lost."""
    begun = order(1)
    await dispatch(place.store, begun)
    attempt = Attempt(begun.job_id, 1, "n1", 0)
    if is_ended:
        await place.store.jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, "node_gone")
    wanted = Try(2, "w", 1_000, job_id=begun.job_id, shard=0)
    place.leftovers.close(wanted, JobEvent.FAIL, DETAIL, note_of)
    await place.done()
    assert await place.states() == {begun.job_id: ("FAILED", DETAIL)}
    assert place.runner.freed == ([] if is_ended else [attempt])


async def test_a_job_that_was_placed_elsewhere_leaves_no_open_record_under_another_id(place: Place) -> None:
    begun = order(1)
    await dispatch(place.store, begun)
    serial = begun.job_id.split("-", 2)[2]
    wanted = Try(1, serial, 1_000, doubtful=(0, 1))
    place.leftovers.let_go(wanted, Attempt(f"job-1-{serial}", 1, "n2", 1))
    assert len(place.leftovers.tasks) == 1
    await place.done()
    assert await place.states() == {begun.job_id: ("CANCELLED", CONTINUED)}


@pytest.mark.parametrize(
    ("record", "is_freed"),
    [
        ({"state": "DISPATCHED", "attempt": "2", "node": "n7"}, True),
        ({"state": "DISPATCHED", "attempt": "3", "node": "n7"}, False),
        ({"state": "RETRYING", "attempt": "2", "node": "n7"}, False),
        ({}, False),
    ],
)
async def test_only_the_slot_that_was_leased_for_that_attempt_is_freed(
    place: Place, monkeypatch: pytest.MonkeyPatch, record: dict[str, str], is_freed: bool
) -> None:
    async def read(_shard: int, _job_id: str) -> dict[str, str]:
        return record

    monkeypatch.setattr(place.store.jobs, "read", read)
    place.leftovers.let_go(Try(2, "1", 1_000, job_id="job-4-1", shard=4, doubtful=(4,)))
    await place.done()
    assert place.runner.freed == ([Attempt("job-4-1", 2, "n7", 4)] if is_freed else [])


async def test_a_slot_is_freed_while_it_is_leased_and_a_record_closed_while_it_is_kept(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience: list[float] = []

    async def insist(_call: object, timeout_s: float) -> None:
        patience.append(timeout_s)
        raise RedisAway("it did not come back")

    monkeypatch.setattr(place.store, "insist", insist)
    place.leftovers.let_go(Try(1, "a", 1_000, doubtful=(0,)))
    place.leftovers.close(Try(1, "b", 1_000, doubtful=(0,)), JobEvent.FAIL, DETAIL, note_of)
    await place.done()
    assert sorted(patience) == [40.0, 70.0]


async def test_only_so_many_jobs_wait_to_be_closed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 1)
    for serial in ("a", "b"):
        place.leftovers.close(Try(1, serial, 1_000, doubtful=(0,)), JobEvent.FAIL, DETAIL, note_of)
    place.leftovers.let_go(Try(1, "c", 1_000, doubtful=(0,)))
    assert len(place.leftovers.tasks) == 1
    await place.done()
    assert list(await place.states()) == ["job-0-a"]


class Outage:
    """Stands for Redis while it is away: who asks it waits, until it is back."""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()
        self.asking: Counter[int] = Counter()
        self.most: Counter[int] = Counter()
        self.patience: list[float] = []

    async def read(self, shard: int, _job_id: str) -> dict[str, str]:
        self.asking[shard] += 1
        self.most |= self.asking
        await asyncio.sleep(0)
        self.asking[shard] -= 1
        return {}

    async def insist(self, call: Callable[[], Awaitable[None]], timeout_s: float) -> None:
        self.patience.append(timeout_s)
        await self.is_over.wait()
        await call()


@pytest.fixture
def outage(place: Place, monkeypatch: pytest.MonkeyPatch) -> Outage:
    found = Outage()
    monkeypatch.setattr(place.store.jobs, "read", found.read)
    monkeypatch.setattr(place.store, "insist", found.insist)
    return found


async def test_when_redis_is_back_only_a_few_ask_each_shard_at_a_time(place: Place, outage: Outage) -> None:
    """Live jobs would wait behind all others."""
    for serial in range(100):
        place.leftovers.close(Try(1, f"{serial}", 1_000, doubtful=(0, 1)), JobEvent.FAIL, DETAIL, note_of)
        place.leftovers.let_go(Try(1, f"x{serial}", 1_000, doubtful=(1,)))
    outage.is_over.set()
    await place.done()
    assert outage.most == {0: module.AT_ONCE, 1: module.AT_ONCE}


async def test_a_part_of_a_cluster_that_stays_away_does_not_hold_up_the_others(place: Place, outage: Outage) -> None:
    for serial in range(100):
        place.leftovers.let_go(Try(1, f"{serial}", 1_000, doubtful=(7,)))
    await until(lambda: len(outage.patience) == module.AT_ONCE)
    place.leftovers.let_go(Try(1, "x", 1_000, doubtful=(0,)))
    await until(lambda: len(outage.patience) == module.AT_ONCE + 1)


async def test_who_waits_for_others_has_no_more_time_for_it(place: Place, outage: Outage) -> None:
    """Or thousands would follow each other for hours, each as patient as the first."""
    for serial in range(module.AT_ONCE + 1):
        place.leftovers.let_go(Try(1, f"{serial}", 1_000, doubtful=(0,)))
    await until(lambda: len(outage.patience) == module.AT_ONCE)
    place.now_s = 50.0
    outage.is_over.set()
    await place.done()
    assert outage.patience == [40.0] * module.AT_ONCE + [-10.0]
