"""The leader signs the head of the audit log and writes it to the ordinary log, which leaves the machine."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.audit import AuditHead, read_entry
from lingua_scheduler.domain.access.audit_anchors import Anchor, read_anchors, statement, written
from lingua_scheduler.domain.access.audit_check import AuditCheck, AuditFaultKind, AuditVerdict
from lingua_scheduler.domain.access.audit_keys import AuditKeys
from lingua_scheduler.store.access.audit import AuditStore
from lingua_scheduler.telemetry import logs
from lingua_sdk.private_files import write_private

_log = logs.get()

ANCHOR_S = 300.0


class AnchorMemory:
    """The furthest anchor in a file, so that a log that Redis lost as a whole is not taken for one that never was."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def keep(self, anchor: Anchor) -> None:
        """A full disk is no reason to stop."""
        try:
            await asyncio.to_thread(self._keep, anchor)
        except OSError as error:
            _log.warning("audit.anchor_unwritten", path=str(self._path), error=str(error))

    def read(self) -> Anchor | None:
        """Raises OSError, if the file is there and cannot be read."""
        try:
            with self._path.open(errors="replace") as file:
                return max(read_anchors(file), default=None)
        except FileNotFoundError:
            return None

    def _keep(self, anchor: Anchor) -> None:
        known = self.read()
        if known is not None and known.key_id == anchor.key_id and known.head.seq >= anchor.head.seq:
            return
        write_private(self._path, f"{written(anchor)}\n".encode("ascii"))


class Anchors:
    def __init__(
        self,
        store: AuditStore,
        keys: AuditKeys,
        every: int,
        is_leading: Callable[[], bool],
        memory: AnchorMemory | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._store = store
        self._keys = keys
        self._every = every
        self._is_leading = is_leading
        self._memory = memory
        self._clock = clock
        self._anchored = AuditHead()
        self._anchored_at_s = clock()

    async def look(self) -> None:
        """A periodic chore: after enough entries, or once entries have waited for long enough."""
        if not self._is_leading():
            return
        head = await self._store.head()
        if head is None or head == self._anchored:
            self._anchored_at_s = self._clock()
            return
        is_far = abs(head.seq - self._anchored.seq) >= self._every
        if is_far or self._clock() - self._anchored_at_s >= ANCHOR_S:
            await self._anchor(head)

    async def finish(self) -> None:
        """Before the leader stops: what it has not signed yet."""
        if self._is_leading() and (head := await self._store.head()) not in (None, self._anchored):
            await self._anchor(head)

    async def _anchor(self, head: AuditHead) -> None:
        """What was tampered with since the last anchor is not signed: it would look right from then on."""
        verdict = await self._checked(head)
        self._anchored, self._anchored_at_s = head, self._clock()
        for fault in verdict.faults:
            match fault.kind:
                case AuditFaultKind.LOST:
                    # Our own entry says so; it can be signed.
                    _log.warning("audit.lost", seq=fault.seq, until=fault.until)
                case AuditFaultKind.UNKNOWN_KEY:
                    # Another instance has another key file.
                    _log.warning("audit.unverified", seq=fault.seq, faults=verdict.fault_count)
                    return
                case _:
                    _log.error("audit.broken", seq=fault.seq, fault=fault.kind.value, faults=verdict.fault_count)
                    return
        signature = self._keys.sign(statement(head))
        _log.info("audit.anchor", seq=head.seq, hash=head.hash, key=self._keys.current, signature=signature)
        if self._memory is not None:
            await self._memory.keep(Anchor(head, self._keys.current, signature))

    async def _checked(self, head: AuditHead) -> AuditVerdict:
        # The last one that was signed is the beginning, so that the next must follow it.
        start = self._anchored.seq if 0 < self._anchored.seq < head.seq else head.seq
        check = AuditCheck(self._keys, head=head, start=start)
        after = f"{start - 1}-0"
        while after:
            texts, after = await self._store.page(after)
            for text in texts:
                entry = read_entry(text)
                # What was written after the head was read is for the next time.
                if entry is None or entry.seq <= head.seq:
                    check.feed(text)
        return check.verdict()
