"""Rooms with pages as they exist (ROOMS contract), on one instance and on two."""

import base64
import hmac
import re
from collections.abc import AsyncIterator
from pathlib import Path
from time import time

import pytest

from lingua_scheduler.domain.rooms import staging
from lingua_scheduler.domain.rooms.rooms import RoomName, RoomOutcome
from lingua_scheduler.services.rooms import keeping
from tests.support.clusters import ALSO_ON_A_CLUSTER
from tests.support.field_room import RoomPage
from tests.support.room_house import House, Open, opening
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET
from tests.support.waiting import until

# Some pages are busy for longer than a person would be.
PATIENCE_S = 30.0


@pytest.fixture(params=[1, 2], ids=["one", "two"])
async def open_house(request: pytest.FixtureRequest, server: RedisProcess) -> AsyncIterator[Open]:
    async with opening(server.url, request.param) as opened:
        yield opened


@pytest.fixture
async def house(open_house: Open) -> House:
    return await open_house()


async def shown(page: RoomPage, *others: RoomPage) -> None:
    await until(lambda: page.sees(*others), PATIENCE_S, "the page shows these members")


async def linked(one: RoomPage, other: RoomPage) -> None:
    await until(lambda: one.is_linked_to(other) and other.is_linked_to(one), PATIENCE_S, "the voices are connected")


async def test_who_creates_a_room_is_acknowledged_and_sees_itself(house: House) -> None:
    page = await house.page().start()
    # It does not wait for its session.
    code = await page.create()
    await shown(page, page)
    kinds = [frame["type"] for frame in page.heard]
    assert kinds == ["session_init_ack", "room_create_ack", "room_members"]
    assert re.fullmatch("[1-9][0-9]{5}", code)
    (member,) = page.members
    assert member["participant_id"] == page.session_id
    assert member["preferred_lang"] == "en"
    assert member["raw_voice_preferences"] == {}
    assert "display_name" not in member
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", member["joined_at"])


async def test_members_that_ask_are_told_the_turn_servers_with_a_credential_of_their_own(
    open_house: Open, tmp_path: Path
) -> None:
    secret = tmp_path / "turn.secret"
    secret.write_text("a secret of coturn\n")
    secret.chmod(0o600)
    house = await open_house(rooms__turn_urls=("turn:turn.example:3478",), rooms__turn_secret_file=str(secret))
    a, b, old = [await house.page().ready() for _ in range(3)]
    code = await a.create(ice_servers=True)
    await b.enter(code, ice_servers=True)
    await old.enter(code)
    for page in (a, b):
        (server,) = page.of("room_create_ack")[-1]["ice_servers"]
        assert server["urls"] == ["turn:turn.example:3478"]
        ends_s, _, whose = server["username"].partition(":")
        assert (whose, int(ends_s) > time()) == (page.session_id, True)
        digest = hmac.digest(b"a secret of coturn", server["username"].encode(), "sha1")
        assert server["credential"] == base64.b64encode(digest).decode()
    assert "ice_servers" not in old.of("room_create_ack")[-1]


@ALSO_ON_A_CLUSTER
async def test_a_joiner_is_acknowledged_before_it_sees_the_members(house: House) -> None:
    a, b = await house.page().ready(), await house.page().ready()
    code = await a.create()
    await b.enter(code, display_name=" Bob ")
    await shown(a, a, b)
    assert b.sees(a, b)
    kinds = [frame["type"] for frame in b.heard]
    assert kinds.index("room_create_ack") < kinds.index("room_members")
    assert b.members[1]["display_name"] == "Bob"
    assert b.of("room_create_ack")[0]["room_id"] == a.of("room_create_ack")[0]["room_id"]


