"""A room as values: its members in the order they joined, its host, its guests, and who wants to hear whose voice."""

import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.access.credentials import DEFAULT_TENANT, is_tenant
from lingua_scheduler.domain.rooms.guests import GuestCount, GuestsAt
from lingua_scheduler.domain.sessions.handover import SessionOwner
from lingua_sdk.domain.decoding import DECODE_ERRORS

FIRST_CODE = 100_000
CODES = 900_000
MAX_NAME_CHARS = 64
# The platform of the browser client, which offers its voice to every member that it sees.
OFFERS_VOICE = "web"

_CODE = re.compile(r"[1-9][0-9]{5}")


class RoomErrorCode(StrEnum):
    """Codes of `room_error`."""

    NOT_FOUND = "ROOM_NOT_FOUND"
    ALREADY_IN_ROOM = "ALREADY_IN_ROOM"
    FULL = "ROOM_FULL"
    LOCKED = "ROOM_LOCKED"
    INVALID_CODE = "INVALID_ROOM_CODE"
    INVALID_LANGUAGE = "INVALID_LANGUAGE"
    DENIED = "PERMISSION_DENIED"
    TOO_OFTEN = "QUOTA_EXCEEDED"
    INTERNAL = "INTERNAL_ERROR"


class RoomOutcome(StrEnum):
    """First words of the replies of the scripts about rooms."""

    CREATED = "created"
    TAKEN = "taken"  # the code is in use
    JOINED = "joined"
    ALREADY = "already"  # it is a member
    FULL = "full"
    LOCKED = "locked"
    LEFT = "left"
    ENDED = "ended"
    MOVED = "moved"
    NOTED = "noted"
    DENIED = "denied"  # it is not the host
    OPEN = "open"
    SAME = "same"
    RESTORED = "restored"
    LOST = "lost"  # Redis has not what the caller knows of it
    EXPIRED = "expired"
    SAID = "said"
    AGAIN = "again"  # the same utterance
    UNKNOWN = "unknown"


class RoomName(NamedTuple):
    """Where a room is found: a code means another room for each tenant."""

    tenant: str
    code: str

    def __str__(self) -> str:
        return f"{self.tenant}:{self.code}"

    @classmethod
    def parse(cls, text: str) -> "RoomName":
        return cls(*text.rpartition(":")[::2])

    @classmethod
    def of(cls, tenant: str, code: str) -> "RoomName":
        """A caller that needs no credential may name any tenant, and a digest stands for what is no name of one."""
        tenant = tenant or DEFAULT_TENANT
        return cls(tenant if is_tenant(tenant) else f"~{hashlib.sha256(tenant.encode()).hexdigest()[:16]}", code)


class AboutMember(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a member says of itself when it joins."""

    name: str = ""
    # The language in which it wants to hear the others.
    language: str = ""
    # Whether its client sends a WebRTC offer to every member that it sees.
    offers_voice: bool = False
    # Whether its client reads captions, messages and who speaks, and results that are numbered by their speaker.
    events: bool = False
    # Whether it wants translations as speech too.
    speech: bool = True
    # The language that it speaks, or `auto`.
    src_lang: str = ""


_ABOUT = msgspec.json.Decoder(AboutMember)


class Stay(NamedTuple):
    """Which room a session is in, as it is written down with the session. A code may be used again, an id is not."""

    name: RoomName
    room_id: str
    # Of a guest, which no member list has: what it said of itself.
    guest: AboutMember | None = None
    # The number of the latest utterance before it came: what was said until then is not for it.
    since: int = 0

    def __str__(self) -> str:
        place = f"{self.name} {self.room_id} {self.since}"
        return place if self.guest is None else f"{place} {msgspec.json.encode(self.guest).decode()}"

    @classmethod
    def parse(cls, text: str) -> "Stay | None":
        name, _, rest = text.partition(" ")
        room_id, _, rest = rest.partition(" ")
        since, _, guest = rest.partition(" ")
        if not room_id or not (since.isascii() and since.isdigit()):
            return None
        try:
            return cls(RoomName.parse(name), room_id, _ABOUT.decode(guest) if guest else None, int(since))
        except DECODE_ERRORS:
            return None


class Participant(NamedTuple):
    """A member of a room. `owner` is the hold on its session, which names the instance that has its socket."""

    session_id: str
    owner: str
    about: AboutMember
    joined_us: int
    # By the session id of a speaker: whether it wants that one's voice. Of others it does.
    wishes: Mapping[str, bool] = {}

    @property
    def instance(self) -> str:
        return SessionOwner.parse(self.owner).instance

    @property
    def joined_at(self) -> str:
        """RFC 3339 with nanoseconds, as clients expect it."""
        seconds, rest_us = divmod(self.joined_us, 1_000_000)
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest_us:06d}000Z"


class RoomState(NamedTuple):
    """A room as Redis has it; `version` rises with every change, `record` changes when a lost room is written again."""

    name: RoomName
    room_id: str
    record: str
    version: int
    # When a member last joined or spoke, on Redis's clock.
    active_ms: int
    is_locked: bool
    # In the order they joined.
    members: tuple[Participant, ...]
    # The number of the latest utterance.
    seq: int = 0
    guests: tuple[GuestsAt, ...] = ()

    def find(self, session_id: str) -> Participant | None:
        return next((member for member in self.members if member.session_id == session_id), None)

    @property
    def host(self) -> Participant | None:
        """The member that joined first of those who are here: when the host leaves, the next one is."""
        return self.members[0] if self.members else None

    @property
    def hearing(self) -> Mapping[str, Mapping[str, GuestCount]]:
        """The guests of each instance that has some, by language."""
        return {at.instance: at.languages for at in self.guests}

    @property
    def guest_count(self) -> int:
        return sum(at.total for at in self.guests)

    def carries_voice(self, speaker: str, listener: str) -> bool:
        """Whether WebRTC frames may pass: both are members, and the listener has not muted the speaker."""
        hearing = self.find(listener)
        return (
            speaker != listener
            and hearing is not None
            and self.find(speaker) is not None
            and hearing.wishes.get(speaker, True)
        )

    def shown_wishes(self, speaker: str) -> dict[str, bool]:
        """Which listener wants this speaker's voice. Existing clients look for their own wish at the speaker."""
        return {
            member.session_id: member.wishes[speaker]
            for member in self.members
            if speaker in member.wishes and member.session_id != speaker
        }

    def instances(self) -> set[str]:
        """Those that have members or guests."""
        return {member.instance for member in self.members} | {at.instance for at in self.guests}

    def offering_to(self, joiner: str) -> frozenset[str]:
        """The members that send an offer when they see that one join."""
        return frozenset(
            member.session_id for member in self.members if member.about.offers_voice and member.session_id != joiner
        )


def is_code(text: str) -> bool:
    return _CODE.fullmatch(text) is not None


def without_space(text: str) -> str:
    """Pages show a code as 483 920, so people copy it so. Anything else stays as it is."""
    joined = "".join(text.split())
    return joined if is_code(joined) else text


def draw_code(randbelow: Callable[[int], int]) -> str:
    """Six digits without a leading zero: the existing client accepts nothing else."""
    return str(FIRST_CODE + randbelow(CODES))


def shown_name(text: str | None) -> str:
    """A name that fits into one line of a list."""
    kept = "".join(char if char.isprintable() else " " for char in text or "")
    return " ".join(kept.split())[:MAX_NAME_CHARS].rstrip()
