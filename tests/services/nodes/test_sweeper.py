"""What the sweep ends, and what stays taken."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.recovery import Recovery
from lingua_scheduler.services.nodes.registry import Registry
from lingua_scheduler.services.nodes.sweeper import Sweeper
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.fleet import RUN_MS, dispatch, entry, join, ledger, order
from tests.support.schedulers import settings_with
from tests.support.servers import RedisProcess

LINGER_MS = 9_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(server: RedisProcess, clock: Clock) -> AsyncIterator[Store]:
    opened = Store(server.url, key_prefix="test:v1", clock=clock, timeout_ms=30_000)
    await opened.open()
    yield opened
    await opened.close()


def sweeper(store: Store, registry: Any = None) -> Sweeper:
    recovery = Recovery("i-here", store.jobs, Assignments(lambda step, assignment: None))
    # No node is silent here, so nobody is asked to remove one.
    return Sweeper(store, registry, recovery, 0.0, 0.0, LINGER_MS)


async def test_a_slot_that_is_swept_stays_taken_while_its_node_may_be_at_it(store: Store, clock: Clock) -> None:
    await join(store, entry("tells", alive_ms=10 * RUN_MS)._replace(profile='{"reports_jobs":true}'))
    await join(store, entry("silent", alive_ms=10 * RUN_MS))
    for serial in range(4):
        await dispatch(store, order(serial))
    assert (await ledger(store, "tells"), await ledger(store, "silent")) == ((2, 0, 2), (2, 0, 2))
    sweeping = sweeper(store)
    await sweeping.sweep()
    clock.pass_ms(RUN_MS + 1)
    await sweep_at_the_new_time(sweeping)
    assert (await ledger(store, "tells"), await ledger(store, "silent")) == ((2, 0, 2), (0, 2, 0))
    assert (await store.jobs.read(0, "job-0-0"))["state"] == "RETRYING"
    clock.pass_ms(LINGER_MS + 1)
    await sweep_at_the_new_time(sweeping)
    assert await ledger(store, "tells") == (0, 2, 0)


async def test_a_repair_knows_the_shards_again_that_have_nodes_and_frees_a_wrong_place(store: Store) -> None:
    await join(store, entry("n1"))
    await store.line.call("HSET", store.keys.placement, "lost", "999 1")
    await store.line.call("DEL", store.keys.load, store.keys.room)
    nobodys = cast("Any", None)
    sweeping = sweeper(store, Registry("i-here", store.nodes, nobodys, nobodys, settings_with()))
    for placed in ({"n1", "lost"}, {"n1"}):
        await sweeping.repair()
        assert await store.nodes.shards() == [0]
        assert set(await store.nodes.placed()) == placed


async def sweep_at_the_new_time(sweeping: Sweeper) -> None:
    """The test moves the clock, which the sweep would take for a jump."""
    sweeping._drifts.clear()
    await sweeping.sweep()
