"""Writing nodes into Redis: as new, as changed, and again after Redis has lost them."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from lingua_scheduler.domain.jobs.attempts import ADOPTED, Attempt
from lingua_scheduler.domain.nodes.nodes import BeatOutcome, MachineLoad
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.nodes.connected import ConnectedNodes
from lingua_scheduler.services.nodes.links import NodeLink
from lingua_scheduler.services.nodes.node_writer import NodeWriter
from lingua_scheduler.store.store import Store
from tests.support.connected import Ear, connected_to, registered
from tests.support.fleet import POOL, dispatch, entry, join, ledger, order

ELSEWHERE = Owner("i-there", "c9")


@pytest.fixture
def connected(store: Store) -> ConnectedNodes:
    return connected_to(store)


def writer_of(connected: ConnectedNodes) -> NodeWriter:
    return connected.heartbeats._writer


def changed(link: NodeLink, **changes: Any) -> None:
    link.profile = link.profile._replace(**changes)


async def lose_all(store: Store) -> None:
    await store.line.call("FLUSHALL")


async def is_in_pool(store: Store) -> bool:
    return bool(await store.line.call("SISMEMBER", store.keys.shard(0).pool(POOL), "n1"))


async def test_a_beat_says_what_has_changed_since_the_last_one_and_nothing_else(
    store: Store, connected: ConnectedNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, writer = await registered(connected), writer_of(connected)
    news: list[tuple[bool, int | None]] = []
    beat = store.nodes.beat

    def watched(shard: int, owner: Owner, node_id: str, alive_ms: int, look: str, queue: int | None) -> Any:
        news.append((bool(look), queue))
        return beat(shard, owner, node_id, alive_ms, look, queue)

    monkeypatch.setattr(store.nodes, "beat", watched)
    before_s = link.beaten_at_s
    for queue, load in ((0, None), (0, None), (3, None), (3, None), (3, MachineLoad(cpu=50, memory=50)), (3, None)):
        link.queue, link.load = queue, load or link.load
        assert await writer.beat(link) is BeatOutcome.ALIVE
    assert news == [(False, 0), (False, None), (False, 3), (False, None), (True, None), (False, None)]
    assert link.beaten_at_s > before_s


async def test_a_change_is_written_with_the_next_beat_and_once(
    store: Store, connected: ConnectedNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, writer = await registered(connected), writer_of(connected)
    changed(link, takes_jobs=False)
    assert await writer.beat(link) is BeatOutcome.ALIVE
    assert (link.pools, link.serves) == (frozenset(), frozenset())
    assert not await is_in_pool(store)

    def fail(*_: object) -> None:
        raise AssertionError("nothing has changed since")

    monkeypatch.setattr(store.nodes, "update", fail)
    assert await writer.beat(link) is BeatOutcome.ALIVE


async def test_an_overloaded_node_stays_in_its_pools_and_gets_no_work(store: Store, connected: ConnectedNodes) -> None:
    link = await registered(connected)
    changed(link, is_overloaded=True)
    await writer_of(connected).beat(link)
    assert await is_in_pool(store)
    assert await ledger(store, "n1") == (0, None, 0)


async def test_a_node_that_redis_lost_is_written_again_by_its_beat_with_what_it_runs(
    store: Store, connected: ConnectedNodes
) -> None:
    link = await registered(connected)
    link.remember(Attempt("job-0-a", 1, "n1", 0))
    await lose_all(store)
    with capture_logs() as logged:
        assert await writer_of(connected).beat(link) is BeatOutcome.ALIVE
    assert await is_in_pool(store)
    assert await ledger(store, "n1") == (1, 3, 1)
    assert link.sent["job-0-a"][0].number == ADOPTED
    assert [(entry["event"], entry["adopted"]) for entry in logged] == [("leases.adopted", 1)]
    # Its queue is not known there any more.
    assert link.written_queue is None


async def test_a_node_that_redis_lost_is_written_again_by_its_change(store: Store, connected: ConnectedNodes) -> None:
    link = await registered(connected)
    await lose_all(store)
    changed(link, max_jobs=7)
    assert await writer_of(connected).update(link) is BeatOutcome.ALIVE
    assert await ledger(store, "n1") == (0, 7, 0)
    assert link.written_profile is link.profile


@pytest.mark.parametrize("verb", ["beat", "update"])
async def test_a_node_that_was_evicted_does_not_write_itself_back(
    store: Store, connected: ConnectedNodes, verb: str
) -> None:
    link = await registered(connected)
    await lose_all(store)
    connected.links.drop(link)
    assert await getattr(writer_of(connected), verb)(link) is BeatOutcome.GONE
    assert not await is_in_pool(store)


@pytest.mark.parametrize("verb", ["beat", "update", "restore"])
async def test_a_connection_that_another_one_superseded_is_closed(
    store: Store, connected: ConnectedNodes, verb: str
) -> None:
    socket = Ear()
    link = await registered(connected, socket)
    epoch = link.epoch
    await join(store, entry("n1"), ELSEWHERE, over=link.owner)
    assert await getattr(writer_of(connected), verb)(link) is BeatOutcome.SUPERSEDED
    assert socket.closed == [CloseCode.SUPERSEDED]
    assert link.epoch == epoch
    holder = await store.owners.holder("n1")
    assert holder is not None
    assert holder.owner == ELSEWHERE


async def test_what_redis_believed_of_a_node_is_written_again_when_it_is_lost(
    store: Store, connected: ConnectedNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, writer = await registered(connected), writer_of(connected)
    link.trust = "2 0"
    updates: list[NodeLink] = []
    update = writer.update

    async def watched(of: NodeLink) -> BeatOutcome:
        updates.append(of)
        return await update(of)

    monkeypatch.setattr(writer, "update", watched)

    async def beat(*_: object) -> tuple[BeatOutcome, str]:
        return BeatOutcome.ALIVE, said

    monkeypatch.setattr(store.nodes, "beat", beat)
    said = "3 0"
    assert await writer.beat(link) is BeatOutcome.ALIVE
    assert (link.trust, updates) == ("3 0", [])
    said = ""
    assert await writer.beat(link) is BeatOutcome.ALIVE
    assert (link.trust, updates) == ("3 0", [link])
    assert writer._entry(link).trust == "3 0"


async def test_a_new_map_is_due_whenever_a_node_was_written(store: Store, connected: ConnectedNodes) -> None:
    writer = writer_of(connected)
    changes = [0]
    writer._pool_map.changed = lambda: changes.append(changes[-1] + 1)  # type: ignore[method-assign]
    link = await registered(connected)
    assert len(changes) == 2
    await writer.update(link)
    assert len(changes) == 3
    await writer.restore(link)
    assert len(changes) == 4


async def test_what_a_former_process_of_a_node_ran_is_lost_when_the_node_registers_again(
    store: Store, connected: ConnectedNodes
) -> None:
    await registered(connected, Ear(answers=False), boot_id="b1")
    attempt, _ = await dispatch(store, order(1))
    assert await ledger(store, "n1") == (1, 3, 1)
    await registered(connected, link_id="c2", boot_id="b2")
    assert await ledger(store, "n1") == (0, 4, 0)
    assert (await store.jobs.read(0, attempt.job_id))["state"] == "RETRYING"
