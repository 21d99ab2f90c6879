"""What a dead instance leaves behind is cleaned up by the others."""

from collections.abc import Awaitable, Callable

import pytest

from lingua_scheduler.domain.cluster.instances import Instance
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.services.attempts.reports import LostAttempt
from lingua_scheduler.services.recovery.dead_instances import DeadInstances
from lingua_scheduler.store.jobs.jobs import JobNote
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.losses import Loss
from tests.support.fleet import HERE, POOL, dispatch, entry, join, order
from tests.support.recovering import Parts
from tests.support.speech import work

Look = Callable[..., Awaitable[None]]


@pytest.fixture
def parts(store: Store) -> Parts:
    return Parts(store)


@pytest.fixture
async def look(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> Look:
    """A look at the instances at which these are dead."""
    await parts.presence.join()
    one = (await parts.presence.look())["i-here"]
    watch = DeadInstances(parts.presence, parts.sweeper, parts.endings)

    async def look(*dead: str) -> None:
        async def found() -> list[Instance]:
            return [one._replace(instance_id=name, silent_ms=60_000) for name in dead]

        monkeypatch.setattr(parts.presence, "dead", found)
        await watch.look()

    return look


async def test_nodes_and_waiting_jobs_of_a_dead_instance_go_and_others_stay(store: Store, look: Look) -> None:
    await join(store, entry("theirs"), Owner("i-dead", "c1"))
    await join(store, entry("ours"), HERE)
    for owner in ("i-dead", "i-here"):
        await store.jobs.note(0, JobNote(f"job-0-{owner}", (POOL,), "s", 0, owner), 60_000)
    await look("i-dead")
    assert await store.owners.known(0) == {"ours"}
    states = [(await store.jobs.read(0, f"job-0-{owner}"))["state"] for owner in ("i-dead", "i-here")]
    assert states == ["FAILED", "CREATED"]


async def test_an_instance_that_counts_as_dead_itself_keeps_its_nodes(store: Store, look: Look) -> None:
    """It finds out with its next heartbeat, and comes back."""
    await join(store, entry("ours"), HERE)
    await look("i-here")
    assert await store.owners.known(0) == {"ours"}


async def test_a_result_of_a_dead_instance_counts_as_lost_at_the_second_look(
    store: Store, parts: Parts, look: Look
) -> None:
    """At the first one its letter may still be in our inbox."""
    joined = await join(store, entry("n1", max_jobs=4))
    first, second = [
        parts.assignments.open((await dispatch(store, order(serial)))[0], work(), holder)
        for serial, holder in enumerate(("i-dead", "i-late"))
    ]
    for one in (first, second):
        await store.jobs.end(one.attempt, joined.epoch, JobEvent.FINISH)
    await look("i-dead")
    assert (first.report, second.report) == (None, None)
    await look("i-dead", "i-late")
    assert (first.report, second.report) == (LostAttempt(Loss.RESULT_LOST), None)
    await look()  # it came back
    await look("i-late")
    assert second.report is None
    await look("i-late")
    assert second.report == LostAttempt(Loss.RESULT_LOST)
