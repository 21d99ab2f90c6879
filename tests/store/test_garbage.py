"""Garbage in every family of keys: no reader raises, honest entries beside it are served, and repair removes it."""

import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.access.audit import AuditNote
from lingua_scheduler.domain.access.audit_check import verify
from lingua_scheduler.domain.access.credentials import Revocation, tenant_name
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.domain.access.logins import fresh_login
from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome
from lingua_scheduler.domain.jobs.job_ids import JobHandle, JobId
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.jobs.quarantine import QuarantineRules
from lingua_scheduler.domain.jobs.requests import Request
from lingua_scheduler.domain.nodes.complaints import Complaint, ComplaintRules
from lingua_scheduler.domain.nodes.owners import Owner, Ownership
from lingua_scheduler.domain.nodes.places import Place
from lingua_scheduler.domain.pools.names import Pool
from lingua_scheduler.domain.rooms.guests import GuestCount, GuestsAt
from lingua_scheduler.domain.rooms.rooms import AboutMember, Participant, RoomName, Stay
from lingua_scheduler.domain.watching.chronicle import FleetMemory
from lingua_scheduler.domain.watching.failures import FailureFilter
from lingua_scheduler.domain.watching.handling import AlarmAction
from lingua_scheduler.domain.watching.tallies import TalliedError, TallySums
from lingua_scheduler.services.access.auditing import Auditor
from lingua_scheduler.store import reading, unreadable
from lingua_scheduler.store.jobs.jobs import JobNote
from lingua_scheduler.store.jobs.requests import RequestClaim
from lingua_scheduler.store.keys import FAMILIES, KeyFamily
from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.reading import fields_of
from lingua_scheduler.store.rooms.rooms import RoomLimits
from lingua_scheduler.store.sessions.sessions import Hold
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.languages import Pair
from lingua_sdk.domain.losses import Loss
from lingua_sdk.domain.pairing import Pairing
from tests.domain.watching.test_chronicle import event
from tests.domain.watching.test_failures import failure
from tests.support.audits import ACTOR, KEYS
from tests.support.credentials import key as key_named
from tests.support.fleet import HERE, POOL, RULES, entry, join, order, wide_entry
from tests.support.mail import DEAD_MS, ROOMY, letter, who
from tests.support.pictures import moment
from tests.support.servers import RedisProcess, binaries

SEED = int(os.environ.get("SEED", random.SystemRandom().randrange(2**32)))
KEEP_MS = 600_000
NOBODY = Owner("", "")
A = Hold("i-here 1")
REQUEST = Request("", "s-1", "r")
QUARANTINE = QuarantineRules(3, 10, 3, 1_000, 60_000)
SUSPENDING = ComplaintRules(debounce_ms=0, window_ms=10_000, most=30)
# Bytes that are no text, words in wrong places, numbers and depth without end, what is cut off, and nothing.
RUBBISH: list[bytes] = [
    b"\xff\xfe\x00\x80",
    b"job-0-a#b#0#n1",
    b"",
    b"two words and more",
    b'{"version": "1", "langu',
    b'{"depth": ' + b"[" * 3_000 + b"]" * 3_000 + b"}",
    b"\x93\xa3job",
    b"99999999999999999999999",
    b"9" * 5_000,
    b"-1",
    b"-0",
    b"nan",
    b"inf",
    b"1e400",
    b"x\ny",
    b"{}",
    "ünï \u2028".encode(),
]


@pytest.fixture(scope="module")
def one_server() -> Iterator[RedisProcess]:
    server = RedisProcess(str(binaries()["valkey"]))
    yield server
    server.stop()


@pytest.fixture
async def store(one_server: RedisProcess) -> AsyncIterator[Store]:
    one_server.flush()
    opened = Store(one_server.url, key_prefix="lingua:v1", timeout_ms=30_000)
    await opened.open()
    yield opened
    await opened.close()


ROOM = RoomName("default", "483920")
ROOM_MEMBER = Participant("s-1", "i-here 1-1", AboutMember(name="Ann"), 0)