async def test_what_a_member_says_of_itself_is_kept(house: House) -> None:
    a, b = await house.page().ready(), await house.page().ready(src_lang="ja")
    code = await a.create()
    await b.enter(code, preferred_lang="pt", room_events=True, speech=False)
    await shown(a, a, b)
    assert [member["src_lang"] for member in a.members] == ["zh", "ja"]
    looked = await house.store.rooms.look(RoomName("default", code))
    assert looked.room is not None
    old, new = (member.about for member in looked.room.members)
    assert (old.events, old.speech, old.src_lang, old.language) == (False, True, "zh", "en")
    assert (new.events, new.speech, new.src_lang, new.language) == (True, False, "ja", "pt")


@ALSO_ON_A_CLUSTER
async def test_the_voices_of_two_and_three_existing_pages_connect(house: House) -> None:
    a, b, c = [await house.page().ready() for _ in range(3)]
    code = await a.create()
    await b.enter(code)
    await linked(a, b)
    await c.enter(code)
    await linked(a, c)
    await linked(b, c)
    assert not [link.errors for page in (a, b, c) for link in page.links.values() if link.errors]


async def test_two_that_join_at_once_connect_too(house: House) -> None:
    a, b, c = [await house.page().ready() for _ in range(3)]
    code = await a.create()
    await b.join(code)
    await c.join(code)
    for one, other in ((a, b), (a, c), (b, c)):
        await linked(one, other)


async def test_a_joiner_is_not_kept_waiting_by_members_that_never_offer(house: House) -> None:
    a, b = await house.page().ready(), await house.page().ready()
    a.is_mute = True
    await b.enter(await a.create())
    assert staging.ENTRANCE_S < PATIENCE_S
    assert b.sees(a, b)


async def test_an_unknown_code_is_an_error_that_a_person_sees(house: House) -> None:
    page = await house.page().ready()
    await page.join("100000")
    await until(lambda: page.alerts)
    (error,) = page.of("room_error")
    assert error["code"] == "ROOM_NOT_FOUND"
    assert page.alerts == [error["message"]]
    for code in ("12345", "abcdef", "１２３４５６"):
        await page.join(code)
    await until(lambda: len(page.of("room_error")) == 4)
    assert {frame["code"] for frame in page.of("room_error")[1:]} == {"INVALID_ROOM_CODE"}


async def test_before_a_session_there_is_no_room(house: House) -> None:
    page = house.page()
    page.socket = await house.http.ws_connect(page._url)
    await page.send("room_create", client_ts=1)
    answer = await page.socket.receive_json()
    assert answer == {
        "type": "error",
        "code": "INTERNAL_ERROR",
        "message": "Failed to process message: Session not initialized",
    }


async def test_the_box_mutes_the_one_it_is_beside(house: House) -> None:
    a, b = await house.page().ready(), await house.page().ready()
    await b.enter(await a.create())
    await linked(a, b)
    await b.tick(a.session_id, receive=False)
    await until(lambda: a.session_id not in b.links, PATIENCE_S)
    await until(lambda: a.members[0]["raw_voice_preferences"] == {b.session_id: False}, PATIENCE_S)
    assert a.members[1]["raw_voice_preferences"] == {}
    heard = len(b.heard)
    await a.send("webrtc_offer", room_code=a.code, to=b.session_id, sdp={"type": "offer", "sdp": "x"})
    await b.tick(a.session_id, receive=True)
    await until(lambda: b.members[0]["raw_voice_preferences"] == {b.session_id: True}, PATIENCE_S)
    assert not [frame for frame in b.heard[heard:] if frame["type"] == "webrtc_offer"]


async def test_frames_of_strangers_are_dropped_in_silence(house: House) -> None:
    a, b, stranger = [await house.page().ready() for _ in range(3)]
    code = await a.create()
    await b.enter(code)
    offer = {"type": "offer", "sdp": "from outside"}
    await stranger.send("webrtc_offer", room_code=code, to=a.session_id, sdp=offer)
    await a.send("webrtc_offer", room_code=code, to=stranger.session_id, sdp=offer)
    await a.send("webrtc_offer", room_code="100000", to=b.session_id, sdp=offer)
    huge = {"type": "offer", "sdp": "x" * 40_000}
    await a.send("webrtc_offer", room_code=code, to=b.session_id, sdp=huge)
    # What was sent later has arrived.
    await a.tick(b.session_id, receive=True)
    await stranger.join("100000")
    await until(lambda: b.members[1]["raw_voice_preferences"] and stranger.alerts, PATIENCE_S)
    for page in (a, b, stranger):
        assert "from outside" not in str(page.of("webrtc_offer"))
        assert "xxx" not in str(page.of("webrtc_offer"))
    assert not a.alerts
    assert not stranger.of("webrtc_offer")


