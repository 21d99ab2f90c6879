"""What a node reports while Redis is away is written when Redis is back."""

from typing import Any

import pytest

from lingua_scheduler.domain.nodes.nodes import BeatOutcome
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.nodes import heartbeats as module
from lingua_scheduler.services.nodes.connected import ConnectedNodes
from lingua_scheduler.services.nodes.pacing import Pace
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.node import LanguageCapabilities, NodeHeartbeat, ResourceUsage
from lingua_sdk.protocol.shapes import ErrorMessage
from tests.support.connected import ENGLISH_CHINESE, Ear, connected_to, registered
from tests.support.fleet import POOL, ledger
from tests.support.two_sides import Telling

# As plain values: a limit that changes is noticed.
PATIENCE = 100

IDLE = ResourceUsage(cpu_percent=1, mem_percent=1, running_jobs=0)
OVERLOADED = ResourceUsage(cpu_percent=100, mem_percent=100, running_jobs=0)


def beat(usage: ResourceUsage = IDLE, **more: Any) -> NodeHeartbeat:
    return NodeHeartbeat(
        node_id="n1",
        timestamp=1,
        resource_usage=usage,
        installed_services=[],
        capability_by_type=[],
        **more,
    )


@pytest.fixture
def connected(store: Store) -> ConnectedNodes:
    return connected_to(store, nodes__max_cpu_percent=90)


async def fail(*_: object) -> None:
    raise RedisAway("gone at that moment")


