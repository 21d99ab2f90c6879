"""The fake phone and gateway on real sockets, beside a scheduler that only does what the test says."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator

import pytest

from tests.support.fake_scheduler import FakeScheduler, fake_scheduler
from tests.support.field_gateway import FieldGateway
from tests.support.field_phone import FieldPhone
from tests.support.field_speech import pcm16, say
from tests.support.waiting import until


@pytest.fixture
async def scheduler() -> AsyncIterator[FakeScheduler]:
    async with fake_scheduler() as started:
        yield started


# The phone


async def test_a_phone_sends_pieces_and_counts_them_on_over_a_reconnect(scheduler: FakeScheduler) -> None:
    phone = FieldPhone(scheduler.port, reconnect_s=0.05)
    starting = asyncio.create_task(phone.start())
    call = await scheduler.welcome("s-1AB4F88C")
    await starting
    began = time.monotonic()
    await phone.say("alpha bravo")
    # Timers ring up to a millisecond early.
    assert time.monotonic() - began >= 0.99
    pieces = await until(lambda: len(found := call.of("utterance")) == 5 and found)
    assert [piece["utterance_index"] for piece in pieces] == [0, 1, 2, 3, 4]
    assert {len(base64.b64decode(piece["audio"])) for piece in pieces} == {6_400}
    assert list(pieces[0]) == [
        *("type", "session_id", "utterance_index", "manual_cut", "src_lang", "tgt_lang", "dialect", "features"),
        *("audio", "audio_format", "sample_rate"),
    ]
    call.drop()
    call = await scheduler.welcome("s-1AB4F88D")
    await until(lambda: phone.session_id == "s-1AB4F88D")
    await phone.say("alpha")
    assert (await call.next("utterance"))["utterance_index"] == 5
    await phone.stop()


# The gateway


@pytest.fixture
async def gateway(scheduler: FakeScheduler) -> AsyncIterator[FieldGateway]:
    made = FieldGateway(scheduler.port)
    yield made
    await made.close()


async def test_a_gateway_drops_its_first_socket_and_asks_on_another(
    scheduler: FakeScheduler, gateway: FieldGateway
) -> None:
    opening = asyncio.create_task(gateway.open_session())
    call = await scheduler.welcome("s-3581AA22")
    assert await opening == "s-3581AA22"
    await until(lambda: call.socket.closed)
    assert call.socket.close_code != 1000, "no close frame"
    asking = asyncio.create_task(gateway.ask("s-3581AA22", pcm16(say("alpha")[:10])))
    call = await scheduler.call()
    asked = await call.next("utterance")
    assert list(asked) == sorted(asked)
    assert (asked["session_id"], asked["manual_cut"], asked["features"]) == ("s-3581AA22", False, None)
    await call.send({"type": "ui_event"})
    await call.send({"type": "missing_result"})
    await call.send({"type": "translation_result", "text_translated": "said 0"})
    waited = await asking
    assert (waited.ended_by, waited.text) == ("translation_result", "said 0")
    assert [frame["type"] for frame in gateway.ignored] == ["ui_event", "missing_result"]


@pytest.mark.parametrize("kind", ["ping", "binary", "close", "dropped"])
async def test_any_frame_that_is_not_text_ends_its_wait(
    scheduler: FakeScheduler, gateway: FieldGateway, kind: str
) -> None:
    asking = asyncio.create_task(gateway.ask("s-3581AA22", b""))
    call = await scheduler.call()
    match kind:
        case "ping":
            await call.socket.ping()
        case "binary":
            await call.socket.send_bytes(b"x")
        case "close":
            await call.socket.close(code=1000)
        case "dropped":
            call.drop()
    waited = await asking
    assert waited.ended_by == kind
    assert waited.close_code == (1000 if kind == "close" else None)