async def change_rooms(store: Store) -> None:
    """Whatever lies in their keys."""
    rooms, limits = store.rooms, RoomLimits(5, KEEP_MS)
    await rooms.create(ROOM, "id-1", "record", ROOM_MEMBER, limits)
    await rooms.join(ROOM, ROOM_MEMBER._replace(session_id="s-2"), limits)
    await rooms.wish(ROOM, "s-1", "s-2", wants_voice=False)
    await rooms.move(Stay(ROOM, "id-1"), "s-2", "i-here 1-2")
    looked = await rooms.look(ROOM)
    if looked.room is not None:
        await rooms.hold(looked.room, looked.room.members, "fresh", limits, has_spoken=True)
        await store.live_rooms.note([looked.room])
        await rooms.said(looked.room, "s-1", 0, 0, limits)
    await rooms.update(ROOM, "s-1", "i-here 1-1", AboutMember(name="Ann"))
    await store.live_rooms.page(0, 5)
    await store.live_rooms.find("id-1")
    await rooms.host(ROOM, "s-1", "unlock")
    await rooms.leave(ROOM, "s-3", "i-here 1-2")
    await rooms.let_guest_in(ROOM, GuestsAt("i-here", "1", {"en": GuestCount(1, 0)}), 5, limits)
    for address in ("here", "there"):
        await store.guesses.take(ROOM.tenant, address, 5, 5)
    await store.guesses.give_back(ROOM.tenant, "there")
    await rooms.note_stay("s-1", Stay(ROOM, "id-1"), KEEP_MS)
    await rooms.stay("s-1")


async def settle(store: Store) -> None:
    """Something honest in every family."""
    await store.versions.claim()
    for name in ("n1", "n2"):
        await join(store, entry(name, max_jobs=50, boot_id=name))
    await join(store, wide_entry("w1"))
    await store.nodes.beat(0, HERE, "n2", 45_000, "d 45000 - - -", 1)
    await store.jobs.dispatch(0, order("honest"), RULES)
    await store.jobs.note(0, JobNote("job-0-noted", (POOL,), "s-1", 0, "i-here"), KEEP_MS)
    failed = Attempt("job-0-failed", 1, (await store.jobs.dispatch(0, order("failed"), RULES)).node_id, 0)
    await store.jobs.end(failed, "", JobEvent.LOSE_ATTEMPT, Loss.ACK_TIMEOUT, quarantine=QUARANTINE)
    await store.services.suspend(0, "n2", Complaint("tts", "1"), ("tts",), 60_000, SUSPENDING)
    await store.instances.join(who("i-here"), DEAD_MS)
    await store.instances.show("i-here", b"{}")
    await store.instances.take_turn("i-here", KEEP_MS)
    for name in ("i-here", "i-dead"):
        await store.inboxes.prepare(name)
        await store.inboxes.post(name, letter(f"u-{name}"), ROOMY)
        await store.inboxes.post(name, letter(f"v-{name}"), ROOMY)
    ((first, _), *_) = await store.line.call("XRANGE", store.keys.inbox("i-here"), "-", "+", "COUNT", 1)
    await store.inboxes.bury("i-here", letter("u-i-here")._replace(entry_id=first), "unreadable", ROOMY)
    await store.inboxes.adopt("i-dead", "i-here", 1_000)
    _, term = await store.pools.claim("i-here", 60_000)
    await store.pools.publish(term, await store.pools.build_map())
    await store.sessions.open("s-1", A, "token", "{}", KEEP_MS)
    await store.sessions.park("s-1", A, [b'{"type":"missing_result"}'], most=5, keep_ms=KEEP_MS)
    await change_rooms(store)
    for name in ("left", "trusted"):
        await join(store, entry(name, max_jobs=50)._replace(believed_slots=8))
    await store.nodes.remove(0, HERE, "left", frozenset())
    await store.claims.claim("n1", "a" * 32, "acme", is_bound=False)
    await store.affinity.bind("key", "n1", 0, KEEP_MS)
    await store.failures.add([failure()], 100, KEEP_MS)
    await store.tallies.add(0, "n1", TallySums(1, 0, 5, 5), [TalliedError(1, "JOB_TIMEOUT", "j")])
    await store.chronicle.write([event(1)], moment(1), FleetMemory(at_ms=1, made_by="i-here"))
    await store.demand.note([POOL], ["xx:yy:text"])
    await store.alarms.note([("redis.full", 1)])
    await change_credentials(store)
    await change_logins(store)
    await store.requests.claim(RequestClaim(REQUEST, "t", "i-here", "p"), claim_ms=60_000, keep_ms=KEEP_MS)
    await Auditor(store.audit, KEYS, "i-here").write(AuditNote(actor=ACTOR, action="nodes.drain"))


