"""Instances and their inboxes: ids, heartbeats, and the outcomes of operations on letters."""

import re
from enum import StrEnum
from typing import NamedTuple

MAX_ID_LENGTH = 64
# What an instance announces that can open parked outcomes; behind it stand the ids of its cluster keys.
PARKED = "parked"
# The ability to answer HTTP requests that another instance forwards.
FORWARDING = "forwarding"
_LETTER_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}:\d{1,19}-\d{1,19}", re.ASCII)
_STRANGE = re.compile(r"[^A-Za-z0-9_.-]+")


class LetterId(NamedTuple):
    """A dead letter, as people name it: the instance it was for, and its entry in the stream."""

    instance: str
    entry_id: str

    def __str__(self) -> str:
        return f"{self.instance}:{self.entry_id}"

    @classmethod
    def parse(cls, text: str) -> "LetterId":
        """Of what is no such id something that no letter has."""
        return cls(*text.rpartition(":")[::2])


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
    HELD = "held"  # another instance has adopted it


class InboxClaimOutcome(StrEnum):
    CLAIMED = "claimed"
    LOST = "lost"  # another instance has adopted the inbox in the meantime


class InboxReleaseOutcome(StrEnum):
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
    """An instance as stored in Redis, dead or alive."""

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
    # Words for the letters it understands that instances of older releases do not.
    abilities: str = ""


def made_up_id(host: str, pid: int, token: str) -> str:
    """An id made of host and process id; the token makes it unique."""
    tail = f"-{pid}-{token}"
    return (_STRANGE.sub("-", host).strip("-.") or "host")[: MAX_ID_LENGTH - len(tail)] + tail


def key_ids(seals: str) -> list[str]:
    """Of the cluster keys among what an instance announces; it seals with the first."""
    return [word for word in seals.split() if word != PARKED]


def is_letter_id(text: str) -> bool:
    """The id of a dead letter: the instance whose inbox it was in, and its entry in the stream."""
    return _LETTER_ID.fullmatch(text) is not None
