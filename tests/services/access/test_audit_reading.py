"""The audit log, page by page, with a real Redis."""

from lingua_scheduler.domain.access.audit import AuditNote
from lingua_scheduler.domain.access.audit_filters import AuditFilter
from lingua_scheduler.services.access.audit_reading import AuditReader
from lingua_scheduler.services.access.auditing import Auditor
from lingua_scheduler.store.store import Store
from tests.support.audits import ACTOR, KEYS


async def written(store: Store, count: int) -> None:
    auditor = Auditor(store.audit, KEYS, "i-1")
    for number in range(count):
        await auditor.write(AuditNote(actor=ACTOR, action="nodes.drain", object=f"n{number % 10}"))


async def test_pages_follow_each_other_without_a_gap(store: Store) -> None:
    await written(store, 25)
    reader, before, found = AuditReader(store.audit), 0, []
    while True:
        page = await reader.page(AuditFilter(), 10, before)
        found += [entry.seq for entry in page.entries]
        before = page.next_before
        if not before:
            break
    assert found == sorted(found, reverse=True)
    # The first entry may tell that the chain begins.
    assert len(found) == await store.audit.length()


async def test_a_filter_that_nothing_fits_reads_a_part_of_the_log_at_a_time(store: Store) -> None:
    await written(store, 520)
    reader = AuditReader(store.audit, most_read=500)
    page = await reader.page(AuditFilter(object="elsewhere"), 10)
    assert page.entries == []
    assert 0 < page.next_before < 30
    page = await reader.page(AuditFilter(object="elsewhere"), 10, page.next_before)
    assert page.next_before == 0


async def test_what_cannot_be_read_is_left_out(store: Store) -> None:
    await written(store, 2)
    await store.line.call("XADD", store.keys.audit_log, "900-0", "entry", "rubbish")
    page = await AuditReader(store.audit).page(AuditFilter(object="n1"), 10)
    assert [entry.object for entry in page.entries] == ["n1"]
