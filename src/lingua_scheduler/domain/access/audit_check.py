"""The check of an audit log: names the first entry that was changed, is missing or stands elsewhere."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from lingua_scheduler.domain.access.audit import AuditAction, AuditEntry, AuditHead, read_entry
from lingua_scheduler.domain.access.audit_anchors import Anchor, statement
from lingua_scheduler.domain.access.audit_keys import AuditKeys

# More are counted, not listed.
MOST_FAULTS = 100


class AuditFaultKind(StrEnum):
    UNREADABLE = "unreadable"
    CHANGED = "changed"
    UNKNOWN_KEY = "unknown_key"
    MISSING = "missing"
    LOST = "lost"  # missing, and the scheduler noticed it: a new chain begins
    REORDERED = "reordered"
    REPLACED = "replaced"  # an anchor or the head names another entry


class AuditFault(msgspec.Struct, frozen=True, kw_only=True):
    # The first entry concerned, and the last.
    seq: int
    until: int
    kind: AuditFaultKind
    words: str


class AuditVerdict(msgspec.Struct, frozen=True, kw_only=True):
    entries: int
    first: int
    last: int
    # By place in the log.
    faults: list[AuditFault]
    fault_count: int
    anchors: int
    # Of entries that are not kept any more, and with keys that are not here.
    anchors_past: int
    anchors_foreign: int

    @property
    def is_good(self) -> bool:
        return not self.fault_count


def verify(
    texts: Iterable[str], keys: AuditKeys, anchors: Iterable[Anchor] = (), head: AuditHead | None = None, start: int = 1
) -> AuditVerdict:
    """Check the entries of a log, in its order. `head` was read before them; entries before `start` do not matter."""
    check = AuditCheck(keys, anchors, head, start)
    for text in texts:
        check.feed(text)
    return check.verdict()


class AuditCheck:
    """As `verify`, for entries that come in pages."""

    def __init__(
        self, keys: AuditKeys, anchors: Iterable[Anchor] = (), head: AuditHead | None = None, start: int = 1
    ) -> None:
        self._keys = keys
        self._start = start
        self._head = head
        self._faults: list[AuditFault] = []
        self._fault_count = 0
        self._foreign = 0
        self._anchors = self._trusted(anchors)
        # Of entries that anchors and the head name, the hash that was found.
        self._wanted = {anchor.head.seq for anchor in self._anchors} | ({head.seq} if head is not None else set())
        self._found: dict[int, str] = {}
        self._count = 0
        self._first = 0
        self._last = AuditHead()
        self._begins_anew = False
        # The log may begin here: everything before was removed, and an entry says so.
        self._kept_from = max(1, start)

    def feed(self, text: str) -> None:
        entry = read_entry(text)
        expected = self._last.seq + 1
        if entry is None:
            self._blame(max(expected, self._start), AuditFaultKind.UNREADABLE, "cannot be read")
        elif entry.seq >= self._start:
            self._check(entry, expected)

    def _check(self, entry: AuditEntry, expected: int) -> None:
        is_right = self._keys.is_right(entry)
        if is_right is False:
            # Its number may be wrong too: it is taken for the one that should be here.
            seq = expected if self._count else entry.seq
            self._blame(seq, AuditFaultKind.CHANGED, "was changed: its hash is wrong")
            self._accept(AuditHead(seq, entry.hash))
            return
        if self._count and entry.seq < expected:
            self._blame_order(entry.seq)
            return
        if self._count:
            self._check_place(entry, expected)
        self._begins_anew |= not self._count and entry.action == AuditAction.CHAIN_BEGUN
        if is_right is None:
            words = f"has a hash of the key {entry.key[:16]}, which is not here, so it cannot be checked"
            self._blame(entry.seq, AuditFaultKind.UNKNOWN_KEY, words)
        elif entry.action == AuditAction.LOG_TRIMMED:
            self._note_trim(entry)
        self._accept(entry.head)

    def _accept(self, head: AuditHead) -> None:
        self._first = self._first or head.seq
        self._count += 1
        self._last = head
        if head.seq in self._wanted:
            self._found[head.seq] = head.hash

    def _note_trim(self, entry: AuditEntry) -> None:
        kept_from = entry.values.get("kept_from")
        if isinstance(kept_from, int) and kept_from <= entry.seq:
            self._kept_from = max(self._kept_from, kept_from)

    def verdict(self) -> AuditVerdict:
        """Call it once, after the last entry."""
        self._check_begin()
        past = 0
        for anchor in self._anchors:
            past += not self._check_named(anchor.head, "an anchor")
        if self._head is not None:
            self._check_named(self._head, "the head")
        return AuditVerdict(
            entries=self._count,
            first=self._first,
            last=self._last.seq,
            faults=sorted(self._faults, key=lambda fault: fault.seq),
            fault_count=self._fault_count,
            anchors=len(self._anchors) - past,
            anchors_past=past,
            anchors_foreign=self._foreign,
        )

    def _check_place(self, entry: AuditEntry, expected: int) -> None:
        begins = entry.action == AuditAction.CHAIN_BEGUN
        if entry.seq > expected:
            kind = AuditFaultKind.LOST if begins else AuditFaultKind.MISSING
            words = "missing" + (f": Redis lost them, and entry {entry.seq} begins a new chain" if begins else "")
            self._blame(expected, kind, words, until=entry.seq - 1)
        elif entry.prev != self._last.hash:
            words = "does not follow the entry before it" + (": Redis lost its data, a new chain begins" * begins)
            self._blame(entry.seq, AuditFaultKind.LOST if begins else AuditFaultKind.CHANGED, words)

    def _check_begin(self) -> None:
        if self._count and self._first > self._kept_from:
            kind, words = AuditFaultKind.MISSING, "missing at the beginning of the log; no entry says why"
            if self._begins_anew:
                kind = AuditFaultKind.LOST
                words = f"missing: Redis lost them, and entry {self._first} begins a new chain"
            self._blame(self._kept_from, kind, words, until=self._first - 1)

    def _check_named(self, head: AuditHead, who: str) -> bool:
        """Whether the entry that is named is kept still, or should be."""
        if head.seq in self._found:
            if self._found[head.seq] != head.hash:
                words = f"was replaced: {who} names another hash"
                self._blame(head.seq, AuditFaultKind.REPLACED, words)
            return True
        if head.seq > self._last.seq:
            begin = max(self._last.seq + 1, self._kept_from)
            words = f"missing at the end of the log: {who} names {head.seq}"
            self._blame(min(begin, head.seq), AuditFaultKind.MISSING, words, until=head.seq)
            return True
        # Before the log begins; or it is missing, which was found.
        return head.seq >= self._first

    def _trusted(self, anchors: Iterable[Anchor]) -> list[Anchor]:
        found = []
        for anchor in sorted(set(anchors)):
            is_signed = self._keys.is_signed(anchor.key_id, statement(anchor.head), anchor.signature)
            if is_signed is None:
                self._foreign += 1
            elif not is_signed:
                words = "an anchor has a wrong signature"
                self._blame(anchor.head.seq, AuditFaultKind.REPLACED, words)
            elif anchor.head.seq >= self._start:
                found.append(anchor)
        return found

    def _blame_order(self, seq: int) -> None:
        """An entry that stands behind a later one. If it was missed at its own place, that is the fault."""
        for number, fault in enumerate(self._faults):
            if fault.kind is AuditFaultKind.MISSING and fault.seq <= seq <= fault.until:
                words = f"entry {seq} stands behind later ones"
                self._faults[number] = msgspec.structs.replace(fault, kind=AuditFaultKind.REORDERED, words=words)
                return
        self._blame(seq, AuditFaultKind.REORDERED, f"entry {seq} stands behind later ones, or is there twice")

    def _blame(self, seq: int, kind: AuditFaultKind, words: str, until: int = 0) -> None:
        self._fault_count += 1
        self._faults.append(AuditFault(seq=seq, until=max(until, seq), kind=kind, words=words))
        if len(self._faults) > MOST_FAULTS:
            self._faults.remove(max(self._faults, key=lambda fault: fault.seq))
