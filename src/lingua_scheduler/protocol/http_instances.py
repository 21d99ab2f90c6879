"""Bodies about instances and dead letters, for HTTP and the CLI; never the content of a letter."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class InstanceAbout(msgspec.Struct, frozen=True, kw_only=True):
    instance_id: str
    # Stopped: it shut down properly. Dead: it did not.
    state: Literal["alive", "stopped", "dead"]
    host: str
    pid: int
    version: str
    address: str
    uptime_ms: int
    # Since its last beat.
    silent_ms: int
    inbox_letters: int
    # Of those: read, and not yet done.
    inbox_pending: int
    dead_letters: int


class InstanceList(msgspec.Struct, frozen=True, kw_only=True):
    instances: list[InstanceAbout]


class DeadLetterAbout(msgspec.Struct, frozen=True, kw_only=True):
    letter_id: str
    # Whose inbox it lay in.
    instance_id: str
    kind: str
    sender: str
    # The job or session it is about, where that can be read.
    subject: str
    # What it had; speech and text are not kept.
    body_bytes: int
    deliveries: int
    reason: str
    buried_at_ms: int


class DeadLetterList(msgspec.Struct, frozen=True, kw_only=True):
    total: int
    # The oldest of each instance first.
    dead_letters: list[DeadLetterAbout]


class DeadLetterQuery(msgspec.Struct, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class LetterChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects dead letters: by id, or all of them."""

    letter_ids: Annotated[list[Annotated[str, Meta(max_length=256)]], Meta(max_length=1000)] = []
    all: bool = False


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    replayed: int
    # Not replayed: their inbox is full, or there is no such letter (any more).
    full: int
    gone: int
    # Neither were these: the speech in them was not kept (inbox.keep_speech).
    bare: int = 0


class Purged(msgspec.Struct, frozen=True, kw_only=True):
    purged: int
