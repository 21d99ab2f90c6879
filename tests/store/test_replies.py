"""Every reply word of every script is reached, and doing a thing twice does no harm."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lingua_scheduler.domain.cluster.leadership import Term
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.quarantine import QuarantineRules
from lingua_scheduler.domain.jobs.requests import Request
from lingua_scheduler.domain.nodes.complaints import Complaint, ComplaintRules
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.domain.nodes.places import Place
from lingua_scheduler.domain.pools.selection import PoolMap
from lingua_scheduler.domain.rooms.guests import GuestCount, GuestsAt
from lingua_scheduler.domain.rooms.rooms import AboutMember, Participant, RoomName, Stay
from lingua_scheduler.domain.watching.handling import KNOWN_MAX, AlarmAction
from lingua_scheduler.domain.watching.tallies import TallySums
from lingua_scheduler.store.jobs.jobs import JobNote
from lingua_scheduler.store.jobs.requests import RequestClaim
from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.rooms.rooms import RoomLimits
from lingua_scheduler.store.scripts import read_library
from lingua_scheduler.store.sessions.sessions import Hold
from lingua_scheduler.store.store import Store
from tests.domain.watching.test_failures import failure
from tests.support.audits import OTHER_KEYS, chain
from tests.support.clocks import Clock
from tests.support.credentials import key
from tests.support.fleet import HERE, POOL, RULES, dispatch, entry, join, order
from tests.support.mail import DEAD_MS, ROOMY, letter, who
from tests.support.scripts import Call, around_scripts

ELSEWHERE = Owner("i-elsewhere", "c9")
NOBODY = Owner("", "")
REQUEST = Request("", "s-00000001", "r")
LIBRARY = read_library()


def words_of(name: str) -> set[str]:
    """The words a script's header promises; scripts that answer with a list promise none."""
    promised = re.sub("^of each [a-z]+: ", "", LIBRARY[name].header.split("Replies: ", 1)[1])
    if promised.startswith("a list"):
        return set()
    alternatives = re.sub(r"\([^)]*\)", "", promised.replace("\n", " ")).split("|")
    return {alternative.split()[0] for alternative in alternatives}


def is_for_many(name: str) -> bool:
    """A script that several calls share answers each of them."""
    return "Replies: of each " in LIBRARY[name].header