async def test_leaving_is_seen_by_the_rest_and_the_last_one_ends_the_room(house: House) -> None:
    a, b = await house.page().ready(), await house.page().ready()
    code = await a.create()
    await b.enter(code)
    await shown(a, a, b)
    said = len(b.heard)
    await b.leave()
    await shown(a, a)
    # One that is in no room leaves in silence.
    await b.send("room_leave", room_code=code)
    await a.leave()

    async def has_ended() -> bool:
        return (await house.store.rooms.look(RoomName("default", code))).outcome is RoomOutcome.ENDED

    await until(has_ended, PATIENCE_S)
    await b.join(code)
    await until(lambda: b.alerts, PATIENCE_S)
    assert [frame["type"] for frame in b.heard[said:]] == ["room_error", "error"]
    assert not a.alerts


async def test_one_session_is_in_one_room(house: House) -> None:
    a, b, c = [await house.page().ready() for _ in range(3)]
    first, second = await a.create(), await c.create()
    await b.enter(first)
    await shown(a, a, b)
    await b.enter(second)
    await shown(a, a)
    await shown(c, c, b)
    await b.join(second)
    await until(lambda: b.of("room_error"), PATIENCE_S)
    assert b.of("room_error")[0]["code"] == "ALREADY_IN_ROOM"


async def test_a_full_room_says_so(open_house: Open) -> None:
    house = await open_house(rooms__max_members=1)
    a, b = await house.page().ready(), await house.page().ready()
    await b.join(await a.create())
    await until(lambda: b.alerts, PATIENCE_S)
    assert b.of("room_error")[0]["code"] == "ROOM_FULL"


async def test_session_close_leaves_the_room(house: House) -> None:
    a, b = await house.page().ready(), await house.page().ready()
    await b.enter(await a.create())
    await shown(a, a, b)
    await b.send("session_close", session_id=b.session_id, reason="bye")
    await shown(a, a)


async def test_a_member_without_a_socket_stays_for_the_grace_period(open_house: Open) -> None:
    house = await open_house(sessions__grace_ms=700)
    a, b = await house.page().ready(), await house.page().ready()
    await b.enter(await a.create())
    await shown(a, a, b)
    b.cut()
    await shown(a, a)


async def test_a_member_that_resumes_is_still_in_its_room(house: House) -> None:
    a, b = await house.page(0).ready(), await house.page(1).ready()
    code = await a.create()
    await b.enter(code)
    await shown(a, a, b)
    b.cut()
    again = house.page(0)
    again.code = code
    await again.ready(resume_token=b.token)
    assert again.session_id == b.session_id
    await until(lambda: again.sees(a, b), PATIENCE_S)
    await a.leave()
    await shown(again, again)


async def test_a_quiet_room_expires_for_all(open_house: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "LOOK_S", 0.0)
    house = await open_house(rooms__expire_ms=4000)
    a, b = await house.page().ready(), await house.page().ready()
    code = await a.create()
    await b.enter(code)

    async def both_told() -> bool:
        await house.look()
        return bool(a.of("room_expired") and b.of("room_expired"))

    await until(both_told, PATIENCE_S)
    assert a.of("room_expired")[0]["room_code"] == code
    assert "30分钟无人发言，房间已过期" in a.alerts[0]
    # They leave the room that is gone: nothing more is said of it.
    await a.send("client_heartbeat", session_id=a.session_id, timestamp=1)
    await until(lambda: a.of("server_heartbeat"), PATIENCE_S)
    assert not a.of("room_error")
    assert len(a.alerts) == 1


