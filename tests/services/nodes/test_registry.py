"""Who may register, and what becomes of a former connection."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lingua_scheduler.domain.jobs.attempts import ADOPTED, Attempt
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.nodes import registry as registering
from lingua_scheduler.services.nodes.holders import Holders
from lingua_scheduler.store.nodes.owners import Holder
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.node import LanguageCapabilities
from tests.support.connected import Ear, connected_to, refused, registered, registration
from tests.support.fleet import POOL, entry, join

ELSEWHERE = Owner("i-there", "c9")


async def test_a_node_that_registered_is_in_redis_in_its_pools_and_held_by_its_connection(store: Store) -> None:
    connected = connected_to(store)
    link = await registered(connected)
    assert connected.links.find("n1") is link
    assert POOL in link.serves
    holder = await store.owners.holder("n1")
    assert holder is not None
    assert holder.owner == link.owner == ("i-here", "c1")
    assert await store.line.call("SISMEMBER", store.keys.shard(0).pool(POOL), "n1")


async def test_a_node_without_an_id_is_given_one(store: Store) -> None:
    link = await registered(connected_to(store), node_id=None)
    assert link.node_id.startswith("node-")


@pytest.mark.parametrize("node_id", ["two words", "#", "a" * 65, "ü"])
async def test_an_id_that_cannot_be_part_of_a_key_is_refused(store: Store, node_id: str) -> None:
    assert (await refused(connected_to(store), node_id=node_id)).code is ErrorCode.INVALID_MESSAGE


async def test_a_namesake_is_refused_while_the_first_one_answers_and_takes_its_place_when_it_does_not(
    store: Store,
) -> None:
    connected = connected_to(store)
    silent = Ear(answers=False)
    await registered(connected, Ear(), "c1")
    assert (await refused(connected, "c2")).code is ErrorCode.NODE_ID_CONFLICT
    await registered(connected, silent, "c3", node_id="n2")
    second = await registered(connected, Ear(), "c4", node_id="n2")
    assert silent.closed == [CloseCode.SUPERSEDED]
    assert connected.links.find("n2") is second


async def test_more_nodes_than_the_instance_takes_are_refused_but_not_those_that_come_back(store: Store) -> None:
    connected = connected_to(store, server__max_nodes=1)
    link = await registered(connected, Ear())
    assert (await refused(connected, "c2", node_id="n2")).code is ErrorCode.NODE_UNAVAILABLE
    assert (await registered(connected, link.peer)).node_id == "n1"


async def test_a_fleet_without_room_refuses_and_says_how_many_it_takes(store: Store) -> None:
    connected = connected_to(store, pools__shard_size=1, pools__max_shards=1)
    await registered(connected)
    refusal = await refused(connected, "c2", node_id="n2")
    assert refusal.code is ErrorCode.NODE_UNAVAILABLE
    assert "1 nodes" in refusal.message


class Holding:
    """What other instances say of a node: whether it answers there. Keeps who was told that it is here now."""

    def __init__(self, is_there: bool) -> None:
        self._is_there = is_there
        self.told: list[tuple[Owner, str]] = []

    async def is_there(self, _owner: Owner, _node_id: str) -> bool:
        return self._is_there

    def superseded(self, owner: Owner, node_id: str) -> None:
        self.told.append((owner, node_id))


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_node_connected_at_another_instance_keeps_its_id_while_it_answers_there(
    store: Store, is_there: bool
) -> None:
    await join(store, entry("n1", boot_id="b1"), ELSEWHERE)
    connected, holding = connected_to(store), Holding(is_there)
    connected.registry._holders = cast("Holders", cast("Any", holding))
    if is_there:
        assert (await refused(connected)).code is ErrorCode.NODE_ID_CONFLICT
        assert holding.told == []
    # The same process may come back at any time.
    await registered(connected, boot_id="b1" if is_there else "b2")
    assert holding.told == [(ELSEWHERE, "n1")]


@pytest.mark.parametrize(("owner", "asks"), [(Owner("i-here", "c-former"), True), (ELSEWHERE, False)])
async def test_no_other_instance_is_asked_about_a_node_of_this_one_or_if_none_can_be_asked(
    store: Store, owner: Owner, asks: bool
) -> None:
    """Redis may remember a connection of a former life of this instance."""
    await join(store, entry("n1", boot_id="b1"), owner)
    connected = connected_to(store)
    connected.registry._holders = cast("Holders", cast("Any", Holding(is_there=True))) if asks else None
    assert (await registered(connected, boot_id="b2")).owner == Owner("i-here", "c1")


async def test_a_node_whose_other_process_is_here_is_refused_though_redis_has_forgotten_it(store: Store) -> None:
    connected = connected_to(store)
    await registered(connected, Ear(), "c1", boot_id="b1")
    await store.line.call("FLUSHALL")
    assert (await refused(connected, "c2", boot_id="b2")).code is ErrorCode.NODE_ID_CONFLICT
    assert (await registered(connected, Ear(), "c3", boot_id="b1")).owner.link == "c3"


async def test_a_node_that_somebody_else_registered_meanwhile_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = connected_to(store)
    holder = store.owners.holder

    async def quicker(node_id: str) -> Holder | None:
        before = await holder(node_id)
        await join(store, entry(node_id), ELSEWHERE)
        return before

    monkeypatch.setattr(store.owners, "holder", quicker)
    assert (await refused(connected)).code is ErrorCode.NODE_ID_CONFLICT
    assert connected.links.find("n1") is None


async def test_what_a_node_was_sent_on_its_former_connection_is_known_on_the_next(store: Store) -> None:
    connected = connected_to(store)
    former = await registered(connected, Ear(), boot_id="b1")
    former.remember(Attempt("job-0-a", 1, "n1", 0))
    link = await registered(connected, Ear(), "c2", boot_id="b1", running_job_ids=["job-0-b", "no job"])
    assert set(link.sent) == {"job-0-a", "job-0-b"}
    assert link.sent is former.sent
    assert link.sent["job-0-b"][0] == Attempt("job-0-b", ADOPTED, "n1", 0)


async def test_registering_again_on_one_connection_begins_no_new_allowance(store: Store) -> None:
    connected, socket = connected_to(store), Ear()
    first = await registered(connected, socket)
    again = await registered(connected, socket)
    assert again.pace is first.pace
    assert socket.closed == []
    assert (await registered(connected, Ear(answers=False), "c2", node_id="n2")).pace is not first.pace


async def test_a_node_says_how_often_it_beats_or_is_given_the_usual_time(store: Store) -> None:
    connected = connected_to(store, job__timeout_max_ms=90_000)
    usual, own = await registered(connected), await registered(connected, node_id="n2", heartbeat_interval_ms=2_000)
    assert (usual.alive_ms, usual.tells_interval) == (45_000, False)
    assert (own.alive_ms, own.tells_interval) == (6_000, True)
    assert usual.run_max_s == 90.0


async def test_a_fleet_that_comes_back_at_once_is_let_in_portion_by_portion(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = connected_to(store, server__max_registrations_per_s=1, server__max_nodes=2)
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(registering, "asyncio", SimpleNamespace(sleep=pause))
    monkeypatch.setattr(connected.registry, "_clock", lambda: 0.0)
    await registered(connected, Ear())
    assert pauses == []
    await registered(connected, Ear())
    assert pauses == [1.0]
    gone = Ear()
    gone.is_open = False
    refusal = await connected.registry.register(gone, "c1", registration("n1"))
    assert isinstance(refusal, Refusal)
    assert "disconnected" in refusal.message
    await registered(connected, Ear())
    assert pauses == [1.0, 2.0, 3.0]
    # More wait than there is room for; and who is refused keeps nobody else waiting.
    for _ in range(2):
        assert "too many" in (await refused(connected)).message
    assert pauses == [1.0, 2.0, 3.0]
    assert connected.registry._entering == 0


async def test_capabilities_that_are_too_long_are_refused(store: Store) -> None:
    endless = LanguageCapabilities(asr_languages=[f"x{number}" for number in range(100_000)])
    refusal = await refused(connected_to(store), language_capabilities=endless)
    assert refusal.code is ErrorCode.INVALID_CAPABILITY_SCHEMA