async def everything(store: Store, clock: Clock) -> None:
    """One long day in which each script has to answer each of its words."""
    nodes, jobs = store.nodes, store.jobs
    begun, noted = chain(2)
    await store.audit.append("", begun)
    await store.audit.append("", noted)
    await store.line.call("DEL", store.keys.audit_head)
    await store.audit.append("", chain(1, keys=OTHER_KEYS)[0])
    for size in (1, 1, 0):
        await store.placements.assign("a", 1, 1) if size else await store.placements.assign("b", 1, 1)
    await store.placements.release("a", Place(0, 2))
    await store.placements.release("a", Place(0, 2))
    for belongs_to, is_bound in (("a" * 32, False), ("b" * 32, False), ("b" * 32, True)):
        await store.claims.claim("a", belongs_to, "acme", is_bound=is_bound)

    assert (await jobs.dispatch(0, order(0), RULES)).outcome == "nobody"
    await nodes.update(0, HERE, entry("n1"), frozenset())  # gone
    await join(store, entry("n1", max_jobs=1))
    await nodes.register(0, ELSEWHERE, entry("n1"))  # held
    await nodes.update(0, ELSEWHERE, entry("n1"), frozenset({POOL}))  # superseded
    await nodes.update(0, HERE, entry("n1", max_jobs=1), frozenset({"xx:yy:text"}))  # moved, then registered
    await nodes.beat(0, HERE, "n1", 45_000)
    await nodes.beat(0, ELSEWHERE, "n1", 45_000)
    await nodes.beat(0, HERE, "nobody", 45_000)
    await nodes.check(0, HERE, "n1", [POOL])  # whole
    await nodes.check(0, HERE, "n1", [POOL], ["job-0-lost"])  # torn
    await nodes.check(0, ELSEWHERE, "n1", [POOL])  # superseded
    await nodes.check(0, HERE, "nobody", [])  # gone

    attempt, placed = await dispatch(store, order(1))
    await jobs.dispatch(0, order(2), RULES)  # full
    await jobs.dispatch(0, order(2, excluded=("n1",)), RULES)  # exhausted
    await jobs.dispatch(0, order(2, preferred="n1", only_preferred=True), RULES)  # busy
    await jobs.dispatch(0, order(2, preferred="zz", only_preferred=True), RULES)  # unfit
    await jobs.dispatch(0, order(1, attempt=2), RULES)  # stale
    await jobs.advance(attempt, placed.epoch, JobEvent.ACCEPT)
    await jobs.advance(attempt, placed.epoch, JobEvent.ACCEPT)
    await jobs.advance(attempt, "1", JobEvent.ACCEPT)
    await jobs.extend(attempt, placed.epoch, 1, 1)
    await jobs.extend(attempt, "1", 1, 1)
    await jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, if_overdue=True)  # alive
    await jobs.close(0, attempt.job_id, 1, JobEvent.FAIL, "")  # stale: it is live
    await jobs.leave_pointer(0, attempt.job_id, 1, 5)  # stale
    blame = QuarantineRules(failures=1, window=1, consecutive=1, first_ms=1_000, longest_ms=1_000)
    await jobs.end(attempt, placed.epoch, JobEvent.LOSE_ATTEMPT, "NMT_TIMEOUT", quarantine=blame)  # ended
    await jobs.end(attempt, placed.epoch, JobEvent.LOSE_ATTEMPT, "NMT_TIMEOUT")  # repeated
    await jobs.end(attempt, placed.epoch, JobEvent.FINISH)  # stale
    await jobs.end(Attempt("job-0-none", 1, "n1", 0), "", JobEvent.FINISH)  # gone
    await jobs.dispatch(0, order(2, is_last_resort=False), RULES)  # sick
    await jobs.leave_pointer(0, attempt.job_id, 1, 5)  # moved
    await jobs.close(0, attempt.job_id, 1, JobEvent.FAIL, "")  # closed

    for service in ("asr", "asr", "tts"):  # suspended, debounced, limited
        await store.services.suspend(0, "n1", Complaint(service), ("asr",), 1_000, ComplaintRules(500, 1_000, 1))
    await store.services.suspend(0, "zz", Complaint("asr"), ("asr",), 1_000, ComplaintRules(500, 1_000, 1))  # gone
    waiting = JobNote("job-0-w", (POOL,), "s-00000001", 0, "i-here")
    await jobs.note(0, waiting, 60_000)  # noted
    record = await jobs.find("job-0-w")
    assert record is not None
    await jobs.explain(0, "job-0-w", "{}")  # kept
    await jobs.explain(0, "job-0-none", "{}")  # gone
    await jobs.cancel(record._replace(attempt=9), 0)  # moved
    await jobs.cancel(record, 0)  # cancelled
    await jobs.cancel(record, 0)  # ended
    await jobs.cancel(record._replace(job_id="job-0-none"), 0)  # gone
    await jobs.note(0, waiting, 60_000)  # stale
    await store.surveys.look(0, (POOL,))

    await store.ledger.adopt(0, HERE, "n1", [Attempt("job-0-x", 0, "n1", 0)], 1_000)
    await store.ledger.adopt(0, ELSEWHERE, "n1", [Attempt("job-0-x", 0, "n1", 0)], 1_000)
    await store.ledger.rebuild(0)
    await store.placements.assign("n1", 100, 1000)
    for resume in (False, False, True):
        await nodes.drain("n1", resume=resume)  # moved, drained, kept, resumed
    await store.placements.assign("zz", 100, 1000)
    await nodes.drain("zz")  # gone
    await nodes.release("zz")  # gone
    await store.line.call("ZADD", store.keys.shard(0).sick, 9e15, "n1")
    for _ in range(2):
        await nodes.release("n1")  # released, kept
    await store.tallies.add(0, "n1", TallySums(1), [])
    await store.demand.note([POOL], ["xx:yy:text"])
    await store.alarms.note([("redis.full", 1)])
    await store.alarms.handle("redis.full", AlarmAction.ACKNOWLEDGE, 0, "me")  # handled
    await store.alarms.handle("nodes.none", AlarmAction.ACKNOWLEDGE, 0, "me")  # gone
    many = [word for number in range(KNOWN_MAX) for word in (f"alarm-{number}", "0 0 0 0 0 ")]
    await store.line.call("HSET", store.keys.alarms, *many)
    await store.alarms.handle("other", AlarmAction.SILENCE, 1_000, "me")  # full
    for expected in (0, 0):
        await store.credentials.write(expected, [key("a")])  # changed, outdated
    await store.logins.add_code("d1", "k3jPq0aZ81Ty")
    for _ in range(2):
        await store.logins.take_code("d1")  # taken, unknown
    await store.failures.add([failure()], 10, 1_000)
    await nodes.remove(0, HERE, "n1", frozenset({POOL}), if_idle=True)  # busy
    await nodes.remove(0, NOBODY, "n1", frozenset())  # alive
    await nodes.remove(0, ELSEWHERE, "n1", frozenset())  # superseded
    await nodes.remove(0, HERE, "n1", frozenset())  # moved, then removed
    await nodes.remove(0, HERE, "n1", frozenset())  # gone
    await nodes.overdue(0, 10)
    await nodes.clock_ms(0)
    await jobs.overdue(0, 10)
    await store.placements.restore("lost", Place(0, 1), 100, 1000)
    await store.placements.restore("lost", Place(0, 1), 100, 1000)  # kept
    await store.line.call("HSET", store.keys.shard(0).queues, "two words", "x")
    aside = [store.keys.leader, store.keys.aside(store.keys.leader)]
    await store.scripts.run("key_set_aside", names=aside, keep_ms=1_000, types=["string"])
    checkup = Checkup(store)
    await checkup.repair(await checkup.look(settle_s=0))
    for known in (4, 4, 5, 6, 3):
        await store.versions.claim(known)  # written, same, older, too_old, newer
    await store.versions.claim(5, finish=True)  # raised

    sessions = store.sessions
    first, second = Hold("a 1"), Hold("b 1", 2)
    for hold in (first, Hold("b 1")):
        await sessions.open("s", hold, "token", "{}", 60_000)  # opened, taken
    await sessions.claim("s", "b 1", "wrong", 60_000)  # unknown
    await sessions.open("t", Hold("a 1"), "token", "{}", 60_000, is_found_by_id=True)
    await sessions.claim_by_id("t", "b 1", "", 60_000)  # held
    await sessions.claim("s", "b 1", "token", 60_000)  # claimed
    for name, hold in (("s", first), ("s", second), ("u", first)):  # taken, then noted, parked and closed, then gone
        await sessions.note(name, hold, "[]", "", 60_000)
        await sessions.park(name, hold, [b"x"], most=2, keep_ms=60_000)
        await sessions.close(name, hold, keep_ms=1_000)

    _, term = await store.pools.claim("i-here", 60_000)  # leading
    await store.pools.claim("i-elsewhere", 60_000)  # following
    for _ in range(2):
        await store.pools.publish(term, PoolMap({POOL: {0: 1}}))  # unknown, published, confirmed
    await store.pools.publish(Term("i-elsewhere", term.epoch), PoolMap({}))  # stale
    for _ in range(2):
        await store.pools.resign(term)  # resigned, stale
    mine, other = RequestClaim(REQUEST, "t1", "i-here", "p"), RequestClaim(REQUEST, "t2", "i-elsewhere", "p")
    for claim in (mine, other, RequestClaim(REQUEST, "t3", "i-here", "q")):  # claimed, pending, conflict
        await store.requests.claim(claim, claim_ms=1_000, keep_ms=60_000)
    for claim in (other, mine):  # lost, bound
        await store.requests.bind(claim, attempt, keep_ms=60_000)
    await store.requests.claim(other, claim_ms=1_000, keep_ms=60_000)  # bound
    for claim in (other, mine):  # lost, released
        await store.requests.release(claim)
    await every_reply_about_rooms(store, clock)
    await every_reply_about_instances(store, clock)


