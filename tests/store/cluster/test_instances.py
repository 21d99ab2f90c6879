"""Presence: who is alive, who was, and who has whose id."""

import asyncio

import msgspec
import pytest

from lingua_scheduler.domain.cluster.instances import ForgetOutcome, LeaveOutcome, PresenceOutcome
from lingua_scheduler.domain.watching.figures import Figures
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.mail import DEAD_MS, who


async def silent(store: Store) -> dict[str, int]:
    return {name: found.silent_ms for name, found in (await store.instances.known()).items()}


async def test_everybody_is_read_in_one_call_with_the_time_since_the_last_beat(store: Store, clock: Clock) -> None:
    await store.instances.join(who("a")._replace(address="x:1", pid=7), DEAD_MS)
    clock.pass_ms(2_000)
    await store.instances.join(who("b"), DEAD_MS)
    clock.pass_ms(500)
    assert await silent(store) == {"a": 2_500, "b": 500}
    about = (await store.instances.known())["a"]
    assert (about.address, about.pid, about.host, about.incarnation) == ("x:1", 7, "here", "life-1")
    assert await store.instances.beat(who("a"), DEAD_MS) is PresenceOutcome.ALIVE
    assert (await silent(store))["a"] == 0


async def test_an_id_that_is_alive_is_not_given_twice(store: Store, clock: Clock) -> None:
    await store.instances.join(who("a", "life-1"), DEAD_MS)
    assert await store.instances.join(who("a", "life-2"), DEAD_MS) == (PresenceOutcome.TAKEN, clock.now_ms)
    assert await store.instances.beat(who("a", "life-1"), DEAD_MS) is PresenceOutcome.ALIVE
    clock.pass_ms(DEAD_MS)
    assert (await store.instances.join(who("a", "life-2"), DEAD_MS))[0] is PresenceOutcome.JOINED


async def test_of_many_namesakes_at_once_one_joins(store: Store) -> None:
    tries = (store.instances.join(who("a", f"life-{i}"), DEAD_MS) for i in range(20))
    outcomes = [outcome for outcome, _ in await asyncio.gather(*tries)]
    assert outcomes.count(PresenceOutcome.JOINED) == 1


async def test_a_frozen_instance_hears_at_its_next_beat_that_it_counted_as_dead(store: Store, clock: Clock) -> None:
    await store.instances.join(who("a"), DEAD_MS)
    clock.pass_ms(DEAD_MS)
    assert await store.instances.beat(who("a"), DEAD_MS) is PresenceOutcome.WAS_DEAD
    # The beat itself announces nothing: first the inbox has to be there.
    assert (await silent(store))["a"] == DEAD_MS
    assert (await store.instances.join(who("a"), DEAD_MS))[0] is PresenceOutcome.JOINED
    assert await store.instances.beat(who("a"), DEAD_MS) is PresenceOutcome.ALIVE


async def test_after_data_loss_a_beat_is_told_to_join_again(store: Store) -> None:
    await store.instances.join(who("a"), DEAD_MS)
    await store.line.call("DEL", store.keys.instances_alive, store.keys.instances_about)
    assert await store.instances.beat(who("a"), DEAD_MS) is PresenceOutcome.WAS_DEAD


async def test_the_clean_up_of_a_former_life_does_not_touch_the_present_one(store: Store, clock: Clock) -> None:
    await store.instances.join(who("a", "life-1"), DEAD_MS)
    clock.pass_ms(DEAD_MS)
    await store.instances.join(who("a", "life-2"), DEAD_MS)
    assert await store.instances.beat(who("a", "life-1"), DEAD_MS) is PresenceOutcome.SUPERSEDED
    assert await store.instances.leave(who("a", "life-1"), DEAD_MS) is LeaveOutcome.SUPERSEDED
    assert await silent(store) == {"a": 0}
    assert await store.instances.beat(who("a", "life-2"), DEAD_MS) is PresenceOutcome.ALIVE


async def test_who_leaves_is_dead_at_once_but_known_until_forgotten(store: Store, clock: Clock) -> None:
    await store.instances.join(who("a"), DEAD_MS)
    assert await store.instances.leave(who("a"), DEAD_MS) is LeaveOutcome.LEFT
    assert await silent(store) == {"a": DEAD_MS}
    assert await store.instances.forget("a", 60_000) is ForgetOutcome.KEPT
    clock.pass_ms(60_000)
    assert await store.instances.forget("a", 60_000) is ForgetOutcome.FORGOTTEN
    assert await silent(store) == {}


async def test_an_instance_killed_before_it_counted_anything_does_not_look_as_if_it_had_left(store: Store) -> None:
    await store.instances.join(who("a"), DEAD_MS)
    assert msgspec.json.decode((await store.instances.shown())["a"], type=Figures).life == "life-1"
    await store.instances.show("a", b'{"life":"life-1","at_ms":7}')
    await store.instances.join(who("a"), DEAD_MS)
    assert (await store.instances.shown())["a"] == '{"life":"life-1","at_ms":7}'
    await store.instances.leave(who("a"), DEAD_MS)
    assert await store.instances.shown() == {}


@pytest.mark.parametrize("again", [1, 2])
async def test_who_comes_back_is_not_forgotten(store: Store, clock: Clock, again: int) -> None:
    await store.instances.join(who("a"), DEAD_MS)
    clock.pass_ms(100_000)
    for _ in range(again):
        await store.instances.join(who("a"), DEAD_MS)
    assert await store.instances.forget("a", 60_000) is ForgetOutcome.KEPT
    assert await silent(store) == {"a": 0}


@pytest.mark.parametrize("rubbish", ["", "two words", "{}", "life-2", "life-2 {", "\ufffd {}", "x\ny {}"])
async def test_what_no_instance_wrote_supersedes_nobody_and_is_written_again(store: Store, rubbish: str) -> None:
    await store.instances.join(who("a"), DEAD_MS)
    await store.line.call("HSET", store.keys.instances_about, "a", rubbish)
    assert await store.instances.beat(who("a"), DEAD_MS) is PresenceOutcome.WAS_DEAD
    assert (await store.instances.join(who("a"), DEAD_MS))[0] is PresenceOutcome.JOINED
    assert await store.instances.beat(who("a"), DEAD_MS) is PresenceOutcome.ALIVE
    # Another process with its id is still told from it.
    assert await store.instances.beat(who("a", "life-2"), DEAD_MS) is PresenceOutcome.SUPERSEDED


async def test_what_another_release_says_of_itself_in_another_way_is_passed_over(store: Store) -> None:
    await store.instances.join(who("a")._replace(address="x:1", pid=7), DEAD_MS)
    said = {"host": "h", "pid": True, "seals": 5, "address": ["x", "y"], "version": "9", "labels": {"zone": [1]}}
    await store.line.call("HSET", store.keys.instances_about, "a", f"life-1 {msgspec.json.encode(said).decode()}")
    (found,) = (await store.instances.known()).values()
    assert (found.host, found.version) == ("h", "9")
    assert (found.pid, found.seals, found.address) == (0, "", "")
