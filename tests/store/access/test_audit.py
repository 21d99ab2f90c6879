"""The audit log in Redis: an entry is appended only behind the one that it follows."""

import asyncio

import pytest

from lingua_scheduler.domain.access.audit import AppendOutcome, AuditHead
from lingua_scheduler.store.access.audit import Appended
from lingua_scheduler.store.store import Store
from tests.support.audits import KEYS, chain, following, texts

ENTRIES = chain(5)


async def write_all(store: Store) -> None:
    head = ""
    for number, entry in enumerate(ENTRIES, 1):
        assert await store.audit.append(head, entry) == Appended(AppendOutcome.APPENDED, length=number)
        head = str(entry.head)


async def test_entries_that_follow_each_other_are_appended(store: Store) -> None:
    assert await store.audit.head() is None
    await write_all(store)
    assert await store.audit.head() == ENTRIES[-1].head
    assert await store.audit.page() == (texts(ENTRIES), "")
    assert await store.audit.length() == 5


async def test_an_entry_behind_another_head_is_told_where_the_head_is(store: Store) -> None:
    await write_all(store)
    late = following(ENTRIES[2].head, "late.entry")
    moved = Appended(AppendOutcome.MOVED, head=str(ENTRIES[-1].head))
    assert await store.audit.append(str(ENTRIES[2].head), late) == moved
    assert await store.audit.append("", chain(1)[0]) == moved
    assert await store.audit.length() == 5


async def test_an_append_that_is_repeated_writes_once(store: Store) -> None:
    await write_all(store)
    again = await store.audit.append(str(ENTRIES[3].head), ENTRIES[4])
    assert again == Appended(AppendOutcome.APPENDED, length=5)
    assert await store.audit.length() == 5


async def test_of_racing_writers_one_is_appended(store: Store) -> None:
    racers = [following(AuditHead(), f"racer.{number}") for number in range(20)]
    replies = await asyncio.gather(*(store.audit.append("", racer) for racer in racers))
    assert [reply.outcome for reply in replies].count(AppendOutcome.APPENDED) == 1
    assert await store.audit.length() == 1


async def test_without_its_head_the_log_says_how_far_it_goes(store: Store) -> None:
    await write_all(store)
    await store.line.call("DEL", store.keys.audit_head)
    reply = await store.audit.append("", chain(1)[0])
    assert reply == Appended(AppendOutcome.BEHIND, last_seq=5)
    assert await store.audit.head_text() == ""


async def test_a_head_that_is_no_text_can_be_named_and_replaced(store: Store) -> None:
    await store.line.call("SET", store.keys.audit_head, b"\xff rubbish")
    assert await store.audit.head() is None
    first = ENTRIES[0]
    moved = await store.audit.append("", first)
    assert moved.outcome is AppendOutcome.MOVED
    assert (await store.audit.append(moved.head, first)).outcome is AppendOutcome.APPENDED


async def test_pages_lead_through_the_log_in_both_directions(store: Store) -> None:
    await write_all(store)
    seen, after = await store.audit.page(most=2)
    while after:
        more, after = await store.audit.page(after, most=2)
        seen += more
    assert seen == texts(ENTRIES)
    seen, before = await store.audit.page_back(most=2)
    while before:
        more, before = await store.audit.page_back(before, most=2)
        seen += more
    assert seen == texts(ENTRIES)[::-1]


async def test_rubbish_keeps_its_place_as_an_empty_text(store: Store) -> None:
    await store.audit.append("", ENTRIES[0])
    await store.line.call("XADD", store.keys.audit_log, "2-0", "entry", b"\xff")
    await store.line.call("XADD", store.keys.audit_log, "3-0", "a", "1", "b", "2")
    assert (await store.audit.page())[0] == [texts(ENTRIES)[0], "", ""]
    assert store.unreadable.lately == ["log"]


@pytest.mark.parametrize("kept_from", [1, 3, 5, 9])
async def test_what_is_trimmed_are_the_entries_before_a_number(store: Store, kept_from: int) -> None:
    await write_all(store)
    await store.audit.trim(kept_from)
    assert (await store.audit.page())[0] == texts(ENTRIES)[kept_from - 1 :]
    assert await store.audit.head() == ENTRIES[-1].head
    assert KEYS.is_right(ENTRIES[-1])