async def test_speech_keeps_a_room(open_house: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "LOOK_S", 0.0)
    house = await open_house(rooms__expire_ms=3_600_000)
    a = await house.page(0).ready()
    code = await a.create()
    scheduler, store = house.schedulers[0]
    (here,) = scheduler._rooms.keeper._here
    facts = store.keys.room_of(f"default:{code}")["facts"]
    await store.line.call("HSET", facts, "active_ms", 1)
    audio = base64.b64encode(PACKET * 10).decode()
    await a.send("audio_chunk", session_id=a.session_id, seq=0, is_final=True, payload=audio)
    await until(here.has_spoken, PATIENCE_S)
    await house.look()
    assert int(await store.line.call("HGET", facts, "active_ms")) > 1
    assert not a.alerts
    await store.line.call("HSET", facts, "active_ms", 1)
    await house.look()
    await until(lambda: a.alerts, PATIENCE_S)


@ALSO_ON_A_CLUSTER
async def test_rooms_are_written_again_when_redis_lost_its_data(house: House, server: RedisProcess) -> None:
    a, b = await house.page().ready(), await house.page().ready()
    code = await a.create()
    await b.enter(code)
    await shown(a, a, b)
    await b.tick(a.session_id, receive=False)
    await until(lambda: a.members[0]["raw_voice_preferences"], PATIENCE_S)
    joined_at = [member["joined_at"] for member in a.members]
    server.flush()
    await house.look()
    await house.look()
    c = await house.page().ready()
    await c.enter(code)
    await shown(a, a, b, c)
    await shown(b, a, b, c)
    assert [member["joined_at"] for member in a.members][:2] == joined_at
    assert a.members[0]["raw_voice_preferences"] == {b.session_id: False}
    assert not a.alerts


async def test_the_host_locks_removes_and_closes(house: House) -> None:
    a, b, c = [await house.page().ready() for _ in range(3)]
    code = await a.create()
    await b.enter(code)
    await shown(a, a, b)
    assert [member.get("role") for member in a.members] == ["host", None]
    await b.send("room_lock", room_code=code, locked=True)
    await until(lambda: b.alerts, PATIENCE_S)
    assert b.of("room_error")[0]["code"] == "PERMISSION_DENIED"
    await a.send("room_lock", room_code=code, locked=True)
    await until(lambda: b.of("room_members")[-1].get("locked"), PATIENCE_S)
    await c.join(code)
    await until(lambda: c.alerts, PATIENCE_S)
    assert c.of("room_error")[0]["code"] == "ROOM_LOCKED"
    await a.send("room_lock", room_code=code, locked=False)
    await until(lambda: not b.of("room_members")[-1].get("locked"), PATIENCE_S)
    await c.enter(code)
    await a.send("room_remove", room_code=code, target_session_id=b.session_id)
    await until(lambda: b.of("room_expired"), PATIENCE_S)
    await shown(a, a, c)
    await a.leave()
    await shown(c, c)
    assert c.members[0]["role"] == "host"
    await c.send("room_close", room_code=code)
    await until(lambda: c.of("room_expired"), PATIENCE_S)


@ALSO_ON_A_CLUSTER
async def test_nothing_is_left_when_all_have_gone(house: House) -> None:
    a, b = await house.page().ready(), await house.page().ready()
    code = await a.create()
    await b.enter(code)
    await b.leave()
    await a.leave()

    async def are_gone() -> bool:
        names = store.keys.room_of(f"default:{code}").values()
        left = [name for name in names if await store.line.call("EXISTS", name)]
        return len(left) == 1 and await store.line.call("PTTL", left[0]) > 0

    store = house.store
    await until(are_gone, PATIENCE_S)
    for scheduler, _ in house.schedulers:
        assert not list(scheduler._rooms.keeper._here)
    assert not await store.line.call("EXISTS", store.keys.stay(a.session_id))
