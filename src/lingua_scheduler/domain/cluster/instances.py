"""Instances and their mail: ids, signs of life, and what may become of a letter."""

import re
from enum import StrEnum
from typing import NamedTuple

MAX_ID_LENGTH = 64
# What an instance announces that can open parked outcomes; behind it stand the ids of its cluster keys.
PARKED = "parked"
_LETTER_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}:\d{1,19}-\d{1,19}", re.ASCII)
_STRANGE = re.compile(r"[^A-Za-z0-9_.-]+")


class PresenceOutcome(StrEnum):
    JOINED = "joined"
    ALIVE = "alive"
    WAS_DEAD = "was_dead"  # its beat came too late, or Redis lost it: others may have its mail
    SUPERSEDED = "superseded"  # another process has its id now
    TAKEN = "taken"  # another process has the id, and is alive


class LeaveOutcome(StrEnum):
    LEFT = "left"
    SUPERSEDED = "superseded"


class ForgetOutcome(StrEnum):
    FORGOTTEN = "forgotten"
    KEPT = "kept"


class PostOutcome(StrEnum):
    SENT = "sent"
    FULL = "full"


class AdoptionOutcome(StrEnum):
    ADOPTED = "adopted"
    HELD = "held"  # somebody else is at it


class ClaimOutcome(StrEnum):
    CLAIMED = "claimed"
    LOST = "lost"  # somebody else has adopted the inbox meanwhile


class ReleaseOutcome(StrEnum):
    RELEASED = "released"
    REMOVED = "removed"
    LOST = "lost"


class BuryOutcome(StrEnum):
    BURIED = "buried"
    GONE = "gone"


class ReplayOutcome(StrEnum):
    REPLAYED = "replayed"
    FULL = "full"
    GONE = "gone"
    BARE = "bare"  # what it said was not kept


class Instance(NamedTuple):
    """An instance as Redis knows it, dead or alive."""

    instance_id: str
    silent_ms: int
    incarnation: str
    host: str = ""
    pid: int = 0
    version: str = ""
    started_at_ms: int = 0
    address: str = ""
    # Words for what it can open: `parked` outcomes, and letters sealed with the keys of these ids.
    seals: str = ""


def made_up_id(host: str, pid: int, token: str) -> str:
    """An id that says where the process runs; the token makes it unique."""
    tail = f"-{pid}-{token}"
    return (_STRANGE.sub("-", host).strip("-.") or "host")[: MAX_ID_LENGTH - len(tail)] + tail


def key_ids(seals: str) -> list[str]:
    """Of the cluster keys among what an instance announces; it seals with the first."""
    return [word for word in seals.split() if word != PARKED]


def is_letter_id(text: str) -> bool:
    """A dead letter is named by the instance whose inbox it lay in, and its place in Redis."""
    return _LETTER_ID.fullmatch(text) is not None
