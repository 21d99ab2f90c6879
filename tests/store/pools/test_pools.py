"""Leading and publishing: one leader at a time, and nobody reads a version without its map."""

import asyncio

from lingua_scheduler.domain.cluster.leadership import LeaderClaimOutcome, PublishOutcome, ResignOutcome, Term
from lingua_scheduler.domain.pools.selection import PoolMap
from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.waiting import until

FIRST = PoolMap({"en:zh:speech": {0: 3}})
SECOND = PoolMap({"en:zh:speech": {0: 3, 1: 1}, "zh:en:text": {1: 2}})
LONG_MS = 60_000


async def test_one_of_many_leads_and_the_others_hear_who(store: Store) -> None:
    claims = await asyncio.gather(*(store.pools.claim(f"i-{number}", LONG_MS) for number in range(50)))
    (leader,) = [term for outcome, term in claims if outcome is LeaderClaimOutcome.LEADING]
    assert {term for _, term in claims} == {leader}
    assert await store.pools.leader() == leader


async def test_a_leader_that_claims_again_goes_on_with_its_epoch(store: Store) -> None:
    _, term = await store.pools.claim("i-a", LONG_MS)
    assert await store.pools.claim("i-a", LONG_MS) == (LeaderClaimOutcome.LEADING, term)
    assert await store.pools.claim("i-b", LONG_MS) == (LeaderClaimOutcome.FOLLOWING, term)


async def test_when_a_leader_says_nothing_another_leads_with_a_higher_epoch(store: Store) -> None:
    _, former = await store.pools.claim("i-a", 20)
    await until(lambda: _nobody_leads(store))
    _, term = await store.pools.claim("i-b", LONG_MS)
    assert (term.instance, int(term.epoch)) == ("i-b", int(former.epoch) + 1)
    # The old one wakes up: it hears that it does not lead, and cannot publish what it has in hand.
    assert (await store.pools.publish(former, FIRST))[0] is PublishOutcome.STALE
    assert await store.pools.resign(former) is ResignOutcome.STALE
    assert await store.pools.leader() == term
    assert (await store.pools.published()).version == 0


async def test_the_same_instance_leading_again_is_another_term(store: Store) -> None:
    _, former = await store.pools.claim("i-a", LONG_MS)
    await store.pools.resign(former)
    _, term = await store.pools.claim("i-a", LONG_MS)
    assert term != former
    assert (await store.pools.publish(former, FIRST))[0] is PublishOutcome.STALE


async def test_a_leader_that_resigns_makes_room_at_once(store: Store) -> None:
    _, term = await store.pools.claim("i-a", LONG_MS)
    assert await store.pools.resign(term) is ResignOutcome.RESIGNED
    outcome, _ = await store.pools.claim("i-b", LONG_MS)
    assert outcome is LeaderClaimOutcome.LEADING


async def test_a_map_is_read_as_it_was_published_with_its_version(store: Store, clock: Clock) -> None:
    assert await store.pools.read_published() is None
    _, term = await store.pools.claim("i-a", LONG_MS)
    for version, wanted in ((1, FIRST), (2, SECOND)):
        assert await store.pools.publish(term, wanted) == (PublishOutcome.PUBLISHED, version)
        read = await store.pools.read_published()
        assert read is not None
        assert (read[0].version, read[1].nodes) == (version, wanted.nodes)
    about = await store.pools.published()
    assert (about.version, about.generated_at_ms, about.generated_by, about.epoch) == (
        2, clock.now_ms, "i-a", term.epoch,
    )  # fmt: skip


async def test_a_map_that_did_not_change_keeps_its_version_but_is_known_to_be_fresh(store: Store, clock: Clock) -> None:
    _, term = await store.pools.claim("i-a", LONG_MS)
    await store.pools.publish(term, FIRST)
    clock.pass_ms(5_000)
    assert await store.pools.publish(term, FIRST) == (PublishOutcome.CONFIRMED, 1)
    assert (await store.pools.published()).generated_at_ms == clock.now_ms


async def test_nobody_may_publish_under_an_epoch_that_was_never_its_own(store: Store) -> None:
    _, term = await store.pools.claim("i-a", LONG_MS)
    for liar in (Term("i-b", term.epoch), Term("i-a", "99"), Term("", "")):
        assert (await store.pools.publish(liar, FIRST))[0] is PublishOutcome.STALE


async def _nobody_leads(store: Store) -> bool:
    return await store.pools.leader() is None


async def test_a_leader_that_never_expires_is_found_and_nobody_follows_it(store: Store) -> None:
    _, former = await store.pools.claim("a", 5_000)
    await store.line.call("SET", store.keys.leader, "ghost 99999999")
    (found,) = await Checkup(store).look(settle_s=0)
    assert (found.key, found.subject) == (store.keys.leader, "a value that never expires")
    outcome, term = await store.pools.claim("b", 5_000)
    assert (outcome, term.instance) == (LeaderClaimOutcome.LEADING, "b")
    assert int(term.epoch) > int(former.epoch)
    assert await Checkup(store).look(settle_s=0) == []
    # Who expires is followed.
    assert (await store.pools.claim("a", 5_000))[0] is LeaderClaimOutcome.FOLLOWING
    await store.line.call("SET", store.keys.leader, "ghost 99999999")
    assert (await Checkup(store).put_right(settle_s=0))[1] == []
    assert await store.line.call("EXISTS", store.keys.leader) == 0
