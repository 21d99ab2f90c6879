"""Instances and dead letters as operators see them, and what they do with the letters: replay and purge."""

import time

import pytest

from lingua_scheduler.domain.cluster.instances import ReplayOutcome
from lingua_scheduler.services.cluster import dead_letters as module
from lingua_scheduler.services.cluster.dead_letters import list_dead_letters, list_instances, purge, replay
from lingua_scheduler.store.cluster.inbox import Depth, Limits
from lingua_scheduler.store.cluster.instances import Me
from lingua_scheduler.store.store import Store
from tests.support.mail import ROOMY, letter

DEAD_MS = 6_000


async def join(store: Store, name: str, started_at_ms: int = 0) -> None:
    await store.inboxes.prepare(name)
    await store.instances.join(Me(name, "life-1", "host", 7, "1.2", started_at_ms, address="host:1"), DEAD_MS)


async def bury(store: Store, instance: str, *uids: str, keeps_body: bool = True) -> list[str]:
    """Their ids, as operators name them."""
    for uid in uids:
        await store.inboxes.post(instance, letter(uid), ROOMY)
    for entry in await store.inboxes.read(store.line, instance, len(uids), 1):
        await store.inboxes.bury(instance, entry, "failed", ROOMY, subject="job-1", keeps_body=keeps_body)
    return [one.letter_id for one in await store.inboxes.dead_letters(instance, 100)]


async def test_an_instance_is_alive_dead_or_stopped(store: Store) -> None:
    now_ms = int(time.time() * 1000)
    for name in ("c", "b", "a"):
        await join(store, name, now_ms - 60_000)
    # Who leaves takes along what it told.
    await store.line.call("HDEL", store.keys.figures, "c")
    for name in ("b", "c"):
        await store.line.call("ZADD", store.keys.instances_alive, now_ms - 2 * DEAD_MS, name)
    await store.inboxes.post("a", letter("u1"), ROOMY)
    await bury(store, "b", "u2", "u3")
    found = (await list_instances(store, DEAD_MS)).instances
    assert [(one.instance_id, one.state) for one in found] == [("a", "alive"), ("b", "dead"), ("c", "stopped")]
    alive, dead, _ = found
    assert (alive.host, alive.pid, alive.version, alive.address) == ("host", 7, "1.2", "host:1")
    assert (alive.inbox_letters, alive.inbox_pending, alive.dead_letters) == (1, 0, 0)
    assert (dead.inbox_letters, dead.dead_letters) == (0, 2)
    assert 60_000 <= alive.uptime_ms < 120_000
    assert dead.uptime_ms == 0
    assert alive.silent_ms < DEAD_MS <= dead.silent_ms


async def test_one_whose_clock_is_ahead_is_up_for_no_time(store: Store) -> None:
    await join(store, "a", int(time.time() * 1000) + 60_000)
    assert (await list_instances(store, DEAD_MS)).instances[0].uptime_ms == 0


async def test_dead_letters_are_listed_up_to_a_number_and_all_are_counted(store: Store) -> None:
    for name in ("b", "a", "c"):
        await join(store, name)
    first = await bury(store, "a", "u1", "u2")
    second = await bury(store, "b", "u3", "u4")
    found = await list_dead_letters(store, 3)
    assert found.total == 4
    assert [one.letter_id for one in found.dead_letters] == [*first, second[0]]
    about = found.dead_letters[0]
    assert (about.instance_id, about.kind, about.sender, about.subject) == ("a", "nudge", "s", "job-1")
    assert (about.body_bytes, about.deliveries, about.reason) == (2, 1, "failed")
    assert abs(about.buried_at_ms - time.time() * 1000) < 60_000
    assert (await list_dead_letters(store, 2)).dead_letters == found.dead_letters[:2]


async def test_all_are_replayed_page_by_page_and_each_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    for name in ("a", "b"):
        await join(store, name)
    await bury(store, "a", "u1", "u2", "u3", "u4", "u5")
    await bury(store, "b", "u6")
    told = await replay(store, None, ROOMY)
    assert (told.replayed, told.full, told.gone, told.bare) == (6, 0, 0, 0)
    assert await store.inboxes.depth("a") == Depth(letters=5, pending=0, dead=0)
    assert (await list_dead_letters(store, 10)).total == 0


async def test_what_cannot_be_replayed_is_counted_by_why(store: Store) -> None:
    for name in ("a", "b"):
        await join(store, name)
    bare = await bury(store, "a", "u1", keeps_body=False)
    good = await bury(store, "b", "u2", "u3")
    told = await replay(store, [*bare, *good, good[0], "b:1-1"], ROOMY._replace(max_length=1))
    assert (told.replayed, told.full, told.gone, told.bare) == (1, 1, 2, 1)


async def test_the_chosen_ones_are_purged_or_all(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    for name in ("a", "b"):
        await join(store, name)
    first = await bury(store, "a", "u1", "u2", "u3", "u4")
    second = await bury(store, "b", "u5")
    assert await purge(store, [first[0], second[0], first[0]]) == 2
    assert [one.letter_id for one in (await list_dead_letters(store, 10)).dead_letters] == first[1:]
    assert await purge(store, None) == 3
    assert (await list_dead_letters(store, 10)).total == 0


async def test_a_letter_that_dies_again_meanwhile_is_not_replayed_twice(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 1)
    await join(store, "a")
    await bury(store, "a", "u1", "u2")
    replay_once = store.inboxes.replay

    async def replay_and_die(instance: str, entry_id: str, limits: Limits) -> ReplayOutcome:
        outcome = await replay_once(instance, entry_id, limits)
        for entry in await store.inboxes.read(store.line, "a", 1, 1):
            await store.inboxes.bury("a", entry, "failed", ROOMY, subject="", keeps_body=True)
        return outcome

    monkeypatch.setattr(store.inboxes, "replay", replay_and_die)
    assert (await replay(store, None, ROOMY)).replayed == 2
