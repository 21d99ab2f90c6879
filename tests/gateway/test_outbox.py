"""What leaves a socket: in order, together, bounded, and all of it before the goodbye."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType, web

from lingua_scheduler.gateway.fair_queue import FairQueue
from lingua_scheduler.gateway.outbox import Outbox
from lingua_scheduler.gateway.socket_pump import Sockets
from lingua_scheduler.gateway.valve import SocketRates
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.telemetry import metrics
from lingua_sdk.protocol.session import AsrPartial, UiEvent
from tests.support.access import nobody_live
from tests.support.schedulers import settings_with
from tests.support.waiting import until

MAX_BYTES = 1_000_000
MAX_ALL_BYTES = 2_000_000


class Counted:
    """The real transport, and how often it was written to."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.writes = 0

    def write(self, sent: bytes) -> None:
        self.writes += 1
        self._transport.write(sent)

    def writelines(self, parts: list[bytes]) -> None:
        self.writes += 1
        self._transport.writelines(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Pair:
    """Both ends of a socket."""

    def __init__(self, outbox: Outbox, client: aiohttp.ClientWebSocketResponse) -> None:
        self.outbox = outbox
        self.client = client
        self.transport = Counted(outbox._transport)
        outbox._transport = self.transport  # type: ignore[assignment]

    async def heard(self, count: int) -> list[str]:
        return [await self.client.receive_str(timeout=10) for _ in range(count)]

    def stop_reading(self) -> None:
        connection = self.client._response.connection
        assert connection is not None
        assert connection.transport is not None
        connection.transport.pause_reading()


@pytest.fixture
async def pairs() -> AsyncIterator[Any]:
    sockets = Sockets(
        settings_with(server__outbox_max_bytes=MAX_BYTES, server__outboxes_max_bytes=MAX_ALL_BYTES).server,
        FairQueue(1.0),
        nobody_live(),
    )
    outboxes: asyncio.Queue[Outbox] = asyncio.Queue()

    async def handle(request: web.Request) -> web.WebSocketResponse:
        socket, outbox = await sockets.accept(request, SocketRates(1000, 10_000_000, 2))
        outboxes.put_nowait(outbox)
        async for frame in sockets.frames(socket, outbox, sockets.manners(socket, outbox, "session")):
            outbox.post_frame(frame.data)
        return socket

    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession() as http:

        async def dial() -> Pair:
            client = await http.ws_connect(f"ws://127.0.0.1:{runner.addresses[0][1]}", max_msg_size=0)
            return Pair(await outboxes.get(), client)

        yield dial
    await sockets.close()
    await runner.cleanup()


def step(event: str) -> UiEvent:
    return UiEvent(trace_id="t", session_id="s", job_id="j", utterance_index=0, event=event, status="ok")


async def test_steps_of_an_utterance_wait_for_each_other_and_leave_by_themselves(pairs: Any) -> None:
    pair = await pairs()
    for event in ("INPUT_ENDED", "DISPATCHED", "NODE_ACCEPTED"):
        assert pair.outbox.post(step(event))
        await asyncio.sleep(0)
    assert pair.transport.writes == 0
    heard = [json.loads(frame)["event"] for frame in await pair.heard(3)]
    assert heard == ["INPUT_ENDED", "DISPATCHED", "NODE_ACCEPTED"]
    assert pair.transport.writes == 1
    pair.outbox.post(step("ASR_FINAL"))
    assert json.loads((await pair.heard(1))[0])["event"] == "ASR_FINAL"


async def test_what_does_not_wait_takes_along_what_does_and_stays_behind_it(pairs: Any) -> None:
    pair = await pairs()
    pair.outbox.post(step("DISPATCHED"))
    await asyncio.sleep(0)
    pair.outbox.post_frame(b"the result")
    pair.outbox.post(step("TTS_PLAY_STARTED"))
    await asyncio.sleep(0)
    assert pair.transport.writes == 1
    first, second, third = await pair.heard(3)
    assert ("DISPATCHED" in first, second, "TTS_PLAY_STARTED" in third) == (True, "the result", True)


async def test_a_step_that_waits_leaves_before_the_goodbye(pairs: Any) -> None:
    pair = await pairs()
    pair.outbox.post(step("DISPATCHED"))
    pair.outbox.close(CloseCode.COME_BACK, "goodbye")
    assert "DISPATCHED" in (await pair.heard(1))[0]
    assert (await pair.client.receive()).type is WSMsgType.CLOSE


async def test_what_is_posted_in_one_tick_leaves_in_one_write_and_in_order(pairs: Any) -> None:
    one, other = await pairs(), await pairs()
    posted = [f"frame {n} " + n * 97 * "x" for n in range(20)]
    for text in posted:
        assert one.outbox.post_frame(text.encode())
        assert other.outbox.post_frame(text.upper().encode())
    assert (one.transport.writes, other.transport.writes) == (0, 0)
    assert await one.heard(20) == posted
    assert await other.heard(20) == [text.upper() for text in posted]
    assert (one.transport.writes, other.transport.writes) == (1, 1)


async def test_each_tick_has_a_write_of_its_own(pairs: Any) -> None:
    pair = await pairs()
    for n in range(3):
        pair.outbox.post_frame(b"%d" % n)
        assert await pair.heard(1) == [str(n)]
    assert pair.transport.writes == 3


async def test_much_in_one_tick_is_no_sign_of_a_slow_reader(pairs: Any) -> None:
    pair = await pairs()
    pair.outbox._max_bytes = 20_000
    # Several times what an outbox may hold, and less than what the system takes at once.
    posted = [f"{n} " + 3_000 * "x" for n in range(30)]
    for text in posted:
        assert pair.outbox.post_frame(text.encode())
        assert pair.outbox.pending_bytes <= 20_000
    assert await pair.heard(30) == posted


async def test_nothing_that_was_posted_before_a_close_is_lost(pairs: Any) -> None:
    pair = await pairs()
    assert pair.outbox.post_frame(b"first")
    assert pair.outbox.post_frame(b"second")
    pair.outbox.close(CloseCode.COME_BACK, "later")
    assert not pair.outbox.post_frame(b"too late")
    assert await pair.heard(2) == ["first", "second"]
    goodbye = await pair.client.receive(timeout=10)
    assert (goodbye.type, goodbye.data) == (WSMsgType.CLOSE, CloseCode.COME_BACK)


async def test_an_answer_leaves_before_the_goodbye_that_follows_the_peers_own(pairs: Any) -> None:
    pair = await pairs()
    # Both in one write of the client's, so that they are read in one go.
    pair.client._writer.transport.writelines([b"\x81\x85\x00\x00\x00\x00hello", b"\x88\x82\x00\x00\x00\x00\x03\xe8"])
    assert await pair.heard(1) == ["hello"]
    assert (await pair.client.receive(timeout=10)).type is WSMsgType.CLOSE


async def test_what_waits_to_be_written_counts_towards_the_limit(pairs: Any) -> None:
    pair = await pairs()
    pair.stop_reading()
    overflows = metrics.OVERFLOWS._value.get()
    frame = 9_999 * b"x"
    # The system's buffers take some before the transport has to keep any.
    for _ in range(2_000):
        if not pair.outbox.post_frame(frame):
            break
        assert pair.transport.get_write_buffer_size() + pair.outbox.pending_bytes <= MAX_BYTES
    else:
        raise AssertionError("nothing bounds it")
    assert metrics.OVERFLOWS._value.get() == overflows + 1
    assert not pair.outbox.post_frame(b"x")


async def test_a_reader_that_stopped_is_closed_the_hard_way(pairs: Any) -> None:
    pair = await pairs()
    pair.stop_reading()
    while pair.outbox.post_frame(50_000 * b"x"):
        pass
    await until(pair.transport.is_closing)


async def test_what_waits_for_a_socket_that_died_is_dropped(pairs: Any) -> None:
    pair, other = await pairs(), await pairs()
    pair.outbox.post_frame(b"never")
    other.outbox.post_frame(b"heard")
    pair.transport.abort()
    assert await other.heard(1) == ["heard"]
    assert pair.transport.writes == 0
    assert pair.outbox.pending_bytes == 0
    assert not pair.outbox.post_frame(b"never")


# All of them together


async def test_when_all_have_too_much_unread_who_has_most_is_cut_off(pairs: Any) -> None:
    """Each stays below its own limit; the honest one, which reads, is not touched."""
    before = metrics.OVERFLOWS._value.get()
    honest, *slow = [await pairs() for _ in range(5)]
    for number, pair in enumerate(slow):
        pair.stop_reading()
        while not fill(pair, 500_000 + number * 50_000):
            await asyncio.sleep(0)
    # While the last one's grew, the third had most.
    assert [pair_alive(pair) for pair in slow] == [True, True, False, True]
    assert metrics.OVERFLOWS._value.get() == before + 1
    assert honest.outbox.post_frame(b"{}")
    assert await honest.heard(1) == ["{}"]


async def test_partials_never_fill_an_outbox(pairs: Any) -> None:
    pair = await pairs()
    pair.stop_reading()
    partial = AsrPartial(session_id="s", utterance_index=0, job_id="j", text="x" * 20_000, is_final=False, trace_id="t")
    before = metrics.PARTIALS_DROPPED._value.get()
    for _ in range(1000):
        assert pair.outbox.post(partial)
        await asyncio.sleep(0)
    assert metrics.PARTIALS_DROPPED._value.get() > before
    assert pair.outbox._transport.get_write_buffer_size() < 200_000
    assert pair.outbox.post_frame(b"{}")


def pair_alive(pair: "Pair") -> bool:
    return not pair.outbox._transport.is_closing()


def fill(pair: "Pair", size: int) -> bool:
    """Post until so much waits here, or nothing is taken any more."""
    return not pair.outbox.post_frame(bytes(10_000)) or pair.outbox._transport.get_write_buffer_size() > size
