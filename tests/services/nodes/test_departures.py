"""How nodes leave, and what is told of it."""

from types import SimpleNamespace
from typing import Any

import pytest

from lingua_scheduler.domain.nodes.nodes import DrainOutcome, ReleaseOutcome
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.domain.nodes.places import Place
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.nodes.connected import ConnectedNodes
from lingua_scheduler.services.nodes.links import NodeLink
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.losses import Loss
from tests.support.connected import Ear, connected_to, registered
from tests.support.fleet import dispatch, entry, ledger, order

# As plain values: a limit that changes is noticed.
GOODBYE_S = 60.0


def hearing(connected: ConnectedNodes) -> list[Any]:
    """What is told of departures from now on: that the map changed, and which attempts were lost and why."""
    told: list[Any] = []

    async def end_overdue(attempts: list[Any], reason: str) -> None:
        told.append((attempts, reason))

    departures: Any = connected.departures
    departures._pool_map.changed = lambda: told.append("map changed")
    departures._endings.end_overdue = end_overdue
    return told


async def test_a_node_whose_socket_closed_leaves_nothing_behind(store: Store) -> None:
    connected = connected_to(store)
    link = await registered(connected)
    await connected.departures.gone(link)
    assert len(connected.links) == 0
    assert await store.node_views.all() == []
    assert await store.placements.all() == {}


async def test_the_cleanup_of_a_former_connection_takes_nothing_from_the_latest(store: Store) -> None:
    connected = connected_to(store)
    former = await registered(connected, Ear(answers=False), "c1")
    latest = await registered(connected, Ear(), "c2")
    await connected.departures.gone(former)
    assert connected.links.find("n1") is latest
    assert [view.owner.owner for view in await store.node_views.all()] == [latest.owner]


async def test_only_a_node_that_took_no_more_work_said_goodbye(store: Store) -> None:
    connected = connected_to(store)
    for node_id, takes_jobs in (("n1", True), ("n2", False)):
        link = await registered(connected, node_id=node_id)
        link.profile = link.profile._replace(takes_jobs=takes_jobs)
        await connected.departures.gone(link)
    assert connected.departures.goodbyes == ["n2"]


async def test_an_evicted_node_is_out_and_its_connection_closed(store: Store) -> None:
    connected, peer = connected_to(store), Ear()
    await registered(connected, peer)
    assert await connected.departures.evict("n1") == []
    assert peer.closed == [CloseCode.COME_BACK]
    assert await store.node_views.all() == []
    assert await connected.departures.evict("n1") is None


async def test_a_node_held_elsewhere_is_evicted_from_redis(store: Store) -> None:
    connected = connected_to(store)
    _, place = await store.placements.assign("far", 100, 1_000)
    await store.nodes.register(place.shard, Owner("i-elsewhere", "c9"), entry("far"))
    assert await connected.departures.evict("far") == []
    assert await store.node_views.all() == []


async def test_an_orphan_goes_unless_it_came_back_to_another_connection(store: Store) -> None:
    connected = connected_to(store)
    await registered(connected)
    await connected.departures.remove_orphan(0, "n1", Owner("i-dead", "c1"))
    assert len(await store.node_views.all()) == 1
    await connected.departures.remove_orphan(0, "n1", Owner("i-here", "c1"))
    assert await store.node_views.all() == []


async def test_a_drained_node_serves_nobody_until_it_is_resumed(store: Store) -> None:
    connected = connected_to(store)
    await registered(connected)
    assert await connected.departures.drain("n1") == (DrainOutcome.DRAINED, 0)
    assert (await connected.departures.drain("n1", resume=True))[0] is DrainOutcome.RESUMED


async def test_who_evicts_a_node_is_told_which_attempts_were_lost_with_it(store: Store) -> None:
    connected = connected_to(store)
    await registered(connected, Ear())
    attempt, _ = await dispatch(store, order(1))
    assert await connected.departures.evict("n1") == [attempt]
    assert await ledger(store, "n1") == (0, None, 0)


async def test_the_attempts_of_a_node_that_left_go_elsewhere_and_the_map_is_looked_at_again(store: Store) -> None:
    connected = connected_to(store)
    link = await registered(connected)
    attempt, _ = await dispatch(store, order(1))
    told = hearing(connected)
    await connected.departures.gone(link)
    assert told == ["map changed", ([attempt], Loss.NODE_GONE)]


