"""A node that lacks a service gets no job that needs it, for a while; how often it may say so is settled in Redis."""

import asyncio
from collections import Counter
from typing import Any

from lingua_scheduler.domain.jobs.attempts import DispatchOutcome
from lingua_scheduler.domain.nodes.complaints import Complaint, ComplaintRules, SuspendOutcome
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.fleet import HERE, POOL, RULES, dispatch, entry, join, order

LISTENING = ComplaintRules(debounce_ms=5_000, window_ms=10_000, most=30)
TEXT = ("asr", "nmt")
SPEECH = (*TEXT, "tts")


async def suspend(
    store: Store, node: str, service_id: str = "piper", version: str = "1", services: tuple[str, ...] = ("tts",)
) -> SuspendOutcome:
    return await store.services.suspend(0, node, Complaint(service_id, version), services, 60_000, LISTENING)


async def outcome_of(store: Store, serial: int, **more: Any) -> DispatchOutcome:
    return (await store.jobs.dispatch(0, order(serial, **more), RULES)).outcome


async def sick(store: Store) -> list[str]:
    found: list[str] = await store.line.call("ZRANGE", store.keys.shard(0).sick, 0, -1)
    return found


async def test_only_jobs_that_need_the_service_go_elsewhere(store: Store) -> None:
    await join(store, entry("mute", max_jobs=50))
    await join(store, entry("other", max_jobs=50))
    assert await suspend(store, "mute") is SuspendOutcome.SUSPENDED
    spoken = Counter([(await dispatch(store, order(i, needs=SPEECH)))[0].node_id for i in range(10)])
    assert spoken == {"other": 10}
    written = Counter([(await dispatch(store, order(100 + i, needs=TEXT)))[0].node_id for i in range(10)])
    assert written["mute"] == 10  # it is the idler one


async def test_there_is_no_last_resort_among_nodes_that_lack_a_service(store: Store) -> None:
    await join(store, entry("mute"))
    await suspend(store, "mute")
    assert await outcome_of(store, 1, needs=SPEECH) is DispatchOutcome.FULL
    assert await outcome_of(store, 2, needs=SPEECH, preferred="mute", only_preferred=True) is DispatchOutcome.UNFIT
    assert await outcome_of(store, 3, needs=TEXT) is DispatchOutcome.DISPATCHED


async def test_a_service_comes_back_by_itself_and_is_forgotten(store: Store, clock: Clock) -> None:
    await join(store, entry("mute", alive_ms=1_000_000))
    await suspend(store, "mute")
    clock.pass_ms(59_999)
    assert await outcome_of(store, 1, needs=SPEECH) is DispatchOutcome.FULL
    assert await sick(store) == ["mute tts"]
    clock.pass_ms(1)
    assert await outcome_of(store, 2, needs=SPEECH) is DispatchOutcome.DISPATCHED
    assert await sick(store) == []


async def test_a_lack_is_no_quarantine_and_leaves_the_last_resort_to_those_that_can(store: Store, clock: Clock) -> None:
    await join(store, entry("mute"))
    await join(store, entry("bad"))
    await suspend(store, "mute")
    await store.line.call("ZADD", store.keys.shard(0).sick, clock.now_ms + 60_000, "bad")
    attempt, _ = await dispatch(store, order(1, needs=SPEECH))
    assert attempt.node_id == "bad"
    attempt, _ = await dispatch(store, order(2, needs=TEXT))
    assert attempt.node_id == "mute"


async def test_the_same_complaint_counts_again_after_the_debounce(store: Store, clock: Clock) -> None:
    await join(store, entry("mute", alive_ms=1_000_000))
    assert await suspend(store, "mute") is SuspendOutcome.SUSPENDED
    clock.pass_ms(4_999)
    assert await suspend(store, "mute") is SuspendOutcome.DEBOUNCED
    assert await suspend(store, "mute", version="2") is SuspendOutcome.SUSPENDED
    clock.pass_ms(1)
    assert await suspend(store, "mute") is SuspendOutcome.SUSPENDED


async def test_thirty_complaints_in_ten_seconds_are_heard_whoever_hears_them(store: Store, clock: Clock) -> None:
    await join(store, entry("mute", alive_ms=1_000_000))
    said = await asyncio.gather(*(suspend(store, "mute", f"s{i}") for i in range(100)))
    assert Counter(said) == {SuspendOutcome.SUSPENDED: 30, SuspendOutcome.LIMITED: 70}
    clock.pass_ms(9_999)
    assert await suspend(store, "mute", "s0") is SuspendOutcome.LIMITED
    clock.pass_ms(1)
    assert await suspend(store, "mute", "s0") is SuspendOutcome.SUSPENDED


async def test_one_that_comes_again_in_a_window_counts_twice(store: Store, clock: Clock) -> None:
    await join(store, entry("mute", alive_ms=1_000_000))
    for _ in range(2):
        said = [await suspend(store, "mute", f"s{i}") for i in range(15)]
        assert set(said) == {SuspendOutcome.SUSPENDED}
        clock.pass_ms(4_999)
        clock.pass_ms(1)
    clock.pass_ms(-1)
    assert await suspend(store, "mute", "another") is SuspendOutcome.LIMITED


async def test_what_the_limiter_remembers_is_bounded_and_expires(store: Store) -> None:
    await join(store, entry("mute"))
    await asyncio.gather(*(suspend(store, "mute", f"s{i}") for i in range(1_000)))
    key = store.keys.shard(0).complaints("mute")
    assert await store.line.call("ZCARD", key) == 30
    assert 0 < await store.line.call("PTTL", key) <= 10_000


async def test_one_nodes_storm_leaves_the_others_their_say(store: Store) -> None:
    for node in ("loud", "quiet"):
        await join(store, entry(node))
    await asyncio.gather(*(suspend(store, "loud", f"s{i}") for i in range(50)))
    assert await suspend(store, "quiet") is SuspendOutcome.SUSPENDED


async def test_a_node_takes_what_it_lacks_with_it(store: Store) -> None:
    await join(store, entry("mute"))
    await suspend(store, "mute", services=("asr", "nmt", "tts", "semantic", "tone"))
    assert len(await sick(store)) == 5
    await store.nodes.remove(0, HERE, "mute", frozenset({POOL}))
    assert await sick(store) == []
    assert await suspend(store, "mute") is SuspendOutcome.GONE
    assert await sick(store) == []


async def test_a_view_tells_what_a_node_lacks(store: Store, clock: Clock) -> None:
    await join(store, entry("mute"))
    await suspend(store, "mute")
    (view,) = await store.node_views.all()
    assert view.unavailable_for_ms(clock.now_ms) == {"tts": 60_000}
    assert view.unavailable_for_ms(clock.now_ms + 60_000) == {}
    assert view.quarantined_for_ms(clock.now_ms) is None
