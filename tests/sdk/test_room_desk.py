"""A client in a room of a scheduler that does what a test tells it: everything new clients are sent, and reconnects."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from lingua_sdk import room_desk
from lingua_sdk.client import Client, Room, RoomFailed, RoomRefused, SessionFailed
from lingua_sdk.room_events import (
    Caption,
    Ended,
    History,
    MembersChanged,
    Rejected,
    RoomEvent,
    Said,
    Speaking,
    TextMessage,
    Unheard,
)
from tests.support.fake_scheduler import Call, FakeScheduler, fake_scheduler
from tests.support.peers import Frame
from tests.support.waiting import PATIENCE_S, until

OWN, ANN, CODE = "s-OWN", "s-ANN", "483920"
ACK: Frame = {
    "type": "session_init_ack",
    "session_id": OWN,
    "message": "",
    "trace_id": "t",
    "protocol_version": "1.0",
    "use_binary_frame": False,
    "negotiated_codec": "opus",
    "negotiated_audio_format": "opus",
    "negotiated_sample_rate": 16000,
    "negotiated_channel_count": 1,
    "resume_token": "r",
}


def result(speaker: str, index: int, seq: int | None, text: str = "") -> Frame:
    found: Frame = {"type": "translation_result", "session_id": speaker, "utterance_index": index, "job_id": "j"}
    found |= {"trace_id": "t", "text_asr": f"said {text or seq}", "text_translated": f"translated {text or seq}"}
    found |= {"tts_audio": "", "tts_format": "opus", "scheduler_sent_at_ms": 1, "lang": "pt"}
    return found | ({} if seq is None else {"room_seq": seq})


def members(*names: str) -> Frame:
    listed = [
        {"participant_id": one, "session_id": one, "display_name": one, "raw_voice_preferences": {}, "joined_at": ""}
        for one in names
    ]
    return {"type": "room_members", "room_code": CODE, "members": listed}


class Desk:
    def __init__(self, scheduler: FakeScheduler) -> None:
        self.scheduler = scheduler
        self.client = Client(f"127.0.0.1:{scheduler.port}", "en", "pt")

    async def open(self) -> Call:
        opening = asyncio.create_task(self.client.__aenter__())
        call = await self.scheduler.call()
        await call.next("session_init")
        await call.send(ACK)
        await opening
        return call

    async def joined(self, **more: Any) -> tuple[Room, Call]:
        call = await self.open()
        joining = asyncio.create_task(self.client.join_room(CODE, **more))
        await call.next("room_join")
        await call.send({"type": "room_create_ack", "room_code": CODE, "room_id": "id"})
        await call.send(members(ANN, OWN))
        room = await joining
        assert isinstance(await event_of(room), MembersChanged)
        return room, call

    async def resumed(self, call: Call) -> tuple[Frame, Call]:
        """The connection breaks, and the client comes back: what it said, and the next connection."""
        call.drop()
        after = await self.scheduler.call()
        init = await after.next("session_init")
        await after.send(ACK | {"resumed": True, "next_seq": 0, "next_utterance_index": 0})
        return init, after


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with fake_scheduler() as scheduler:
        desk = Desk(scheduler)
        yield desk
        await desk.client.__aexit__(None, None, None)


async def event_of(room: Room) -> RoomEvent:
    async with asyncio.timeout(PATIENCE_S):
        return await anext(room)


async def numbers(room: Room, count: int) -> list[int | None]:
    return [event.room_seq for event in [await event_of(room) for _ in range(count)] if isinstance(event, Said)]


async def test_it_says_what_it_can_read_and_wants(desk: Desk) -> None:
    _, call = await desk.joined(name="Own", language="pt", speech=False, listen_only=True)
    (join,) = call.of("room_join")
    assert join == {
        "type": "room_join",
        "room_code": CODE,
        "display_name": "Own",
        "preferred_lang": "pt",
        "room_events": True,
        "speech": False,
        "listen_only": True,
    }


async def test_everything_in_a_room_is_an_event(desk: Desk) -> None:
    room, call = await desk.joined()
    line = {"session_id": ANN, "display_name": ANN, "text": "olá", "text_asr": "hello", "room_seq": 3, "at_ms": 1}
    await call.send({"type": "room_history", "room_code": CODE, "lines": [line]})
    await call.send({"type": "room_speaking", "room_code": CODE, "session_id": ANN, "speaking": True})
    caption = {"session_id": ANN, "utterance_index": 4, "text": "he", "lang": "en", "is_final": False}
    await call.send({"type": "room_caption", "room_code": CODE} | caption)
    await call.send(result(ANN, 4, 4))
    await call.send(
        {"type": "missing_result", "session_id": ANN, "utterance_index": 5, "reason": "no_text", "created_at_ms": 1}
        | {"room_seq": 5}
    )
    await call.send(
        {
            "type": "room_message",
            "room_code": CODE,
            "session_id": ANN,
            "display_name": ANN,
            "text": "x",
            "sent_at_ms": 1,
        }
    )
    # Of another room, and between browsers.
    await call.send(members(ANN) | {"room_code": "111111"})
    await call.send({"type": "webrtc_offer", "room_code": CODE, "to": ANN, "sdp": {}})
    await call.send({"type": "room_error", "code": "INTERNAL_ERROR", "message": "later"})
    await call.send({"type": "room_expired", "room_code": CODE, "message": "over"})
    async with asyncio.timeout(PATIENCE_S):
        events = [event async for event in room]
    kinds = [History, Speaking, Caption, Said, Unheard, TextMessage, Rejected, Ended]
    assert [type(event) for event in events] == kinds
    assert events[3] == Said(ANN, ANN, "said 4", "translated 4", "pt", 4, b"", "opus")


async def test_after_a_cut_each_utterance_is_told_once(desk: Desk) -> None:
    room, call = await desk.joined()
    for seq in (7, 8, 10):
        await call.send(result(ANN, seq, seq))
    assert await numbers(room, 3) == [7, 8, 10]
    init, after = await desk.resumed(call)
    assert (init["resume_token"], init["last_room_seq"]) == ("r", 8)
    await after.send(members(ANN, OWN))
    for seq in (9, 10, 11):
        await after.send(result(ANN, seq, seq))
    assert await numbers(room, 3) == [9, 11]
    again, last = await desk.resumed(after)
    assert again["last_room_seq"] == 11
    await last.send({"type": "room_expired", "room_code": CODE, "message": "over"})
    assert isinstance(await event_of(room), Ended)


async def test_before_the_first_outcome_there_is_no_number_to_resume_from(desk: Desk) -> None:
    _, call = await desk.joined()
    init, _ = await desk.resumed(call)
    assert "last_room_seq" not in init


async def test_own_speech_has_a_place_in_the_room_and_is_not_sent_again(desk: Desk) -> None:
    room, call = await desk.joined()
    assert await room.say(b"\x00\x01" * 100) == 0
    await call.next("utterance")
    partial = {"session_id": OWN, "utterance_index": 0, "job_id": "j", "text": "I", "is_final": False, "trace_id": "t"}
    await call.send({"type": "asr_partial"} | partial)
    step = {
        "trace_id": "t",
        "session_id": OWN,
        "job_id": "j",
        "utterance_index": 0,
        "event": "ERROR",
        "status": "error",
    }
    await call.send({"type": "ui_event"} | step)
    # Another one's first, with the same index.
    await call.send(result(ANN, 0, 1))
    await call.send(result(OWN, 0, 2))
    assert isinstance(await event_of(room), Caption)
    events = [await event_of(room) for _ in range(2)]
    assert [(event.room_seq, event.is_own) for event in events if isinstance(event, Said)] == [(1, False), (2, True)]
    init, after = await desk.resumed(call)
    assert init["last_room_seq"] == 2
    assert init["last_utterance_index"] == 0
    await after.send(members(ANN, OWN))
    assert isinstance(await event_of(room), MembersChanged)
    assert after.of("utterance") == []


async def test_verbs_wait_for_their_effect(desk: Desk) -> None:
    room, call = await desk.joined()
    writing = asyncio.create_task(room.write("hi"))
    await call.next("room_say")
    written = {"type": "room_message", "room_code": CODE, "text": "hi", "sent_at_ms": 1}
    await call.send(written | {"session_id": ANN})
    assert isinstance(await event_of(room), TextMessage)
    assert not writing.done()
    await call.send(written | {"session_id": OWN})
    await writing
    updating = asyncio.create_task(room.update(language="ja", name="Me"))
    assert await call.next("room_update") == {
        "type": "room_update",
        "room_code": CODE,
        "display_name": "Me",
        "preferred_lang": "ja",
    }
    await call.send(members(ANN, OWN))
    await updating


async def test_a_refusal_with_its_echo_ends_neither_the_room_nor_the_session(desk: Desk) -> None:
    room, call = await desk.joined()
    removing = asyncio.create_task(room.remove(ANN))
    await call.next("room_remove")
    told = {"code": "PERMISSION_DENIED", "message": "only the host may do this"}
    await call.send({"type": "room_error"} | told)
    await call.send({"type": "error"} | told)
    with pytest.raises(RoomRefused, match="only the host"):
        await removing
    await call.send(result(ANN, 1, 1))
    assert isinstance(await event_of(room), Said)
    # One that echoes nothing is the session's.
    await call.send({"type": "error"} | told)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(SessionFailed, match="only the host"):
            await anext(room)


async def test_a_guest_updates_without_an_answer(desk: Desk) -> None:
    room, call = await desk.joined(listen_only=True)
    await room.update(language="ja")
    assert (await call.next("room_update"))["preferred_lang"] == "ja"


async def test_a_room_whose_acknowledgement_was_lost_is_entered_by_the_resume(desk: Desk) -> None:
    call = await desk.open()
    joining = asyncio.create_task(desk.client.join_room(CODE))
    await call.next("room_join")
    with pytest.raises(RoomFailed, match="another room is being entered"):
        await desk.client.join_room("111111")
    _, after = await desk.resumed(call)
    await after.send(members(ANN, OWN))
    room = await joining
    assert room.code == CODE
    assert isinstance(await event_of(room), MembersChanged)


async def test_an_answer_that_does_not_come_is_said(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room_desk, "ANSWER_S", 0.01)
    await desk.open()
    with pytest.raises(RoomFailed, match="did not answer"):
        await desk.client.create_room()


async def test_a_session_that_ends_while_a_room_is_entered_says_why(desk: Desk) -> None:
    call = await desk.open()
    joining = asyncio.create_task(desk.client.join_room(CODE))
    await call.next("room_join")
    await call.send({"type": "error", "code": "INTERNAL_ERROR", "message": "sorry"})
    with pytest.raises(SessionFailed, match="sorry"):
        await joining


async def test_after_leaving_what_others_said_is_dropped_and_own_results_are_the_sessions(desk: Desk) -> None:
    room, call = await desk.joined()
    await room.leave()
    assert (await call.next("room_leave"))["room_code"] == CODE
    await call.send(result(ANN, 0, 1))
    await call.send(result(OWN, 0, None, "mine"))
    async with asyncio.timeout(PATIENCE_S):
        heard = await anext(desk.client.heard())
    assert heard.session_id == OWN
    await until(lambda: room.is_over)