@pytest.mark.parametrize("is_reply_lost", [True, False])
async def test_a_departure_that_redis_could_not_be_told_of_is_told_when_it_is_back(
    is_reply_lost: bool, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = connected_to(store)
    link, other = await registered(connected), await registered(connected, node_id="n2", link_id="c2")
    remove = store.nodes.remove

    async def fail(*about: Any, **more: Any) -> None:
        if is_reply_lost:
            await remove(*about, **more)
        raise RedisAway("nobody there")

    monkeypatch.setattr(store.nodes, "remove", fail)
    await connected.departures.gone(link)
    await connected.departures.remove_left_behind()
    assert set(await store.placements.all()) == {"n1", "n2"}
    monkeypatch.setattr(store.nodes, "remove", remove)
    await connected.departures.remove_left_behind()
    assert [view.node_id for view in await store.node_views.all()] == [other.node_id]
    assert set(await store.placements.all()) == {"n2"}


async def test_a_node_that_is_back_before_its_departure_is_told_stays(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = connected_to(store)
    link = await registered(connected, link_id="c1")

    async def fail(*_: object, **__: object) -> None:
        raise RedisAway("nobody there")

    with monkeypatch.context() as away:
        away.setattr(store.nodes, "remove", fail)
        await connected.departures.gone(link)
    latest = await registered(connected, link_id="c2")
    await connected.departures.remove_left_behind()
    assert [view.owner.owner for view in await store.node_views.all()] == [latest.owner]
    assert set(await store.placements.all()) == {"n1"}


async def test_a_node_that_is_back_as_soon_as_its_departure_is_told_keeps_its_place(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = connected_to(store)
    link = await registered(connected, link_id="c1")

    async def fail(*_: object, **__: object) -> None:
        raise RedisAway("nobody there")

    with monkeypatch.context() as away:
        away.setattr(store.nodes, "remove", fail)
        await connected.departures.gone(link)
    release, back = store.placements.release, list[NodeLink]()

    async def release_and_return(node_id: str, place: Place) -> None:
        await release(node_id, place)
        if not back:
            back.append(await registered(connected, link_id="c2"))

    monkeypatch.setattr(store.placements, "release", release_and_return)
    await connected.departures.remove_left_behind()
    assert back[0].place == link.place
    assert set(await store.placements.all()) == {"n1"}


async def test_what_redis_cannot_be_told_of_a_departure_is_left_to_a_sweep(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = connected_to(store)
    link = await registered(connected)

    async def fail(*_: object, **__: object) -> None:
        raise RedisAway("nobody there")

    monkeypatch.setattr(store.nodes, "remove", fail)
    await connected.departures.gone(link)
    assert connected.links.find("n1") is None


async def test_a_node_that_has_jobs_is_not_sent_elsewhere(store: Store) -> None:
    connected, peer = connected_to(store), Ear()
    link = await registered(connected, peer)
    await dispatch(store, order(1))
    assert not await connected.departures.send_elsewhere(link, "balance")
    assert (connected.links.find("n1"), peer.closed, connected.departures.goodbyes) == (link, [], [])


async def test_an_idle_node_that_is_sent_elsewhere_leaves_nothing_behind(store: Store) -> None:
    connected, peer = connected_to(store), Ear()
    link = await registered(connected, peer)
    told = hearing(connected)
    assert await connected.departures.send_elsewhere(link, "balance")
    assert (connected.links.find("n1"), peer.closed) == (None, [CloseCode.COME_BACK])
    assert (told, connected.departures.goodbyes) == (["map changed"], ["n1"])
    assert await store.placements.all() == {}
    assert await store.node_views.all() == []


async def test_goodbyes_are_forgotten_after_a_minute(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    connected = connected_to(store)
    now_s = 100.0
    monkeypatch.setattr(connected.departures, "_clock", lambda: now_s)
    await connected.departures.send_elsewhere(await registered(connected, Ear()), "balance")
    now_s += GOODBYE_S - 1
    assert connected.departures.goodbyes == ["n1"]
    now_s += 1
    assert connected.departures.goodbyes == []


async def test_a_node_that_comes_here_while_it_is_evicted_loses_its_connection_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected, peer = connected_to(store), Ear()
    find = store.placements.find

    async def meanwhile(node_id: str) -> Any:
        monkeypatch.setattr(store.placements, "find", find)
        await registered(connected, peer)
        return await find(node_id)

    monkeypatch.setattr(store.placements, "find", meanwhile)
    assert await connected.departures.evict("n1") == []
    assert peer.closed == [CloseCode.COME_BACK]


async def test_the_instance_that_holds_an_evicted_node_is_asked_to_close_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected, asked = connected_to(store), list[tuple[Owner, str]]()

    class Asked:
        async def evict(self, owner: Owner, node_id: str) -> None:
            asked.append((owner, node_id))

    monkeypatch.setattr(connected.departures, "_holders", Asked())
    for node_id, owner in (("far", Owner("i-elsewhere", "c9")), ("near", Owner("i-here", "c8"))):
        _, place = await store.placements.assign(node_id, 100, 1_000)
        await store.nodes.register(place.shard, owner, entry(node_id))
        await connected.departures.evict(node_id)
    assert asked == [(Owner("i-elsewhere", "c9"), "far")]


async def test_a_node_whose_time_is_up_is_removed_and_one_in_time_is_not(store: Store) -> None:
    connected = connected_to(store)
    await registered(connected)
    told = hearing(connected)
    await connected.departures.remove_overdue(0, "n1")
    assert (told, len(await store.node_views.all())) == ([], 1)
    await store.line.call("ZADD", store.keys.shard(0).seen, 1, "n1")
    await connected.departures.remove_overdue(0, "n1")
    assert told == ["map changed", ([], Loss.NODE_SILENT)]
    assert await store.placements.all() == {}


async def test_the_attempts_of_an_orphan_are_lost_with_its_instance(store: Store) -> None:
    connected = connected_to(store)
    link = await registered(connected)
    attempt, _ = await dispatch(store, order(1))
    told = hearing(connected)
    await connected.departures.remove_orphan(0, "n1", link.owner)
    assert told == ["map changed", ([attempt], Loss.INSTANCE_GONE)]


async def test_draining_and_resuming_change_the_map(store: Store) -> None:
    connected = connected_to(store)
    await registered(connected)
    told = hearing(connected)
    await connected.departures.drain("n1")
    assert told == ["map changed"]


async def test_a_quarantine_is_ended(store: Store) -> None:
    connected = connected_to(store)
    await registered(connected)
    assert await connected.departures.release("nobody") is not ReleaseOutcome.RELEASED
    await store.line.call("ZADD", store.keys.shard(0).sick, 9_999_999_999_999, "n1")
    assert await connected.departures.release("n1") is ReleaseOutcome.RELEASED


async def test_members_of_a_pool_are_counted_in_all_shards(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    departures = connected_to(store).departures
    pool_map = SimpleNamespace(map=SimpleNamespace(counts={"en:zh:speech": {0: 2, 3: 1}}))
    monkeypatch.setattr(departures, "_pool_map", pool_map)
    assert (departures.members_of("en:zh:speech"), departures.members_of("en:fr:speech")) == (3, 0)


@pytest.mark.parametrize("shard", [None, 3])
async def test_a_node_whose_time_is_up_goes_also_where_it_is_not_placed(store: Store, shard: int | None) -> None:
    """Its placement is lost, or it has come back in another shard meanwhile; that one is not touched."""
    connected = connected_to(store)
    link = await registered(connected)
    await store.line.call("ZADD", store.keys.shard(0).seen, 1, "n1")
    find = Place(shard) if shard is not None else None
    released: list[Place] = []

    async def found(_node_id: str) -> Place | None:
        return find

    async def release(_node_id: str, place: Place) -> None:
        released.append(place)

    departures: Any = connected.departures
    departures._placements = SimpleNamespace(find=found, release=release)
    await departures.remove_overdue(0, link.node_id)
    assert await store.node_views.all() == []
    assert released == [Place(0)]


@pytest.mark.parametrize("way", ["its socket closed", "it was evicted", "it was sent elsewhere"])
async def test_a_drained_node_that_connects_again_takes_no_jobs(store: Store, way: str) -> None:
    connected = connected_to(store)
    link = await registered(connected, Ear(), boot_id="b1")
    await connected.departures.drain("n1")
    match way:
        case "its socket closed":
            await connected.departures.gone(link)
        case "it was evicted":
            await connected.departures.evict("n1")
        case _:
            assert await connected.departures.send_elsewhere(link, "to spread nodes")
    assert not await store.node_views.all()
    await registered(connected, Ear(), link_id="c2", boot_id="b1")
    assert [(view.state, view.pools) for view in await store.node_views.all()] == [("draining", ())]
    await connected.departures.drain("n1", resume=True)
    assert [view.state for view in await store.node_views.all()] == ["ready"]
