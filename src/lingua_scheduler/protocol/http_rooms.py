"""Bodies about rooms, for operators: who is where, never what was said or how people call themselves."""

from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.protocol.http import Answer

LIST_MAX = 200
MAX_MS = 2**53


class RoomsQuery(msgspec.Struct, frozen=True, kw_only=True):
    before: Annotated[
        int, Meta(ge=0, le=MAX_MS, description="Only rooms opened before this time (ms); 0 = the newest")
    ] = 0
    limit: Annotated[int, Meta(ge=1, le=LIST_MAX)] = 50


class RoomAbout(Answer, kw_only=True):
    room_id: Annotated[str, Meta(examples=["9b2d6c0e-6f0e-4c55-8b0a-3f0f7a1f0a11"])]
    tenant: str
    code: Annotated[
        str,
        Meta(description="It lets people in, so it is empty for callers without `fleet:operate`", examples=["483920"]),
    ]
    opened_at_ms: int
    active_at_ms: Annotated[int, Meta(description="When a member last joined or spoke")]
    is_locked: bool
    members: int
    guests: Annotated[int, Meta(description="Those who only listen; they are not among the members")]
    languages: Annotated[
        dict[str, int], Meta(description="In which languages members and guests read and hear the others, and how many")
    ]
    instances: Annotated[
        list[str], Meta(description="Where its members are connected; empty for an operator of one tenant")
    ]


class RoomList(Answer, kw_only=True):
    rooms: Annotated[list[RoomAbout], Meta(description="The newest first")]
    next_before: Annotated[
        int,
        Meta(description="`before` of the next page, 0 = there is none; a page may be short and still have a next one"),
    ]


class MemberAbout(Answer, kw_only=True):
    session_id: Annotated[str, Meta(description="Shortened", examples=["s-1A2B3C4D…"])]
    language: Annotated[str, Meta(description="In which it reads and hears the others")]
    src_lang: Annotated[str, Meta(description="Which it speaks, or auto")]
    role: Annotated[str, Meta(description="host or speaker")]
    instance_id: Annotated[str, Meta(description="Empty for an operator of one tenant")]
    joined_at_ms: int


class RoomDetail(Answer, kw_only=True):
    room: RoomAbout
    members: Annotated[list[MemberAbout], Meta(description="In the order they joined")]


class RoomClosed(Answer, kw_only=True):
    room_id: str
    outcome: Annotated[str, Meta(description="closed", examples=["closed"])]
