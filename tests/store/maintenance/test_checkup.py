"""What nobody answers for is found, named and put right; what is in order, or on its way, is left alone."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.maintenance.findings import Finding, FindingKind
from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.maintenance.facts import facts_of
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.fleet import HERE, POOL, RULES, dispatch, entry, ledger, order, wide_entry

KINDS = {kind.value for kind in FindingKind}
Fault = Callable[[Store], Awaitable[object]]
SIZE = 2


def checkup(store: Store) -> Checkup:
    return Checkup(store)


WIDE = tuple(wide_entry("any").pools)


async def look(store: Store) -> list[Finding]:
    return await checkup(store).look(settle_s=0)


async def beat_of(store: Store, instance: str) -> None:
    now_s, _ = await store.line.call("TIME")
    await store.line.call("ZADD", store.keys.instances_alive, int(now_s) * 1000, instance)


async def fleet(store: Store) -> list[Attempt]:
    """Three nodes, one in a second shard, and a job on each of the first two."""
    for node in (entry("n1"), entry("n2", pools=frozenset({POOL, "zh:en:text"})), entry("far")):
        _, place = await store.placements.assign(node.node_id, SIZE, 1000)
        await store.nodes.register(place.shard, HERE, node)
    return [(await dispatch(store, order(serial)))[0] for serial in range(3)]


async def test_a_fleet_at_work_is_in_order(store: Store) -> None:
    attempts = await fleet(store)
    await store.ledger.adopt(0, HERE, "n1", [Attempt("job-0-adopted", 0, "n1", 0)], 5_000)
    await store.nodes.drain("n2")
    await store.jobs.end(attempts[0], "", JobEvent.LOSE_ATTEMPT, linger_ms=5_000)
    await store.jobs.end(attempts[1], "", JobEvent.LOSE_ATTEMPT)
    assert await look(store) == []


FAULTS: dict[str, Fault] = {
    "lease_of_nobody": lambda s: _lease_of(s, "job-0-0#1#ghost"),
    "lease_without_job": lambda s: _lease_of(s, "job-0-gone#1#n1"),
    "job_without_lease": lambda s: _lose_lease(s),
    "unreadable": lambda s: s.line.call("HSET", s.keys.shard(0).queues, "n1", b"\xff"),
    "seen_of_nobody": lambda s: s.line.call("ZADD", s.keys.shard(0).seen, 1, "ghost"),
    "free_of_nobody": lambda s: s.line.call("ZADD", s.keys.shard(0).free, 1, "ghost"),
    "limit_of_nobody": lambda s: s.line.call("HSET", s.keys.shard(0).limits, "ghost", 1),
    "profile_of_nobody": lambda s: s.line.call("HSET", s.keys.shard(0).node("ghost"), "pools", ""),
    "member_unknown": lambda s: s.line.call("SADD", s.keys.shard(0).pool(POOL), "ghost"),
    "never_seen": lambda s: s.line.call("ZREM", s.keys.shard(0).seen, "n1"),
    "held_wrong": lambda s: s.line.call("ZADD", s.keys.shard(0).held, 7, "n1"),
    "free_wrong": lambda s: s.line.call("ZADD", s.keys.shard(0).free, 7, "n1"),
    "summary_wrong": lambda s: s.line.call("HSET", s.keys.shard(0).summary, "fr:de:text", 3),
    "definition_missing": lambda s: _lose_definition(s),
    "definition_of_nobody": lambda s: s.line.call("HSET", s.keys.shard(0).wide, "*:0000000000000000:text", "{}"),
    "place_of_nobody": lambda s: s.placements.assign("ghost", SIZE, 1000),
    "node_without_place": lambda s: s.line.call("HDEL", s.keys.placement, "n1"),
    "load_wrong": lambda s: s.line.call("ZADD", s.keys.load, 9, 0),
    "owner_gone": lambda s: beat_of(s, "i-other"),
    "inbox_of_gone": lambda s: _mail(s, "inbox"),
    "letters_of_gone": lambda s: _mail(s, "dead"),
}


async def _lease_of(store: Store, lease: str) -> None:
    await store.line.call("ZADD", store.keys.shard(0).leases, 9e15, lease)


async def _lose_definition(store: Store) -> None:
    await store.nodes.update(0, HERE, wide_entry("n2"), frozenset())
    await store.line.call("DEL", store.keys.shard(0).wide)


async def _lose_lease(store: Store) -> None:
    leases = store.keys.shard(0).leases
    await store.line.call("ZREM", leases, *await store.line.call("ZRANGE", leases, 0, 0))


async def _mail(store: Store, stream: str) -> None:
    await beat_of(store, "i-here")
    await store.line.call("XADD", store.keys.mail("i-dead", stream), "*", "kind", "hint")


async def test_the_empty_inbox_of_an_instance_that_is_still_known_is_no_fault(store: Store) -> None:
    await _mail(store, "inbox")
    await store.line.call("XTRIM", store.keys.mail("i-dead", "inbox"), "MAXLEN", 0)
    assert [finding.kind for finding in await look(store)] == ["inbox_of_gone"]
    # It crashed two minutes ago and others did its work; it is forgotten later, and its inbox with it.
    now_s, _ = await store.line.call("TIME")
    await store.line.call("ZADD", store.keys.instances_alive, (int(now_s) - 120) * 1000, "i-dead")
    assert await look(store) == []


def test_there_is_a_fault_for_every_kind_of_finding() -> None:
    assert set(FAULTS) == KINDS


@pytest.mark.parametrize("kind", list(FAULTS))
async def test_a_fault_is_named_with_its_key_and_put_right(store: Store, clock: Clock, kind: str) -> None:
    attempts = await fleet(store)
    await FAULTS[kind](store)
    found = await look(store)
    named = [finding for finding in found if finding.kind == kind]
    assert named, found
    assert all(finding.key.startswith("test:v1:{") and finding.words for finding in found)
    assert "{" not in named[0].words
    checking = checkup(store)
    if kind == "owner_gone":
        clock.pass_ms(60_000)
    await checking.repair(await checking.look(settle_s=0))
    left = await look(store)
    if kind == "letters_of_gone":
        assert left == named
        assert not named[0].is_repairable
        return
    assert left == []
    if kind != "owner_gone":
        # The fleet is as it was: its nodes serve, and what was not touched is still leased.
        assert await store.owners.known(0) == {"n1", "n2"}
        assert await store.owners.known(1) == {"far"}
        held = sum([(await ledger(store, node_id))[0] for node_id in ("n1", "n2")])
        assert held == len(attempts) - (kind == "job_without_lease")
        assert (await store.jobs.dispatch(0, order("next", wide=WIDE), RULES)).outcome == "dispatched"


async def test_a_silent_node_whose_instance_is_gone_goes_with_its_leases(store: Store, clock: Clock) -> None:
    attempts = await fleet(store)
    await beat_of(store, "i-other")
    checking = checkup(store)
    found = await checking.look(settle_s=0)
    assert {finding.subject for finding in found} == {"n1", "n2", "far"}
    await checking.repair(found)
    assert len(await store.placements.all()) == 3, "they are not silent yet"
    clock.pass_ms(60_000)
    await checking.repair(found)
    assert await store.placements.all() == {}
    states = [(await store.jobs.read(0, attempt.job_id))["state"] for attempt in attempts]
    assert states == ["RETRYING"] * 3


async def test_nothing_is_said_about_instances_that_do_not_tell(store: Store) -> None:
    await fleet(store)
    await store.line.call("XADD", store.keys.mail("i-dead", "inbox"), "*", "kind", "hint")
    assert await look(store) == []


async def test_what_passes_between_two_looks_is_no_finding(store: Store) -> None:
    await fleet(store)
    await store.placements.assign("coming", SIZE, 1000)
    looking = asyncio.ensure_future(checkup(store).look(settle_s=0.3))
    await asyncio.sleep(0.1)
    await store.nodes.register(1, HERE, entry("coming"))
    assert await looking == []


async def test_repair_finds_out_for_itself_whether_a_finding_still_holds(store: Store) -> None:
    """A report from an hour ago must not hurt anybody."""
    await fleet(store)
    leases = store.keys.shard(0).leases
    await store.placements.assign("ghost", SIZE, 1000)
    await _lose_lease(store)
    checking = checkup(store)
    found = await checking.look(settle_s=0)
    kinds = {finding.kind for finding in found}
    assert {FindingKind.PLACE_OF_NOBODY, FindingKind.JOB_WITHOUT_LEASE} <= kinds
    lost = next(f for f in found if f.kind is FindingKind.JOB_WITHOUT_LEASE).subject
    # The ghost comes to life, and the job is tried again, before the repair begins.
    await store.placements.assign("ghost", SIZE, 1000)
    await store.nodes.register(1, HERE, entry("ghost"))
    job_id = lost.rpartition("#")[0]
    key = store.keys.shard(0).job(job_id)
    _, _, rest = (await store.line.call("GET", key)).partition(" ")
    await store.line.call("SET", key, f"RETRYING {rest}")
    again = await store.jobs.dispatch(0, order(job_id.rpartition("-")[2], attempt=2), RULES)
    await checking.repair(found)
    assert "ghost" in await store.placements.all()
    assert (await store.jobs.read(0, job_id))["state"] == "DISPATCHED"
    assert await store.line.call("ZSCORE", leases, f"{job_id}#2#{again.node_id}") is not None
    assert await look(store) == []


async def test_the_server_says_what_it_is_and_promises(store: Store) -> None:
    for facts in await facts_of(store):
        assert facts.version.startswith(("Redis ", "Valkey "))
        assert facts.maxmemory_policy == "noeviction"
        assert facts.persistence == "nothing"
        assert "a restart loses everything" in facts.promise
        assert facts.scripts > facts.scripts_loaded
        assert 0 < facts.round_trip_ms < 1_000
        assert json.dumps(facts._asdict())


async def test_the_policy_of_the_append_only_file_decides_what_is_promised(store: Store) -> None:
    for line in store.line.servers():
        await line.call("CONFIG", "SET", "appendonly", "yes")
    try:
        for facts in await facts_of(store):
            assert facts.persistence == "append-only file, fsync everysec"
            assert "about the last second" in facts.promise
    finally:
        for line in store.line.servers():
            await line.call("CONFIG", "SET", "appendonly", "no")