async def change_logins(store: Store) -> None:
    await store.logins.add("d1", fresh_login("k3jPq0aZ81Ty", 1, 5), 60_000)
    await store.logins.add_flow("d1")
    await store.logins.add_code("d1", "k3jPq0aZ81Ty")
    await store.pairings.add("ABCD2345", Pairing("acme", "gpu-7"))


async def read_logins(store: Store) -> None:
    await store.logins.find("d1")
    await store.logins.keep("d1", 60_000)
    await store.logins.take_code("d1")
    await store.logins.take_flow("d1")


async def change_credentials(store: Store) -> None:
    version = await store.credentials.version()
    revocations = {tenant_name("acme"): Revocation(1, 2)}
    issuer = Issuer(id="k1", issuer="https://acme.example")
    assert await store.credentials.write(version, [key_named("a")], [issuer], revocations) is not None
    await store.credentials.note_uses({key_named("a").id: 5})


def readers(store: Store) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Whatever reads Redis, one by one, as the scheduler and its commands do."""
    nodes, jobs, pools = store.nodes, store.jobs, store.pools
    attempt = Attempt("job-0-honest", 1, "n1", 0)
    claim = RequestClaim(REQUEST, "t", "i-here", "p")

    async def adoption() -> None:
        adopted = await store.inboxes.adopt("i-dead", "i-here", 1_000)
        if adopted is not None:
            await store.inboxes.claim_adopted(adopted, 10, 0)
            await store.inboxes.release(adopted)

    async def looks() -> None:
        rows = [row async for some in store.looks.rows() for row in some]
        await store.looks.said(rows)

    async def publishing() -> None:
        _, term = await pools.claim("i-here", 60_000)
        await pools.publish(term, await pools.build_map())

    async def dead() -> None:
        await store.inboxes.dead_letters("i-here", 10)
        await store.inboxes.depth("i-here")

    async def audit() -> None:
        await store.audit.head()
        texts = (await store.audit.page())[0] + (await store.audit.page_back())[0]
        verify(texts, KEYS)
        await Auditor(store.audit, KEYS, "i-here").write(AuditNote(actor=ACTOR, action="nodes.drain"))

    return {
        "audit": audit,
        "overdue leases": lambda: jobs.overdue(0, 10),
        "overdue nodes": lambda: nodes.overdue(0, 10),
        "rebuild": lambda: store.ledger.rebuild(0),
        "placed": store.placements.all,
        "place_of": lambda: store.placements.find("n1"),
        "some_places": lambda: store.placements.sample(5),
        "holder": lambda: store.owners.holder("n1"),
        "known": lambda: store.owners.known(0),
        "shards": store.placements.shards,
        "view": store.node_views.all,
        "view_one": lambda: store.node_views.one("n1", 0),
        "owned_by": lambda: store.owners.owned_by({"i-dead"}),
        "reports_jobs": lambda: store.node_views.reports_jobs("n1", 0),
        "leases": lambda: store.ledger.leases("n1", 0),
        "beat": lambda: nodes.beat(0, HERE, "n1", 45_000, "d 45000 - - -", 0),
        "adopt": lambda: store.ledger.adopt(0, HERE, "n1", [Attempt("job-0-found", 0, "n1", 0), attempt], 60_000),
        "drain": lambda: nodes.drain("n2"),
        "resume": lambda: nodes.drain("n2", resume=True),
        "place": lambda: store.placements.assign("n3", 100, 1_000),
        "register": lambda: nodes.register(0, HERE, entry("n3")),
        "update": lambda: nodes.update(0, HERE, entry("n3"), frozenset({POOL})),
        "remove": lambda: nodes.remove(0, NOBODY, "n3", frozenset()),
        "check node": lambda: nodes.check(0, HERE, "n1", [POOL]),
        "misplaced": lambda: store.placements.misplaced({"n1": Place(0, 1)}),
        "restore place": lambda: store.placements.restore("n1", Place(0, 1), 100, 1_000),
        "restore": lambda: nodes.restore(0, HERE, entry("n1", max_jobs=50, boot_id="n1"), frozenset({POOL}), "1"),
        "leave": lambda: nodes.remove(0, HERE, "w1", frozenset()),
        "come back": lambda: nodes.register(0, HERE, wide_entry("w1")),
        "find": lambda: jobs.find("job-0-honest"),
        "latest": jobs.latest,
        "advance": lambda: jobs.advance(attempt, "1", JobEvent.ACCEPT),
        "end": lambda: jobs.end(attempt, "1", JobEvent.FINISH, quarantine=QUARANTINE),
        "lose": lambda: jobs.end(attempt, "", JobEvent.LOSE_ATTEMPT, Loss.ACK_TIMEOUT, quarantine=QUARANTINE),
        "is_over": lambda: jobs.is_over(attempt),
        "close": lambda: jobs.close(0, "job-0-noted", 0, JobEvent.FAIL, "x"),
        "pointer": lambda: jobs.leave_pointer(0, "job-0-noted", 0, 1),
        "note": lambda: jobs.note(0, JobNote("job-0-again", (POOL,), "s-1", 0, "i-here"), KEEP_MS),
        "explain": lambda: jobs.explain(0, "job-0-honest", "why"),
        "survey": lambda: store.surveys.look(0, (POOL,)),
        "suspend": lambda: store.services.suspend(0, "n2", Complaint("nmt", "1"), ("nmt",), 60_000, SUSPENDING),
        "looks": looks,
        "row": lambda: store.looks.row("n1", 0),
        "publish": publishing,
        "published": pools.published,
        "read_published": pools.read_published,
        "leader": pools.leader,
        "instances": store.instances.known,
        "turn": lambda: store.instances.take_turn("i-here", 1_000),
        "shown": store.instances.shown,
        "instance beat": lambda: store.instances.beat(who("i-here"), DEAD_MS),
        "instance join": lambda: store.instances.join(who("i-new"), DEAD_MS),
        "instance leave": lambda: store.instances.leave(who("i-new"), DEAD_MS),
        "post": lambda: store.inboxes.post("i-here", letter("w"), ROOMY),
        "claim letters": lambda: store.inboxes.claim("i-here", 10, 0),
        "adoption": adoption,
        "dead letters": dead,
        "session note": lambda: store.sessions.note("s-1", A, "[]", "", KEEP_MS),
        "session park": lambda: store.sessions.park("s-1", A, [b"x"], most=5, keep_ms=KEEP_MS),
        "session claim": lambda: store.sessions.claim("s-1", "i-other 1", "token", KEEP_MS),
        "session open": lambda: store.sessions.open("s-2", A, "token", "{}", KEEP_MS),
        "session close": lambda: store.sessions.close("s-2", A, keep_ms=60_000),
        "rooms": lambda: change_rooms(store),
        "affinity": lambda: store.affinity.read("key"),
        "demand": lambda: store.demand.note([POOL], ["xx:yz:text"]),
        "alarms": lambda: store.alarms.note([("redis.full", 1)]),
        "handle alarm": lambda: store.alarms.handle("redis.full", AlarmAction.SILENCE, 1_000, "me"),
        "credentials": store.credentials.read,
        "change credentials": lambda: change_credentials(store),
        "logins": lambda: read_logins(store),
        "change logins": lambda: change_logins(store),
        "request claim": lambda: store.requests.claim(claim, claim_ms=60_000, keep_ms=KEEP_MS),
        "request bind": lambda: store.requests.bind(claim, attempt, keep_ms=KEEP_MS),
        "request release": lambda: store.requests.release(claim),
        "version": store.versions.read,
        "claim version": store.versions.claim,
        "failures": lambda: store.failures.latest(FailureFilter(), 10),
        "add failures": lambda: store.failures.add([failure()], 100, KEEP_MS),
        "events": store.chronicle.events.news,
        "moments": store.chronicle.moments.news,
        "tally": lambda: store.tallies.read(0, "n1", 1),
        "add to tally": lambda: store.tallies.add(0, "n1", TallySums(1), []),
        "release": lambda: nodes.release("n2"),
        "memory": store.chronicle.memory,
        "chronicle": lambda: store.chronicle.write([event(2)], moment(2), FleetMemory(at_ms=2, made_by="i-here")),
        "check": lambda: Checkup(store).look(settle_s=0),
    }


async def keys_of(store: Store, family: KeyFamily) -> list[str]:
    found = []
    cursor = "0"
    while True:
        cursor, keys = await store.line.call("SCAN", cursor, "MATCH", "lingua:*", "COUNT", 1_000)
        found += [key for key in keys if getattr(store.keys.family_of(key), "name", "") == family.name]
        if cursor == "0":
            return sorted(found)


# A command that adds one entry of rubbish to a key of a type, and one that puts something of another type there.
def soil(kind: str, key: str, rubbish: bytes, dice: random.Random) -> tuple[Any, ...]:
    match kind:
        case "hash":
            return ("HSET", key, rubbish, dice.choice(RUBBISH))
        case "zset":
            return ("ZADD", key, dice.choice(["0", "-1", "inf", "1e300"]), rubbish)
        case "set":
            return ("SADD", key, rubbish)
        case "list":
            return ("RPUSH", key, rubbish)
        case "stream":
            return ("XADD", key, "*", rubbish or b"f", rubbish)
        case _:
            return ("SET", key, rubbish)


async def overwrite(store: Store, kind: str, key: str, dice: random.Random) -> None:
    """Rubbish where an honest value was: of a hash in one of its fields, of a set beside its members."""
    if kind != "hash":
        await store.line.call(*soil(kind, key, dice.choice(RUBBISH), dice))
        return
    for field in await store.line.call("HKEYS", key):
        await store.line.call("HSET", key, field, dice.choice(RUBBISH))


OTHER = {"hash": "string", "zset": "string", "set": "list", "list": "hash", "stream": "string", "string": "zset"}
WAYS = ("entries", "values", "type")
# Both kinds of pools are of one family.
FUZZED = list({family.name: family for family in reversed(FAMILIES) if family.type != "any"}.values())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("family", FUZZED, ids=lambda family: family.name)
async def test_garbage_harms_no_reader_and_is_removed_by_repair(store: Store, family: KeyFamily, way: str) -> None:
    dice = random.Random(f"{SEED} {family.name} {way}")
    print(f"SEED={SEED}")
    await settle(store)
    keys = await keys_of(store, family)
    assert keys, f"no honest {family.name} to soil"
    for key in keys:
        if way == "type":
            await store.line.call("DEL", key)
            await store.line.call(*soil(OTHER[family.type], key, dice.choice(RUBBISH), dice))
        elif way == "values":
            await overwrite(store, family.type, key, dice)
        else:
            for rubbish in RUBBISH:
                await store.line.call(*soil(family.type, key, rubbish, dice))
    for name, read in readers(store).items():
        try:
            await read()
        except Exception as error:
            raise AssertionError(f"{name} raised {error!r}; SEED={SEED}") from error
    # An honest node that comes now is served, whatever is around it.
    await store.instances.join(who("i-here"), DEAD_MS)
    _, place = await store.placements.assign("honest", 100, 1_000)
    await store.nodes.register(place.shard, HERE, entry("honest", max_jobs=5, boot_id="h"))
    job = msgspec.structs.replace(order("after"), job_id=f"job-{place.shard}-after")
    placed = await store.jobs.dispatch(place.shard, job, RULES)
    assert placed.outcome is DispatchOutcome.DISPATCHED, SEED
    assert "honest" in {view.node_id for view in await store.node_views.all()}
    assert (await store.jobs.find(job.job_id)) is not None
    await Checkup(store).put_right(settle_s=0)
    assert [finding.words for finding in await Checkup(store).look(settle_s=0) if finding.is_repairable] == [], SEED


@pytest.mark.parametrize("number", ["9" * 400, "9" * 5_000, "\u0663", "1e400", "zz"], ids=lambda number: number[:5])
async def test_a_number_nobody_can_read_harms_no_reader_and_is_removed_by_repair(store: Store, number: str) -> None:
    """In values that are right but for this number, which the random ones never are."""
    await settle(store)
    keys, call = store.keys, store.line.call
    claim = RequestClaim(REQUEST, "t", "i-here", "p")
    await store.requests.bind(claim, Attempt("job-0-honest", 1, "n1", 0), keep_ms=KEEP_MS)
    soiled = [
        (keys.shard(0).summary, POOL),
        (keys.map_config, "version"),
        (keys.map_config, "generated_at_ms"),
        (keys.request(*REQUEST), "attempt"),
        (keys.request(*REQUEST), "until"),
        (keys.session("s-1"), "generation"),
        (keys.shard(0).limits, "n1"),
    ]
    for key, field in soiled:
        await call("HSET", key, field, number)
    words = (await call("GET", keys.shard(0).job("job-0-honest"))).split(" ")
    for name, place in (("attempt", 1), ("run", 4), ("utterance", 6)):
        changed = " ".join([*words[:place], number, *words[place + 1 :]])
        await call("SET", keys.shard(0).job(f"job-0-{name}"), changed)
        attempt = Attempt(f"job-0-{name}", 1, words[2], 0)
        await store.jobs.advance(attempt, words[3], JobEvent.ACCEPT)
        await store.jobs.find(attempt.job_id)
        await store.jobs.end(attempt, words[3], JobEvent.FINISH)
    await call("SET", keys.leader, f"i-x {number}", "PX", 60_000)
    await call("SET", keys.leader_epochs, number)
    for name, read in readers(store).items():
        try:
            await read()
        except Exception as error:
            raise AssertionError(f"{name} raised {error!r}") from error
    await Checkup(store).put_right(settle_s=0)
    assert [finding.words for finding in await Checkup(store).look(settle_s=0) if finding.is_repairable] == []


async def test_many_rubbish_leases_and_nodes_do_not_hide_those_behind_them(store: Store) -> None:
    keys = store.keys.shard(0)
    await join(store, entry("n1"))
    await store.line.call("ZADD", keys.leases, *(word for n in range(50) for word in ("0", f"rubbish#{n}")))
    await store.line.call("ZADD", keys.seen, *(word for n in range(50) for word in ("0", f"rubbish {n}")))
    await store.line.call("ZADD", keys.leases, 1, "job-0-late#1#n1")
    await store.line.call("ZADD", keys.seen, 1, "n1")
    assert await store.jobs.overdue(0, 10) == [Attempt("job-0-late", 1, "n1", 0)]
    assert await store.nodes.overdue(0, 10) == ["n1"]
    await store.ledger.rebuild(0)
    assert await store.line.call("ZRANGE", keys.leases, 0, -1) == ["job-0-late#1#n1"]


anything = st.binary(max_size=200).map(lambda raw: raw.decode("utf-8", "surrogateescape")) | st.text(max_size=200)


@given(anything)
def test_no_parser_raises(text: str) -> None:
    for parse in (
        Ownership.parse, Place.parse, Pool.parse, Pair.parse, JobId.parse, JobHandle.parse,
        reading.is_shard, reading.is_node, reading.is_instance,
        reading.profile_of, reading.whole, reading.is_text, reading.number_of, reading.slots_of, fields_of,
        reading.revision_of, unreadable.printable,
    ):  # fmt: skip
        parse(text)
    for parse_entry in (reading.credential_of, reading.issuer_of, reading.revocation_of):
        parse_entry(text, text)