async def every_reply_about_rooms(store: Store, clock: Clock) -> None:
    rooms, name, limits = store.rooms, RoomName("default", "483920"), RoomLimits(3, 60_000)
    ann, bob, eve = (Participant(one, "a 1-1", AboutMember(), 0) for one in "abe")
    await rooms.look(name)  # unknown
    await rooms.join(name, bob, limits)  # unknown
    await rooms.create(name, "1", "r", ann, limits)  # created
    await rooms.create(name, "2", "r", bob, limits)  # taken
    for member in (bob, bob, eve, eve._replace(session_id="f")):
        await rooms.join(name, member, limits)  # joined, already, full
    await rooms.wish(name, "a", "b", wants_voice=False)  # noted
    await rooms.wish(name, "a", "z", wants_voice=False)  # unknown
    for session in ("b", "z"):
        await rooms.move(Stay(name, "1"), session, "b 1-1")  # moved, unknown
        await rooms.leave(name, session, "a 1-1")  # moved, unknown
    for host, verb in (("b", "lock"), ("a", "remove"), ("a", "lock")):
        await rooms.host(name, host, verb, "e")  # denied, left, noted
    await rooms.join(name, eve, limits)  # locked
    looked = (await rooms.look(name)).room  # open
    assert looked is not None
    await store.live_rooms.note([looked])  # noted
    await rooms.hold(looked, [ann], "f", limits, has_spoken=False)  # same
    await rooms.hold(looked._replace(version=1), [ann], "f", limits, has_spoken=False)  # open
    await rooms.hold(looked._replace(record="other"), [ann], "f", limits, has_spoken=False)  # lost, restored
    for session, owner in (("a", "a 1-1"), ("a", "z 1-1"), ("z", "a 1-1")):
        await rooms.update(name, session, owner, AboutMember(name="x"))  # noted, moved, unknown
    guests = GuestsAt("i", "1", {"en": GuestCount(1, 0)})
    await rooms.let_guest_in(name, guests, 5, limits)  # locked
    await rooms.host(name, "a", "unlock")
    for where, most in ((name, 5), (name, 0), (RoomName("default", "111111"), 5)):
        await rooms.let_guest_in(where, guests, most, limits)  # noted, full, unknown
    for session in ("a", "a", "z"):
        await rooms.said(looked, session, 0, 0, limits)  # said, again, unknown
    for most_each in (1, 1, 5):
        await store.guesses.take("acme", "a", most_each, 1)  # taken, spent, guarded
    for address in ("a", "b"):
        await store.guesses.give_back("acme", address)  # returned, gone
    await rooms.leave(name, "b", "b 1-1")  # left
    clock.pass_ms(60_000)
    await rooms.hold(looked, [ann], "f", limits, has_spoken=False)  # expired
    await rooms.hold(looked, [ann], "f", limits, has_spoken=False)  # ended
    await rooms.look(name)  # ended
    await rooms.host(name, "a", "close")  # unknown
    other = RoomName("default", "483921")
    await rooms.create(other, "1", "r", ann, limits)
    await rooms.leave(other, "a", "a 1-1")  # ended
    third = RoomName("default", "483922")
    await rooms.create(third, "1", "r", ann, limits)
    await rooms.host(third, "a", "close")  # ended


