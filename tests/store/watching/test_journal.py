"""A journal: in order, page by page, bounded by number and age, and nothing unreadable stops its readers."""

import pytest

from lingua_scheduler.store.store import Store
from lingua_scheduler.store.watching.journal import BEGINNING, PAGE, Journal


@pytest.fixture
def journal(store: Store) -> Journal:
    return Journal(store.line, store.scripts, store.unreadable, store.keys.events)


async def texts(journal: Journal, most: int = 5_000, since_ms: int = 0) -> list[str]:
    return [entry.text async for entry in journal.newest(most, since_ms)]


async def test_what_is_appended_can_be_read_from_both_ends(journal: Journal) -> None:
    await journal.append([b"1", b"2"], 100, 60_000)
    await journal.append([b"3"], 100, 60_000)
    entries = await journal.after(BEGINNING)
    assert [entry.text for entry in entries] == ["1", "2", "3"]
    assert [entry.text for entry in await journal.after(entries[1].entry_id)] == ["3"]
    assert await texts(journal) == ["3", "2", "1"]
    assert await texts(journal, most=2) == ["3", "2"]


async def test_nothing_is_written_for_nothing(journal: Journal, store: Store) -> None:
    await journal.append([], 100, 60_000)
    assert await store.line.call("EXISTS", store.keys.events) == 0


async def test_it_is_read_page_by_page(journal: Journal) -> None:
    for first in range(0, 2 * PAGE + 10, 100):
        await journal.append([str(number).encode() for number in range(first, first + 100)], 10_000, 60_000)
    found = await texts(journal)
    assert found == [str(number) for number in reversed(range(2 * PAGE + 100))]
    assert len(await texts(journal, most=PAGE + 1)) == PAGE + 1


async def test_old_entries_leave_by_number(journal: Journal, store: Store) -> None:
    for _ in range(10):
        await journal.append([b"x"] * 100, 200, 60_000)
    # Redis trims whole blocks.
    assert 200 <= await store.line.call("XLEN", store.keys.events) < 400


async def test_old_entries_leave_by_age_and_the_whole_journal_expires(journal: Journal, store: Store) -> None:
    for number in range(1, 251):
        await store.line.call("XADD", store.keys.events, f"1000-{number}", "text", "old")
    await journal.append([b"y"], 10_000, 60_000)
    assert (await texts(journal))[0] == "y"
    assert "1000-1" not in [entry.entry_id for entry in await journal.after(BEGINNING)]
    assert 0 < await store.line.call("PTTL", store.keys.events) <= 60_000


async def test_what_another_wrote_there_is_skipped_and_counted(journal: Journal, store: Store) -> None:
    await store.line.call("XADD", store.keys.events, "*", "a", "b", "c", "d")
    await store.line.call("XADD", store.keys.events, "*", "entry", b"\xff")
    await journal.append([b"good"], 100, 60_000)
    assert await texts(journal) == ["good"]
    assert store.unreadable.lately == ["events"]
