"""Bodies about the audit log."""

from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.access.audit import MAX_SEQ, MAX_TEXT_CHARS, Value
from lingua_scheduler.protocol.http import Answer

LIST_MAX = 500

_Part = Annotated[str, Meta(max_length=MAX_TEXT_CHARS)]


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    action: Annotated[_Part, Meta(description="One action, nodes.drain, or all of a noun, keys")] = ""
    actor: Annotated[_Part, Meta(description="A part of the actor: a key id, a kind or an address")] = ""
    object: Annotated[_Part, Meta(description="A part of what it was done to: a node, a key id")] = ""
    since_s: Annotated[int, Meta(ge=0, le=3650 * 86_400, description="Only of the last so many seconds; 0 = all")] = 0
    before: Annotated[int, Meta(ge=0, le=MAX_SEQ, description="Only entries before this number; 0 = the newest")] = 0
    limit: Annotated[int, Meta(ge=1, le=LIST_MAX)] = 50


class AuditActorView(Answer, kw_only=True):
    kind: Annotated[str, Meta(examples=["operator"])]
    key_id: Annotated[str, Meta(description="Empty where no key was needed", examples=["k3jPq0aZ81Ty"])]
    tenant: str
    address: str


class AuditEntryView(Answer, kw_only=True):
    """Who did what to what, when, from where."""

    seq: int
    at_ms: int
    actor: AuditActorView
    action: Annotated[str, Meta(examples=["nodes.drain"])]
    object: Annotated[str, Meta(examples=["gpu-7"])]
    outcome: Annotated[str, Meta(description="requested (before the change), failed or done", examples=["requested"])]
    request_id: str
    values: dict[str, Value]


class AuditList(Answer, kw_only=True):
    entries: Annotated[list[AuditEntryView], Meta(description="The newest first")]
    next_before: Annotated[
        int,
        Meta(description="`before` of the next page, 0 = there is none; a page may be short and still have a next one"),
    ]