async def every_reply_about_instances(store: Store, clock: Clock) -> None:
    instances, inboxes = store.instances, store.inboxes
    me, namesake = who("a", "life-1"), who("a", "life-2")
    await instances.beat(me, DEAD_MS)  # was_dead
    await instances.join(me, DEAD_MS)  # joined
    await instances.join(namesake, DEAD_MS)  # taken
    await instances.beat(me, DEAD_MS)  # alive
    await instances.beat(namesake, DEAD_MS)  # superseded
    await instances.leave(namesake, DEAD_MS)  # superseded
    await instances.leave(me, DEAD_MS)  # left
    await instances.known()
    await instances.forget("a", 60_000)  # kept

    one, another = letter("u1"), letter("u2")
    for sent in (one, another, another):
        await inboxes.post("a", sent, ROOMY._replace(max_length=2))  # sent, sent, full
    await inboxes.claim("a", 10, 0)  # claimed, by itself: nothing yet
    adoption = await inboxes.adopt("a", "b", 1_000)  # adopted
    assert adoption is not None
    assert await inboxes.adopt("a", "c", 1_000) is None  # held
    # Who repeats an adoption has the latest epoch.
    adoption = adoption._replace(epoch=int(await store.line.call("HGET", store.keys.adopter("a"), "epoch")))
    stale = adoption._replace(epoch=99)
    await inboxes.claim_adopted(stale, 10, 0)  # lost
    found = (await inboxes.claim_adopted(adoption, 10, 0)).entries
    await inboxes.bury("a", found[0], "failed", ROOMY, keeps_body=True)  # buried
    await inboxes.bury("a", found[0], "failed", ROOMY)  # gone
    (dead,) = await inboxes.dead_letters("a", 10)
    await inboxes.replay("a", dead.entry.entry_id, ROOMY._replace(max_length=0))  # full
    await inboxes.replay("a", dead.entry.entry_id, ROOMY)  # replayed
    await inboxes.replay("a", dead.entry.entry_id, ROOMY)  # gone
    await inboxes.bury("a", found[1], "failed", ROOMY)
    (dead,) = await inboxes.dead_letters("a", 10)
    await inboxes.replay("a", dead.entry.entry_id, ROOMY)  # bare
    await inboxes.purge("a", [dead.entry.entry_id])
    replayed = (await inboxes.claim_adopted(adoption, 10, 1_000_000)).entries
    await inboxes.done("a", [found[1].entry_id, *(entry.entry_id for entry in replayed)])
    await inboxes.release(stale)  # lost
    await inboxes.release(adoption)  # released
    await inboxes.release(adoption, remove=True)  # removed
    clock.pass_ms(100_000)
    await instances.forget("a", 60_000)  # forgotten


