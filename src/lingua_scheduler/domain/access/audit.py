"""Entries of the audit log: who did what to what, when, from where. Each has a keyed hash over the one before it."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.access.principals import Principal

MAX_TEXT_CHARS = 256
MAX_VALUES = 32
MAX_NAME_CHARS = 64
# A number above this would not fit the id of a stream's entry, and none is ever reached.
MAX_SEQ = 10**17
# How an entry says that a value was left out.
HIDDEN = "[hidden]"
# Keys of ours and tokens, wherever they stand in a text.
_SECRET = re.compile(r"lk_[a-z]{2}_[0-9A-Za-z]{12}_[0-9A-Za-z]{8,}|[\w-]{16,}\.[\w-]{16,}\.[\w-]{16,}")
_HASH = r"^([0-9a-f]{64})?$"

Value = str | int | bool
_Hash = Annotated[str, Meta(pattern=_HASH)]
_Seq = Annotated[int, Meta(ge=1, le=MAX_SEQ)]


class AuditAction:
    """Of the scheduler itself; others are named after the operation."""

    CHAIN_BEGUN = "chain.begun"
    LOG_TRIMMED = "audit.trimmed"
    CREDENTIALS_REFUSED = "credentials.refused"
    SCHEDULER_STARTED = "scheduler.started"
    LOGGED_IN = "login.oidc"


class AuditOutcome(StrEnum):
    REQUESTED = "requested"  # written before the change is made
    FAILED = "failed"  # it was requested, and did not happen
    DONE = "done"


class AppendOutcome(StrEnum):
    APPENDED = "appended"
    MOVED = "moved"  # another writer was quicker, or the head was lost
    BEHIND = "behind"  # the log has later entries than the head


class AuditHead(NamedTuple):
    """The last entry of the log."""

    seq: int = 0
    hash: str = ""

    def __str__(self) -> str:
        return f"{self.seq} {self.hash}"

    @classmethod
    def parse(cls, text: str) -> "AuditHead | None":
        found = re.fullmatch(r"([1-9][0-9]{0,16}) ([0-9a-f]{64})", text, re.ASCII)
        return cls(int(found[1]), found[2]) if found is not None else None


class AuditActor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who did it. Of a command that writes to Redis itself: kind redis, its user, its host."""

    kind: str
    key_id: str = ""
    tenant: str = ""
    address: str = ""

    def __str__(self) -> str:
        return f"{self.kind}{':' * bool(self.key_id)}{self.key_id}{'@' * bool(self.address)}{self.address}"


class AuditNote(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be written, before it has a place in the log."""

    actor: AuditActor
    action: str
    object: str = ""
    outcome: AuditOutcome = AuditOutcome.DONE
    values: dict[str, Value] = {}
    request_id: str = ""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    seq: _Seq
    at_ms: int
    # The instance, or the command, that wrote it: two that write the same at the same time stay two entries.
    writer: str
    actor: AuditActor
    action: str
    object: str
    outcome: AuditOutcome
    request_id: str
    values: dict[str, Value]
    # Names the key that the hash was made with.
    key: str
    prev: _Hash
    hash: _Hash = ""

    @property
    def head(self) -> AuditHead:
        return AuditHead(self.seq, self.hash)


_DECODER = msgspec.json.Decoder(AuditEntry)


def actor_of(principal: Principal, address: str) -> AuditActor:
    return AuditActor(
        kind=principal.kind.value,
        # Operators without a key have a name at their identity provider.
        key_id=clean(principal.subject if principal.is_person else principal.key_id),
        tenant=clean(principal.tenant),
        address=clean(address),
    )


def placed(note: AuditNote, after: AuditHead, at_ms: int, writer: str, key_id: str) -> AuditEntry:
    """The entry that follows another, bounded and without secrets; its hash is yet to be made."""
    return AuditEntry(
        seq=after.seq + 1,
        at_ms=at_ms,
        writer=clean(writer),
        actor=note.actor,
        action=clean(note.action),
        object=clean(note.object),
        outcome=note.outcome,
        request_id=clean(note.request_id),
        values=cleaned(note.values),
        key=key_id,
        prev=after.hash,
    )


def hashed(entry: AuditEntry, key: bytes) -> AuditEntry:
    return msgspec.structs.replace(entry, hash=hash_of(entry, key))


def hash_of(entry: AuditEntry, key: bytes) -> str:
    """HMAC-SHA256 over the hash of the entry before it, which has no brace, and its JSON, which begins with one."""
    told = canonical(msgspec.structs.replace(entry, hash=""))
    return hmac.digest(key, entry.prev.encode() + told, hashlib.sha256).hex()


def canonical(entry: AuditEntry) -> bytes:
    """JSON that every release and every language writes alike: names sorted, no spaces, nothing left out."""
    return msgspec.json.encode(entry, order="sorted")


def read_entry(text: str) -> AuditEntry | None:
    """None for what was not written by `canonical`: a hash says nothing about other spellings."""
    try:
        entry = _DECODER.decode(text)
        return entry if canonical(entry) == text.encode() else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def cleaned(values: Mapping[str, Value]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, value in list(values.items())[:MAX_VALUES]:
        is_small = isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**53)
        found[clean(name)[:MAX_NAME_CHARS]] = value if is_small else clean(str(value))
    return found


def clean(text: str) -> str:
    """Bounded, encodable, without keys and tokens. Those are looked for before the text is cut."""
    bounded = text[: 16 * MAX_TEXT_CHARS].encode("utf-8", "replace").decode()
    return _SECRET.sub(HIDDEN, bounded)[:MAX_TEXT_CHARS]
