"""Reads the audit log page by page, the newest entry first."""

from typing import NamedTuple

from lingua_scheduler.domain.access.audit import AuditEntry, read_entry
from lingua_scheduler.domain.access.audit_filters import AuditFilter
from lingua_scheduler.store.access.audit import AuditStore

# Entries that one request reads at most: a filter that few fit must not read a whole log of a million.
MOST_READ = 5_000


class AuditPage(NamedTuple):
    entries: list[AuditEntry]
    # Where the next page goes on, as `before`; 0 if there is none.
    next_before: int


class AuditReader:
    def __init__(self, store: AuditStore, most_read: int = MOST_READ) -> None:
        self._store = store
        self._most_read = most_read

    async def page(self, wanted: AuditFilter, limit: int, before: int = 0) -> AuditPage:
        """Entries before this number; 0 = the newest. May have fewer than `limit` and still go on. Raises RedisAway."""
        found: list[AuditEntry] = []
        place, read = (f"{before}-0" if before else "+"), 0
        while place and read < self._most_read:
            texts, place = await self._store.page_back(place)
            read += len(texts)
            for entry in map(read_entry, texts):
                if entry is None or not wanted.fits(entry):
                    continue
                found.append(entry)
                if len(found) == limit:
                    return AuditPage(found, entry.seq if entry.seq > 1 else 0)
        return AuditPage(found, int(place.partition("-")[0]) if place else 0)
