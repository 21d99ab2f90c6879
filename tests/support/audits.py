"""Audit logs for tests: keys, entries that follow each other, and the texts of a log."""

from lingua_scheduler.domain.access.audit import AuditActor, AuditEntry, AuditHead, AuditNote, canonical, placed
from lingua_scheduler.domain.access.audit_anchors import Anchor, statement
from lingua_scheduler.domain.access.audit_keys import AuditKeys

KEYS = AuditKeys([b"k" * 32])
OTHER_KEYS = AuditKeys([b"o" * 32])
ACTOR = AuditActor(kind="operator", key_id="abcdefghijkl", tenant="default", address="10.0.0.1")


def following(after: AuditHead, action: str = "nodes.drain", keys: AuditKeys = KEYS, **values: str | int) -> AuditEntry:
    note = AuditNote(actor=ACTOR, action=action, object=f"node-{after.seq + 1}", values=dict(values))
    return keys.hashed(placed(note, after, 1_000 + after.seq, "i-1", keys.current))


def chain(length: int, after: AuditHead | None = None, keys: AuditKeys = KEYS) -> list[AuditEntry]:
    found: list[AuditEntry] = []
    for _ in range(length):
        found.append(following(found[-1].head if found else after or AuditHead(), keys=keys))
    return found


def texts(entries: list[AuditEntry]) -> list[str]:
    return [canonical(entry).decode() for entry in entries]


def anchor(head: AuditHead, keys: AuditKeys = KEYS) -> Anchor:
    return Anchor(head, keys.current, keys.sign(statement(head)))
