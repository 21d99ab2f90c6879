"""HTTP: rooms: list them, look at one, close one."""

from functools import partial
from typing import Any

from lingua_scheduler.console.lists import Lists
from lingua_scheduler.console.operations import Call, KnownProblem, Operation, Problem
from lingua_scheduler.domain.access.principals import Principal
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.domain.rooms.rooms import Participant, RoomState
from lingua_scheduler.domain.sessions.names import shown_session
from lingua_scheduler.protocol.http_rooms import MemberAbout, RoomAbout, RoomClosed, RoomDetail, RoomList, RoomsQuery
from lingua_scheduler.services.rooms.overseeing import OpenRoom, RoomOverseer, languages_of
from lingua_sdk.domain.errors import HttpCode

_TAG = "rooms"
_UNKNOWN = KnownProblem(404, HttpCode.UNKNOWN_ROOM.value, "No such room, or it has ended")
_CROWDED = KnownProblem(503, HttpCode.SERVICE_UNAVAILABLE.value, "Too many lists are requested at once")


def room_operations(overseer: RoomOverseer) -> tuple[Operation, ...]:
    lists = Lists()

    async def rooms(call: Call[None, RoomsQuery]) -> RoomList:
        read = partial(overseer.page, call.principal.limited_to, call.query.before, call.query.limit)
        page = await lists.make(read, call.is_connected)
        found = [_about(room, call.principal) for room in page.rooms]
        return RoomList(rooms=found, next_before=page.next_before_ms)

    async def one(call: Call[None, None]) -> RoomDetail:
        room = await overseer.find(call.path["room_id"], call.principal.limited_to)
        if room is None:
            raise _unknown(call)
        members = [_member(room.state, member, call.principal) for member in room.state.members]
        return RoomDetail(room=_about(room, call.principal), members=members)

    async def close(call: Call[None, None]) -> RoomClosed:
        if not await overseer.close(call.path["room_id"], call.principal.limited_to):
            raise _unknown(call)
        return RoomClosed(room_id=call.path["room_id"], outcome="closed")

    return (
        Operation(
            method="GET",
            path="/v1/rooms",
            needs=(Scope.FLEET_READ,),
            tag=_TAG,
            summary="List the rooms that have members, newest first; for an operator of one tenant, its own",
            description="A room is listed a few seconds after it was opened. Names of members, and what is said, are "
            "never shown.",
            handle=rooms,
            query=RoomsQuery,
            answer=RoomList,
            problems=(_CROWDED,),
        ),
        Operation(
            method="GET",
            path="/v1/rooms/{room_id}",
            needs=(Scope.FLEET_READ,),
            tag=_TAG,
            summary="One room: its members, their languages, and where they are connected",
            handle=one,
            answer=RoomDetail,
            problems=(_UNKNOWN,),
        ),
        Operation(
            method="POST",
            path="/v1/rooms/{room_id}/close",
            needs=(Scope.FLEET_OPERATE,),
            tag=_TAG,
            summary="Close a room: all members leave it",
            description="They get `room_expired`; their sessions go on. The code is not used again for five minutes.",
            handle=close,
            answer=RoomClosed,
            problems=(_UNKNOWN,),
        ),
    )


def _about(room: OpenRoom, principal: Principal) -> RoomAbout:
    state = room.state
    return RoomAbout(
        room_id=state.room_id,
        tenant=state.name.tenant,
        code=state.name.code if principal.may((Scope.FLEET_OPERATE,)) else "",
        opened_at_ms=room.opened_ms,
        active_at_ms=state.active_ms,
        is_locked=state.is_locked,
        members=len(state.members),
        guests=state.guest_count,
        languages=languages_of(state),
        instances=sorted(state.instances()) if principal.limited_to is None else [],
    )


def _member(state: RoomState, member: Participant, principal: Principal) -> MemberAbout:
    return MemberAbout(
        session_id=shown_session(member.session_id),
        language=member.about.language,
        src_lang=member.about.src_lang,
        role="host" if member is state.host else "speaker",
        instance_id=member.instance if principal.limited_to is None else "",
        joined_at_ms=member.joined_us // 1000,
    )


def _unknown(call: Call[Any, Any]) -> Problem:
    detail = f"there is no room {call.path['room_id']}, or it has ended; GET /v1/rooms lists them"
    return Problem(404, HttpCode.UNKNOWN_ROOM, detail)