async def test_a_change_told_while_redis_was_away_is_written_with_the_next_beat(
    store: Store, connected: ConnectedNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await registered(connected)
    assert await connected.heartbeats.take(link, beat(OVERLOADED)) is BeatOutcome.ALIVE
    assert await ledger(store, "n1") == (0, None, 0)
    with monkeypatch.context() as patch:
        patch.setattr(store.nodes, "update", fail)
        with pytest.raises(RedisAway):
            await connected.heartbeats.take(link, beat())
    assert await connected.heartbeats.show_life(link) is BeatOutcome.ALIVE
    assert await ledger(store, "n1") == (0, 4, 0)


async def test_what_was_put_off_survives_that_redis_is_away_when_its_turn_comes(
    store: Store, connected: ConnectedNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await registered(connected, language_capabilities=LanguageCapabilities())
    with monkeypatch.context() as patch:
        patch.setattr(Pace, "may_beat", lambda _: False)
        assert await connected.heartbeats.take(link, beat(language_capabilities=ENGLISH_CHINESE)) is BeatOutcome.PUT_OFF
    with monkeypatch.context() as patch:
        patch.setattr(store.ledger, "adopt", fail)
        with pytest.raises(RedisAway):
            await connected.heartbeats.take(link, beat(running_job_ids=["job-0-strange"]))
    await connected.heartbeats.take(link, beat(running_job_ids=[]))
    assert await store.line.call("SISMEMBER", store.keys.shard(0).pool(POOL), "n1")


async def test_heartbeats_that_come_too_fast_are_put_off_and_the_newest_is_heeded(
    connected: ConnectedNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, heartbeats = await registered(connected), connected.heartbeats
    with monkeypatch.context() as patch:
        patch.setattr(Pace, "may_beat", lambda _: False)
        for jobs in (1, 2):
            assert await heartbeats.take(link, beat(max_concurrent_jobs=jobs)) is BeatOutcome.PUT_OFF
        await heartbeats.heed_late()
        assert link.profile.max_jobs == 4
    with monkeypatch.context() as patch:
        patch.setattr(Pace, "is_time", lambda _: False)
        await heartbeats.heed_late()
        assert link.profile.max_jobs == 4
    await heartbeats.heed_late()
    assert link.profile.max_jobs == 2
    assert heartbeats._late == {}


async def test_what_a_node_said_too_fast_is_dropped_when_it_has_left_or_has_said_more(
    connected: ConnectedNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, more = await registered(connected), await registered(connected, link_id="c2", node_id="n2")
    with monkeypatch.context() as patch:
        patch.setattr(Pace, "may_beat", lambda _: False)
        for link in (left, more):
            await connected.heartbeats.take(link, beat(max_concurrent_jobs=2))
    connected.links.drop(left)
    await connected.heartbeats.take(more, beat(max_concurrent_jobs=3))
    await connected.heartbeats.heed_late()
    assert connected.heartbeats._late == {}
    assert (left.profile.max_jobs, more.profile.max_jobs) == (4, 3)


async def test_a_change_that_comes_too_often_is_put_off_and_the_rest_of_the_beat_counts(
    connected: ConnectedNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await registered(connected)
    with monkeypatch.context() as patch:
        patch.setattr(Pace, "may_change", lambda _, __: False)
        for change in ({"max_concurrent_jobs": 2}, {"language_capabilities": LanguageCapabilities()}):
            usage = ResourceUsage(cpu_percent=50, mem_percent=1, running_jobs=0)
            assert await connected.heartbeats.take(link, beat(usage, **change)) is BeatOutcome.PUT_OFF
            assert (link.profile.max_jobs, POOL in link.serves) == (4, True)
        assert link.load.cpu == 50
    await connected.heartbeats.heed_late()
    assert (link.profile.max_jobs, POOL in link.serves) == (2, False)


async def test_a_node_that_goes_on_and_on_is_disconnected(
    connected: ConnectedNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = Ear()
    link = await registered(connected, socket)
    monkeypatch.setattr(Pace, "may_beat", lambda _: False)
    for _ in range(PATIENCE):
        await connected.heartbeats.take(link, beat())
    assert socket.closed == []
    for _ in range(PATIENCE):  # one per second is forgiven
        await connected.heartbeats.take(link, beat())
    assert socket.closed[0] is CloseCode.MISBEHAVED


async def test_capabilities_that_are_too_long_are_refused_and_what_was_said_before_holds(
    connected: ConnectedNodes,
) -> None:
    socket = Telling()
    link = await registered(connected, socket)
    endless = LanguageCapabilities(asr_languages=[f"x{number}" for number in range(100_000)])
    said = beat(language_capabilities=endless, max_concurrent_jobs=3)
    assert await connected.heartbeats.take(link, said) is BeatOutcome.ALIVE
    (refusal,) = socket.messages
    assert isinstance(refusal, ErrorMessage)
    assert refusal.code == ErrorCode.INVALID_CAPABILITY_SCHEMA
    assert (link.profile.max_jobs, POOL in link.serves) == (3, True)


async def test_only_a_quiet_node_without_an_interval_whose_socket_answers_is_vouched_for(
    connected: ConnectedNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that says how often it beats is held to it."""
    quiet, deaf = await registered(connected, Ear()), await registered(connected, Ear(), "c2", node_id="n2")
    busy = await registered(connected, Ear(), "c3", node_id="n3")
    telling = await registered(connected, Ear(), "c4", node_id="n4", heartbeat_interval_ms=5_000)
    monkeypatch.setattr(deaf.peer, "is_heard", False)
    for link in (quiet, deaf, telling):
        link.beaten_at_s -= 20.0
    before = {link.node_id: link.beaten_at_s for link in (quiet, deaf, busy, telling)}
    await connected.heartbeats.vouch()
    assert [link.node_id for link in connected.links.all() if link.beaten_at_s > before[link.node_id]] == ["n1"]


async def test_a_beat_that_tells_its_interval_changes_how_long_a_node_counts_as_alive(
    connected: ConnectedNodes,
) -> None:
    link = await registered(connected)
    for interval_ms, expected in ((5_000, 15_000), (None, 15_000), (1, 3_000), (1e9, 180_000)):
        await connected.heartbeats.take(link, beat(heartbeat_interval_ms=interval_ms))
        assert link.alive_ms == expected


async def test_long_lists_that_come_too_often_are_not_even_read(
    connected: ConnectedNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await registered(connected)
    read: list[object] = []
    monkeypatch.setattr(module, "is_new", lambda said: said is not None)
    monkeypatch.setattr(module, "refusal_of", lambda said: read.append(said))
    with monkeypatch.context() as patch:
        patch.setattr(Pace, "may_change", lambda _, __: False)
        late = await connected.heartbeats.take(link, beat(language_capabilities=LanguageCapabilities()))
    assert late is BeatOutcome.PUT_OFF
    assert (read, POOL in link.serves) == ([], True)
    await connected.heartbeats.heed_late()
    assert (len(read), POOL in link.serves) == (1, False)