async def test_every_reply_word_of_every_script_is_reached(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: dict[str, set[str]] = {name: set() for name in LIBRARY}

    async def recording(name: str, call: Call) -> Any:
        reply = await call()
        replies = reply if is_for_many(name) else [reply]
        words = (one.split(" ")[0] if is_for_many(name) else one[0] for one in replies if words_of(name))
        reached[name].update(words)
        return reply

    around_scripts(monkeypatch, recording)
    await everything(store, clock)
    assert reached == {name: words_of(name) for name in LIBRARY}


async def test_every_script_may_run_twice_without_harm(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same call again, at once, as after a lost reply: who holds what must not change by it."""
    repeated: set[str] = set()

    async def twice(name: str, call: Call) -> Any:
        reply = await call()
        before = await ledger_of(store)
        again = await call()
        assert await ledger_of(store) == before, name
        repeated.add(name)
        # A registration is answered with the epoch that counts, which is the last one.
        return again if name == "node_register" and again[0] == "registered" else reply

    around_scripts(monkeypatch, twice)
    await everything(store, clock)
    assert repeated == set(LIBRARY)


async def ledger_of(store: Store) -> list[Any]:
    """Leases, slots, pools and places, as they are in Redis."""
    keys, call = store.keys.shard(0), store.line.call
    looks: list[Callable[[], Awaitable[Any]]] = [
        lambda: call("ZRANGE", keys.leases, 0, -1),
        lambda: call("ZRANGE", keys.held, 0, -1, "WITHSCORES"),
        lambda: call("ZRANGE", keys.free, 0, -1, "WITHSCORES"),
        lambda: call("HGETALL", keys.limits),
        lambda: call("HGETALL", keys.trouble),
        lambda: call("ZRANGE", keys.sick, 0, -1, "WITHSCORES"),
        lambda: call("HGETALL", keys.summary),
        lambda: call("SMEMBERS", keys.pool(POOL)),
        lambda: call("ZRANGE", store.keys.load, 0, -1, "WITHSCORES"),
        lambda: call("HGETALL", store.keys.request(*REQUEST)),
    ]
    return [await look() for look in looks]
