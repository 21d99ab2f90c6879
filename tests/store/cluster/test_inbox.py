"""Inboxes: nothing unread is lost, nothing is delivered for ever, one adopter at a time."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from lingua_scheduler.domain.cluster.instances import (
    BuryOutcome,
    InboxClaimOutcome,
    InboxReleaseOutcome,
    PostOutcome,
    ReplayOutcome,
)
from lingua_scheduler.store.cluster.inbox import FIRST, GROUP, Adoption
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.clusters import Cluster
from tests.support.mail import ROOMY, letter

BODY = bytes(range(256)) * 4
BLOCK_MS = 200
HOLD_MS = 5_000


@pytest.fixture
async def line(store: Store) -> AsyncIterator[RedisLine]:
    opened = store.another_line()
    await opened.open()
    yield opened
    await opened.close()


async def post(store: Store, *uids: str, to: str = "a") -> None:
    for uid in uids:
        assert await store.inboxes.post(to, letter(uid, BODY), ROOMY) is PostOutcome.SENT


async def adopt(store: Store, instance: str = "a", by: str = "b") -> Adoption:
    adoption = await store.inboxes.adopt(instance, by, HOLD_MS)
    assert adoption is not None
    return adoption


async def test_letters_are_read_in_order_whole_and_once(store: Store, line: RedisLine) -> None:
    await store.inboxes.prepare("a")
    await post(store, "u1", "u2", "u3")
    first = await store.inboxes.read(line, "a", 2, BLOCK_MS)
    rest = await store.inboxes.read(line, "a", 10, BLOCK_MS)
    assert [(found.uid, found.body, found.kind, found.sender) for found in first + rest] == [
        (uid, BODY, "nudge", "s") for uid in ("u1", "u2", "u3")
    ]
    assert await store.inboxes.read(line, "a", 10, BLOCK_MS) == []
    assert await store.inboxes.depth("a") == (3, 3, 0)
    await store.inboxes.done("a", [found.entry_id for found in first])
    await store.inboxes.done("a", [found.entry_id for found in first])
    assert await store.inboxes.depth("a") == (1, 1, 0)


async def test_letters_that_came_before_the_group_are_read(store: Store, line: RedisLine) -> None:
    await post(store, "early")
    await store.inboxes.prepare("a")
    await store.inboxes.prepare("a")
    assert [found.uid for found in await store.inboxes.read(line, "a", 10, BLOCK_MS)] == ["early"]


async def test_after_data_loss_the_group_is_made_again_and_misses_nothing(store: Store, line: RedisLine) -> None:
    await store.inboxes.prepare("a")
    await store.line.call("DEL", store.keys.inbox("a"))
    await post(store, "after")
    assert await store.inboxes.read(line, "a", 10, BLOCK_MS) == []
    assert [found.uid for found in await store.inboxes.read(line, "a", 10, BLOCK_MS)] == ["after"]


async def test_a_full_inbox_refuses_and_keeps_what_it_has(store: Store, line: RedisLine) -> None:
    await store.inboxes.prepare("a")
    few = ROOMY._replace(max_length=100)
    outcomes = [await store.inboxes.post("a", letter(str(i), BODY), few) for i in range(220)]
    assert outcomes == [PostOutcome.SENT] * 100 + [PostOutcome.FULL] * 120
    found = await store.inboxes.read(line, "a", 500, BLOCK_MS)
    assert [entry.uid for entry in found] == [str(i) for i in range(100)]
    # Read is not done: there is room only when the letters are gone.
    assert await store.inboxes.post("a", letter("x", BODY), few) is PostOutcome.FULL
    await store.inboxes.done("a", [entry.entry_id for entry in found[:1]])
    assert await store.inboxes.post("a", letter("x", BODY), few) is PostOutcome.SENT


async def test_many_senders_at_once_never_overfill_an_inbox(store: Store) -> None:
    tries = (store.inboxes.post("a", letter(str(i)), ROOMY._replace(max_length=10)) for i in range(100))
    assert (await asyncio.gather(*tries)).count(PostOutcome.SENT) == 10


async def test_an_inbox_is_bounded_by_memory_too(store: Store) -> None:
    big, few = b"\xfe" * 50_000, ROOMY._replace(max_bytes=500_000)
    outcomes = [await store.inboxes.post("a", letter(str(i), big), few) for i in range(30)]
    assert 5 <= outcomes.count(PostOutcome.SENT) <= 10
    assert outcomes[-1] is PostOutcome.FULL


async def test_what_was_not_done_is_claimed_again_and_counted(store: Store, line: RedisLine) -> None:
    await store.inboxes.prepare("a")
    await post(store, "u1", "u2")
    (first,) = await store.inboxes.read(line, "a", 1, BLOCK_MS)
    assert first.deliveries == 1
    assert (await store.inboxes.claim("a", 10, idle_ms=60_000)).entries == ()
    for deliveries in (2, 3, 4):
        again = await store.inboxes.claim("a", 10, idle_ms=0)
        assert [(entry.uid, entry.body, entry.deliveries) for entry in again.entries] == [("u1", BODY, deliveries)]


async def test_the_cursor_leads_past_poison_to_the_last_page(store: Store, line: RedisLine) -> None:
    await store.inboxes.prepare("a")
    await post(store, *(f"u{i}" for i in range(10)))
    await store.inboxes.read(line, "a", 10, BLOCK_MS)
    seen: list[str] = []
    cursor = FIRST
    while cursor:
        page = await store.inboxes.claim("a", 3, 0, cursor)
        seen += [entry.uid for entry in page.entries]
        cursor = page.cursor
    assert seen == [f"u{i}" for i in range(10)]


async def test_a_letter_that_was_deleted_under_its_reader_is_let_go(store: Store, line: RedisLine) -> None:
    await store.inboxes.prepare("a")
    await post(store, "u1", "u2")
    found = await store.inboxes.read(line, "a", 10, BLOCK_MS)
    await store.line.call("XDEL", store.keys.inbox("a"), found[0].entry_id)
    assert [entry.uid for entry in (await store.inboxes.claim("a", 10, 0)).entries] == ["u2"]
    assert await store.inboxes.depth("a") == (1, 1, 0)


async def test_an_adopter_gets_what_was_read_and_what_was_not(store: Store, line: RedisLine) -> None:
    await store.inboxes.prepare("a")
    await post(store, "read", "unread", "unread too")
    await store.inboxes.read(line, "a", 1, BLOCK_MS)
    claimed = await store.inboxes.claim_adopted(await adopt(store), 10, 0)
    assert [(entry.uid, entry.deliveries) for entry in claimed.entries] == [
        ("read", 2),
        ("unread", 1),
        ("unread too", 1),
    ]


async def test_an_inbox_without_a_group_can_be_adopted(store: Store) -> None:
    await post(store, "u1")
    claimed = await store.inboxes.claim_adopted(await adopt(store), 10, 0)
    assert [entry.uid for entry in claimed.entries] == ["u1"]


async def test_an_inbox_has_one_adopter_until_its_time_is_up(store: Store, clock: Clock) -> None:
    await post(store, "u1")
    tries = await asyncio.gather(*(store.inboxes.adopt("a", f"b{i}", HOLD_MS) for i in range(10)))
    (adoption,) = (found for found in tries if found is not None)
    clock.pass_ms(HOLD_MS - 1)
    assert (await store.inboxes.claim_adopted(adoption, 10, 0)).outcome is InboxClaimOutcome.CLAIMED
    clock.pass_ms(HOLD_MS - 1)
    assert await store.inboxes.adopt("a", "c", HOLD_MS) is None
    clock.pass_ms(1)
    later = await adopt(store, by="c")
    assert later.epoch == adoption.epoch + 1
    assert (await store.inboxes.claim_adopted(adoption, 10, 0)).outcome is InboxClaimOutcome.LOST
    assert await store.inboxes.release(adoption, remove=True) is InboxReleaseOutcome.LOST
    assert await store.inboxes.release(later) is InboxReleaseOutcome.RELEASED
    assert (await adopt(store, by="d")).epoch == later.epoch + 1


async def test_an_inbox_with_letters_is_not_removed(store: Store, line: RedisLine) -> None:
    await store.inboxes.prepare("a")
    await post(store, "u1")
    adoption = await adopt(store)
    assert await store.inboxes.release(adoption, remove=True) is InboxReleaseOutcome.RELEASED
    (entry,) = await store.inboxes.read(line, "a", 10, BLOCK_MS)
    await store.inboxes.bury("a", entry, "failed", ROOMY)
    assert await store.inboxes.release(await adopt(store), remove=True) is InboxReleaseOutcome.RELEASED
    await store.inboxes.purge("a", [dead.entry.entry_id for dead in await store.inboxes.dead_letters("a", 10)])
    assert await store.inboxes.release(await adopt(store), remove=True) is InboxReleaseOutcome.REMOVED
    names = (store.keys.inbox("a"), store.keys.dead_letters("a"), store.keys.adopter("a"))
    assert await store.line.call("EXISTS", *names) == 0


async def test_a_dead_letter_without_speech_is_kept_whole_and_can_be_replayed(store: Store, line: RedisLine) -> None:
    await store.inboxes.prepare("a")
    await post(store, "u1")
    (entry,) = await store.inboxes.read(line, "a", 10, BLOCK_MS)
    tried = entry._replace(deliveries=5)
    assert await store.inboxes.bury("a", tried, "failed", ROOMY, subject="j", keeps_body=True) is BuryOutcome.BURIED
    assert await store.inboxes.bury("a", entry, "failed", ROOMY) is BuryOutcome.GONE
    assert await store.inboxes.depth("a") == (0, 0, 1)
    (dead,) = await store.inboxes.dead_letters("a", 10)
    assert (dead.reason, dead.entry.uid, dead.entry.body, dead.entry.deliveries) == ("failed", "u1", BODY, 5)
    assert await store.inboxes.replay("a", dead.entry.entry_id, ROOMY) is ReplayOutcome.REPLAYED
    assert await store.inboxes.replay("a", dead.entry.entry_id, ROOMY) is ReplayOutcome.GONE
    (again,) = await store.inboxes.read(line, "a", 10, BLOCK_MS)
    assert (again.uid, again.body, again.deliveries) == ("u1", BODY, 1)
    assert await store.inboxes.depth("a") == (1, 1, 0)
    assert len((await store.line.call("XRANGE", store.keys.inbox("a"), "-", "+"))[0][1]) == 8


async def test_of_a_dead_letter_with_speech_only_the_envelope_is_kept(store: Store, line: RedisLine) -> None:
    await store.inboxes.prepare("a")
    await post(store, "u1")
    await store.line.call("XADD", store.keys.inbox("a"), "*", "from_the_future", BODY)
    for entry in await store.inboxes.read(line, "a", 10, BLOCK_MS):
        assert await store.inboxes.bury("a", entry, "failed", ROOMY, subject="job-0-1") is BuryOutcome.BURIED
    dead, strange = await store.inboxes.dead_letters("a", 10)
    assert (dead.subject, dead.body_bytes, dead.entry.uid, dead.entry.body) == ("job-0-1", len(BODY), "u1", b"")
    assert BODY.decode("latin-1") not in str(await store.line.call("XRANGE", store.keys.dead_letters("a"), "-", "+"))
    assert strange.entry.kind == ""
    assert await store.inboxes.replay("a", dead.entry.entry_id, ROOMY) is ReplayOutcome.BARE
    assert await store.inboxes.depth("a") == (0, 0, 2)


async def test_dead_letters_are_bounded_and_the_oldest_give_way(store: Store, line: RedisLine) -> None:
    await store.inboxes.prepare("a")
    await post(store, *(f"u{i}" for i in range(5)))
    for entry in await store.inboxes.read(line, "a", 10, BLOCK_MS):
        await store.inboxes.bury("a", entry, "failed", ROOMY._replace(max_dead=3))
    assert [dead.entry.uid for dead in await store.inboxes.dead_letters("a", 10)] == ["u2", "u3", "u4"]


async def test_something_that_is_no_letter_is_read_as_one_of_no_kind(store: Store, line: RedisLine) -> None:
    await store.inboxes.prepare("a")
    await store.line.call("XADD", store.keys.inbox("a"), "*", "rub", b"\xff\xfe")
    (entry,) = await store.inboxes.read(line, "a", 10, BLOCK_MS)
    assert (entry.kind, entry.body) == ("", b"")


async def test_a_blocked_reader_keeps_nobody_waiting(store: Store, line: RedisLine) -> None:
    await store.inboxes.prepare("a")
    reading = asyncio.ensure_future(store.inboxes.read(line, "a", 10, 1_000))
    await post(store, "elsewhere", to="b")
    assert not reading.done()
    await post(store, "here")
    assert [entry.uid for entry in await reading] == ["here"]


async def test_bytes_that_are_no_text_do_not_break_the_shared_line(store: Store) -> None:
    await store.line.call("SET", "x", b"\xff\xfeok")
    assert (await store.line.call("GET", "x")).encode("utf-8", "surrogateescape") == b"\xff\xfeok"


async def test_on_a_cluster_inboxes_are_spread_and_each_is_read_where_it_lives(cluster: Cluster) -> None:
    store = Store(cluster.url, key_prefix="test:v1")
    await store.open()
    line = store.another_line()
    await line.open()
    names = [f"i{number}" for number in range(12)]
    assert len({cluster.owner_of(store.keys.inbox(name)).port for name in names}) == 3
    for name in names:
        await store.inboxes.prepare(name)
        await post(store, f"to {name}", to=name)
        (entry,) = await store.inboxes.read(line, name, 10, BLOCK_MS)
        assert entry.uid == f"to {name}"
        assert await store.line.call("XPENDING", store.keys.inbox(name), GROUP, "-", "+", 10)
    await line.close()
    await store.close()


async def test_speech_that_nobody_fetches_does_not_stay_for_ever(store: Store, line: RedisLine) -> None:
    await store.inboxes.prepare("a")
    brief = ROOMY._replace(keep_ms=60_000)
    await store.inboxes.post("a", letter("u1"), brief)
    await store.inboxes.post("a", letter("u2"), brief)
    one, other = await store.inboxes.read(line, "a", 10, BLOCK_MS)
    await store.inboxes.bury("a", one, "failed", brief)
    for name in (store.keys.inbox("a"), store.keys.dead_letters("a")):
        assert 0 < await store.line.call("PTTL", name) <= 60_000
    # What is older than that goes with the next burial, though the stream lives on.
    await store.line.call("DEL", store.keys.dead_letters("a"))
    ancient = ("1-1", "kind", "k", "sender", "s", "uid", "ancient", "body", "b", "reason", "r", "deliveries", 1)
    await store.line.call("XADD", store.keys.dead_letters("a"), *ancient)
    await store.inboxes.bury("a", other, "failed", brief)
    assert [dead.entry.uid for dead in await store.inboxes.dead_letters("a", 10)] == ["u2"]


async def test_a_letter_with_too_many_fields_is_buried_and_may_be_replayed(store: Store, line: RedisLine) -> None:
    await store.inboxes.prepare("a")
    fields = ["kind", "nudge", "sender", "s", "uid", "u1", "body", "b", *map(str, range(20_000))]
    await store.line.call("XADD", store.keys.inbox("a"), "*", *fields)
    (entry,) = await store.inboxes.read(line, "a", 10, BLOCK_MS)
    assert await store.inboxes.bury("a", entry, "failed", ROOMY, keeps_body=True) is BuryOutcome.BURIED
    (dead,) = await store.inboxes.dead_letters("a", 10)
    assert (dead.entry.uid, dead.entry.body, dead.reason) == ("u1", b"b", "failed")
    assert await store.inboxes.replay("a", dead.entry.entry_id, ROOMY) is ReplayOutcome.REPLAYED
    (again,) = await store.inboxes.read(line, "a", 10, BLOCK_MS)
    assert (again.uid, again.body) == ("u1", b"b")


async def test_a_dead_letter_with_too_many_fields_may_be_replayed(store: Store, line: RedisLine) -> None:
    await store.inboxes.prepare("a")
    fields = ["kind", "nudge", "sender", "s", "uid", "u1", "body", "b", *map(str, range(20_000))]
    await store.line.call("XADD", store.keys.dead_letters("a"), "*", *fields)
    (dead,) = await store.inboxes.dead_letters("a", 10)
    assert await store.inboxes.replay("a", dead.entry.entry_id, ROOMY) is ReplayOutcome.REPLAYED
    (again,) = await store.inboxes.read(line, "a", 10, BLOCK_MS)
    assert (again.uid, again.body) == ("u1", b"b")
