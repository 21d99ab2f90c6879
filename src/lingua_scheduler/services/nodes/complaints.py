"""Reports of nodes that a service is missing.

They are queued, deduplicated and bounded, so that a storm stays cheap."""

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.nodes.complaints import Complaint, SuspendOutcome, complaint_of, services_hit
from lingua_scheduler.services.nodes.links import COMPLAINT_RULES, NodeLink
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.nodes.services import Services
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()

_COMPLAINTS = metrics.by(metrics.COMPLAINTS, *SuspendOutcome, "dropped")

# Complaints of all nodes that wait to be written; those that find no room are dropped, and come again if they matter.
MAX_WAITING = 1_000


class Complaints:
    def __init__(self, services: Services, unavailable_ms: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._services = services
        self._unavailable_ms = unavailable_ms
        # The same complaint waits once.
        self._waiting: dict[tuple[str, Complaint], NodeLink] = {}
        self._tasks = Nursery("complaints")
        self._is_writing = False

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, link: NodeLink, details: object) -> None:
        """Queue the report without waiting; a background task writes it to Redis."""
        complaint = complaint_of(details)
        outcome = link.complaints.judge(complaint, self._clock() * 1000)
        if outcome is not SuspendOutcome.SUSPENDED:
            _COMPLAINTS[outcome].inc()
            return
        if len(self._waiting) >= MAX_WAITING:
            _COMPLAINTS["dropped"].inc()
            return
        self._waiting[link.node_id, complaint] = link
        if not self._is_writing:
            self._is_writing = True
            self._tasks.start(self._write())

    async def close(self) -> None:
        await self._tasks.close()

    async def _write(self) -> None:
        try:
            while self._waiting:
                key = next(iter(self._waiting))
                link = self._waiting.pop(key)
                try:
                    await self._suspend(link, key[1])
                except RedisAway:
                    _COMPLAINTS["dropped"].inc()
        finally:
            self._is_writing = False

    async def _suspend(self, link: NodeLink, complaint: Complaint) -> None:
        services = services_hit(complaint.service_id, link.profile.installed)
        outcome = await self._services.suspend(
            link.shard, link.node_id, complaint, services, self._unavailable_ms, COMPLAINT_RULES
        )
        _COMPLAINTS[outcome].inc()
        if outcome is SuspendOutcome.SUSPENDED:
            _log.warning("service.unavailable", node_id=link.node_id, services=services)
