"""How fast a socket is read, what it may hold of unfinished messages, and how much rubbish it may talk."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic, sleep, thread_time
from typing import Any, cast

import pytest
from aiohttp import WSMsgType
from aiohttp._websocket.reader import WebSocketReader
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.gateway.fair_queue import FairQueue
from lingua_scheduler.gateway.frame_tap import FrameTap
from lingua_scheduler.gateway.outbox import Flusher, Outbox, Unread
from lingua_scheduler.gateway.valve import RUN_FRAMES, Commons, SocketRates, Unfinished, Valve
from lingua_scheduler.services.nodes.registry import REGISTRATIONS
from lingua_scheduler.telemetry import metrics
from lingua_scheduler.telemetry.tasks import Nursery
from tests.support.bare import Bare, frame, handshake
from tests.support.peers import field, registration
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

PLENTY = SocketRates(1_000_000, 1_000_000_000, 2)


class Wire:
    """As aiohttp's protocol, as far as a valve knows it."""

    def __init__(self) -> None:
        self.transport: Any = self
        self._reading_paused = False
        self.is_reading = True
        self.is_aborted = False

    def _pause_reading_for_buffer(self) -> None:
        self.is_reading = False

    def _resume_reading_for_buffer(self) -> None:
        self.is_reading = True

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False

    def abort(self) -> None:
        self.is_aborted = True


class Rig:
    def __init__(
        self, rates: SocketRates = PLENTY, account: Unfinished | None = None, queue_bytes: int = 1_000_000
    ) -> None:
        self.wire = cast("Any", Wire())
        self.account = account or Unfinished(1_000_000, 60)
        tap = FrameTap(self.wire, queue_bytes, loop=asyncio.get_running_loop())
        reader = WebSocketReader(tap, 1_000_000, compress=False, decode_text=False)
        self.valve = Valve(reader, tap, self.wire, rates, Commons(self.account, FairQueue(1.0), FairQueue(1.0)))
        self.heard: list[tuple[WSMsgType, bytes]] = []
        tap.at_once = lambda data, is_text: self._hear(WSMsgType.TEXT if is_text else WSMsgType.BINARY, data)
        tap.on_ping = lambda data: self.heard.append((WSMsgType.PING, data))
        tap.on_pong = lambda: self.heard.append((WSMsgType.PONG, b""))

    def _hear(self, kind: WSMsgType, data: bytes) -> bool:
        self.heard.append((kind, bytes(data)))
        return True


def fragment(payload: bytes, opcode: int, is_last: bool) -> bytes:
    first, *rest = frame(payload, opcode)
    return bytes([first if is_last else first & 0x7F, *rest])


texts = st.binary(max_size=300).map(lambda payload: (frame(payload), [(WSMsgType.TEXT, payload)]))
binaries = st.sampled_from([0, 125, 126, 5000]).map(
    lambda size: (frame(bytes(size), opcode=2), [(WSMsgType.BINARY, bytes(size))])
)
pings = st.binary(max_size=20).map(lambda payload: (frame(payload, opcode=9), [(WSMsgType.PING, payload)]))
in_fragments = st.lists(st.binary(max_size=200), min_size=2, max_size=5).map(
    lambda parts: (
        b"".join(
            fragment(part, 0 if at else 1, at == len(parts) - 1) + frame(b"x", opcode=9) * (at < len(parts) - 1)
            for at, part in enumerate(parts)
        ),
        [(WSMsgType.PING, b"x")] * (len(parts) - 1) + [(WSMsgType.TEXT, b"".join(parts))],
    )
)


@given(
    st.lists(texts | binaries | pings | in_fragments, max_size=60),
    st.lists(st.integers(min_value=1, max_value=700), min_size=1, max_size=50),
)
async def test_however_frames_are_cut_they_are_heard_whole_and_in_order(
    sent: list[tuple[bytes, list[tuple[WSMsgType, bytes]]]], pieces: list[int]
) -> None:
    rig, wire = Rig(), b"".join(written for written, _ in sent)
    at, turn = 0, 0
    while at < len(wire):
        size = pieces[turn % len(pieces)]
        assert rig.valve.feed_data(wire[at : at + size]) == (False, b"")
        at, turn = at + size, turn + 1
        if not turn % 3:
            await asyncio.sleep(0)
    expected = [heard for _, meant in sent for heard in meant]
    while len(rig.heard) < len(expected):
        await asyncio.sleep(0)
    assert rig.heard == expected
    assert (rig.valve.unfinished, rig.account.total) == (0, 0)


async def test_many_frames_in_one_read_leave_room_for_others() -> None:
    rig = Rig()
    rig.valve.feed_data(frame(b"", opcode=9) * (3 * RUN_FRAMES))
    assert len(rig.heard) == RUN_FRAMES
    await asyncio.sleep(0)
    assert len(rig.heard) == 2 * RUN_FRAMES
    await until(lambda: len(rig.heard) == 3 * RUN_FRAMES)


@pytest.mark.parametrize(
    "sent",
    [frame(b"", opcode=9), frame(b"", opcode=10), b"\x00\x80" + bytes(4), frame(b"{}")],
    ids=["pings", "pongs", "continuations", "texts"],
)
async def test_frames_of_every_kind_use_up_the_rate_and_nothing_is_lost(sent: bytes) -> None:
    rig = Rig(SocketRates(100, 1_000_000, 2))
    told: list[float] = []
    rig.valve.on_empty = lambda: told.append(monotonic())
    if sent[0] == 0:
        rig.valve.feed_data(fragment(b"", 1, is_last=False))
    began = monotonic()
    rig.valve.feed_data(sent * 250 + frame(b"last", opcode=9))
    await until(lambda: told)
    assert not rig.wire.is_reading
    await until(lambda: (WSMsgType.PING, b"last") in rig.heard)
    # 200 at once, then a hundred a second, in runs.
    assert monotonic() - began > 0.3
    await until(lambda: rig.wire.is_reading)


async def test_bytes_use_up_the_rate_while_a_frame_is_coming() -> None:
    rig = Rig(SocketRates(1000, 10_000, 2))
    rig.valve.feed_data(frame(bytes(30_000), opcode=2)[:25_000])
    assert not rig.wire.is_reading
    assert rig.valve.unfinished == 25_000 - 8


async def test_who_holds_most_of_what_is_unfinished_is_cut_off() -> None:
    account = Unfinished(100_000, 60)
    honest, greedy, fragmented = (Rig(account=account) for _ in range(3))
    closed: list[str] = []
    honest.valve.on_close = lambda *_: closed.append("honest")
    greedy.valve.on_close = lambda *_: closed.append("greedy")
    fragmented.valve.on_close = lambda *_: closed.append("fragmented")
    before = metrics.CUT_OFF.labels("unfinished")._value.get()
    honest.valve.feed_data(frame(bytes(20_000))[:10_000])
    for _ in range(3):
        greedy.valve.feed_data(frame(bytes(60_000))[:20_000] if not greedy.valve.unfinished else bytes(20_000))
    assert closed == []
    for number in range(50):
        fragmented.valve.feed_data(fragment(bytes(1000), 0 if number else 1, is_last=False))
    assert closed == ["greedy"]
    assert account.total < 100_000
    assert metrics.CUT_OFF.labels("unfinished")._value.get() == before + 1
    # What it sends now costs nothing, and the others go on.
    greedy.valve.feed_data(bytes(60_000))
    assert greedy.valve.unfinished == 0
    honest.valve.feed_data(frame(bytes(20_000))[10_000:])
    assert honest.heard == [(WSMsgType.TEXT, bytes(20_000))]


async def test_a_message_that_does_not_end_is_cut_off_though_fragments_come() -> None:
    account = Unfinished(1_000_000, 60)
    drip, talker = Rig(account=account), Rig(account=account)
    drip.valve.feed_data(fragment(b"a", 1, is_last=False))
    began = drip.valve.began_s
    talker.valve.feed_data(frame(b"whole") + frame(b"half")[:5])
    drip.valve.feed_data(fragment(b"b", 0, is_last=False) + frame(b"", opcode=9))
    assert drip.valve.began_s == began
    account.look(began + 59)
    assert not drip.wire.is_aborted
    talker.valve.began_s += 30
    account.look(began + 61)
    assert (drip.wire.is_aborted, talker.wire.is_aborted) == (True, False)


def burn(cpu_s: float) -> None:
    until_s = thread_time() + cpu_s
    while thread_time() < until_s:
        pass


@pytest.mark.parametrize("size", [5_000, 200_000], ids=["one frame", "a frame whose end is short"])
async def test_who_costs_much_rests_for_it(size: int) -> None:
    rig = Rig()
    costs = iter([0.02, 0.03])

    def work(data: bytes, is_text: bool) -> bool:
        burn(next(costs, 0))
        return rig._hear(WSMsgType.TEXT, data)

    rig.valve._tap.at_once = work
    sent = frame(bytes(size))
    # By the time that passed this was too much; from now on it is weighed exactly.
    rig.valve.feed_data(sent)
    assert rig.wire.is_reading
    began = monotonic()
    rig.valve.feed_data(sent[:-10])
    assert rig.wire.is_reading
    rig.valve.feed_data(sent[-10:] + frame(b"behind"))
    assert not rig.wire.is_reading
    await until(lambda: rig.wire.is_reading)
    # 10 ms were in reserve, so that 20 are to be paid for.
    assert monotonic() - began > 0.1
    assert [data for _, data in rig.heard] == [bytes(size), bytes(size), b"behind"]


async def test_nobody_rests_for_time_that_passed_while_others_ran() -> None:
    rig = Rig()

    def wait(data: bytes, is_text: bool) -> bool:
        sleep(0.02)
        return rig._hear(WSMsgType.TEXT, data)

    rig.valve._tap.at_once = wait
    for _ in range(10):
        rig.valve.feed_data(frame(bytes(5_000)))
        assert rig.wire.is_reading


async def test_what_is_read_in_the_queue_is_paid_for_and_long_frames_that_cost_little_are_not_held_up() -> None:
    rig = Rig()
    for _ in range(10):
        rig.valve.feed_data(frame(bytes(200_000), opcode=2))
        assert rig.wire.is_reading
        await asyncio.sleep(0)
    rig.valve.charge(0.04)
    assert rig.wire.is_reading
    rig.valve.charge(0.04)
    assert not rig.wire.is_reading
    # Another one, while it rests.
    began = monotonic()
    rig.valve.charge(0.02)
    await until(lambda: rig.wire.is_reading)
    assert monotonic() - began > 0.15


# With a scheduler


@asynccontextmanager
async def dialled(port: int, path: str) -> AsyncIterator[Bare]:
    peer = Bare(*await asyncio.open_connection("127.0.0.1", port))
    peer.writer.write(handshake(path))
    await peer.head()
    try:
        yield peer
    finally:
        peer.writer.transport.abort()


async def goodbye(peer: Bare) -> tuple[int, str]:
    async with asyncio.timeout(90):
        while True:
            opcode, payload = await peer.next()
            if opcode == 8:
                return struct.unpack("!H", payload[:2])[0], payload[2:].decode()


@pytest.mark.parametrize("path", ["/ws/node", "/ws/session"])
@pytest.mark.parametrize("unmasked", [b"\x81\x02{}", b"\x89\x00", b"\x81\x7e\x01\x00" + bytes(256)])
async def test_who_does_not_mask_its_frames_is_closed_with_1002(
    server: RedisProcess, path: str, unmasked: bytes
) -> None:
    async with scheduler_on(server.url) as (scheduler, _), dialled(scheduler.port, path) as peer:
        peer.writer.write(unmasked)
        code, _ = await goodbye(peer)
        assert code == 1002
        async with asyncio.timeout(90):
            await peer.until_hung_up()


@pytest.mark.parametrize("path", ["/ws/node", "/ws/session"])
async def test_who_talks_rubbish_is_told_and_then_closed(server: RedisProcess, path: str) -> None:
    async with scheduler_on(server.url, server__max_bad_frames_per_min=20) as (scheduler, _):
        async with field(scheduler.port) as peers, dialled(scheduler.port, path) as rubbish:
            await peers.node()
            client = await peers.client()
            rubbish.writer.write(frame(b"{") * 500)
            for _ in range(20):
                assert (await rubbish.message())["code"] == "INVALID_MESSAGE"
            assert await goodbye(rubbish) == (1008, "too many unreadable frames")
            await client.utterance(0)
            assert (await client.outcome())["type"] == "translation_result"


async def test_a_node_that_does_not_register_is_closed_whatever_else_it_says(server: RedisProcess) -> None:
    async with scheduler_on(server.url, nodes__register_within_ms=200) as (scheduler, _):
        async with dialled(scheduler.port, "/ws/node") as silent, dialled(scheduler.port, "/ws/node") as pinging:
            pinging.writer.write(frame(b"", opcode=9))
            for peer in (silent, pinging):
                assert await goodbye(peer) == (1013, "node_register did not arrive in time")


async def test_nodes_that_wait_for_their_turn_to_register_are_not_closed_and_those_that_left_not_registered(
    server: RedisProcess,
) -> None:
    changes = {"nodes__register_within_ms": 300, "server__max_registrations_per_s": 1}
    before = REGISTRATIONS["registered"]._value.get()
    async with scheduler_on(server.url, **changes) as (scheduler, _), AsyncExitStack() as sockets:
        for number in range(3):
            peer = await sockets.enter_async_context(dialled(scheduler.port, "/ws/node"))
            peer.writer.write(frame(registration(node_id=f"node-{number}")))
            while scheduler._connected.registry._entering + len(scheduler._connected.links) <= number:
                await asyncio.sleep(0.01)
            if number == 1:
                peer.writer.transport.abort()
        while (await peer.message())["type"] != "node_register_ack":
            pass
        await until(lambda: not scheduler._connected.registry._entering)
        assert {link.node_id for link in scheduler._connected.links.all()} == {"node-0", "node-2"}
        assert REGISTRATIONS["registered"]._value.get() == before + 2


async def test_of_many_pings_at_once_the_last_is_answered(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), dialled(scheduler.port, "/ws/session") as peer:
        peer.writer.write(b"".join(frame(b"%d" % number, opcode=9) for number in range(100)))
        answered: list[bytes] = []
        while not answered or answered[-1] != b"99":
            opcode, payload = await peer.next()
            assert opcode == 10
            answered.append(payload)
        assert len(answered) <= 100 // RUN_FRAMES + 1


async def test_a_header_that_comes_in_single_bytes_is_waited_for() -> None:
    rig, sent = Rig(), b"\x82\xff" + struct.pack("!Q", 70_000) + bytes(4) + bytes(70_000)
    for at in range(14):
        rig.valve.feed_data(sent[at : at + 1])
    rig.valve.feed_data(sent[14:])
    assert [(kind, len(data)) for kind, data in rig.heard] == [(WSMsgType.BINARY, 70_000)]


# What was read when the peer left


def numbered(count: int) -> bytes:
    return b"".join(frame(b"%d" % number) for number in range(count))


def lose(rig: Rig) -> None:
    """As aiohttp does when the connection is lost."""
    rig.wire.transport = None
    rig.valve.feed_eof()


async def test_what_was_read_before_the_peer_left_is_heard() -> None:
    rig = Rig()
    rig.valve.feed_data(numbered(60))
    await asyncio.sleep(0)
    lose(rig)
    assert len(rig.heard) == 2 * RUN_FRAMES
    assert not rig.valve._tap.is_eof()
    await until(rig.valve._tap.is_eof)
    assert [int(data) for _, data in rig.heard] == list(range(60))


async def test_at_its_own_rate() -> None:
    rig = Rig(SocketRates(100, 1_000_000, 0.2))
    began = monotonic()
    rig.valve.feed_data(numbered(60))
    lose(rig)
    await until(rig.valve._tap.is_eof)
    assert len(rig.heard) == 60
    assert monotonic() - began > 0.2


async def test_unless_nobody_listens_any_more_or_it_takes_too_long() -> None:
    deaf, slow = Rig(), Rig(SocketRates(1, 1_000_000, 1))
    for rig in (deaf, slow):
        rig.valve.feed_data(numbered(60))
    deaf.valve._tap.turn_deaf()
    lose(deaf)
    assert deaf.valve._tap.is_eof()
    lose(slow)
    assert not slow.valve._tap.is_eof()
    slow.valve.close()
    assert slow.valve._tap.is_eof()
    patient = Rig(SocketRates(50, 1_000_000, 0.02))
    patient.valve.feed_data(numbered(60))
    lose(patient)
    patient.valve._ended_s -= 60
    await until(patient.valve._tap.is_eof, within_s=30)
    assert len(patient.heard) < 60


# When our own queue is full


async def test_what_waits_for_our_queue_is_not_held_against_the_peer() -> None:
    account = Unfinished(10_000, 60)
    rig = Rig(account=account)
    rig.valve.feed_data(numbered(RUN_FRAMES) + frame(bytes(500))[:100])
    rig.wire.pause_reading()
    for _ in range(3):
        rig.valve.feed_data(frame(bytes(20_000)))
        await asyncio.sleep(0)
    assert account.total < 1_000
    assert not rig.wire.is_aborted


async def test_nor_is_the_time_it_waits() -> None:
    account = Unfinished(1_000_000, 60)
    rig = Rig(account=account)
    rig.valve.feed_data(frame(bytes(500))[:100])
    began = rig.valve.began_s
    rig.wire.pause_reading()
    account.look(began + 61)
    assert not rig.wire.is_aborted
    rig.wire.resume_reading()
    account.look(began + 61 + 59)
    assert not rig.wire.is_aborted
    account.look(began + 61 + 61)
    assert rig.wire.is_aborted


async def test_a_full_queue_is_waited_for_without_looking_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    go_on = Valve._go_on

    def counted(valve: Valve) -> None:
        looks.append(monotonic())
        go_on(valve)

    monkeypatch.setattr(Valve, "_go_on", counted)
    rig = Rig(queue_bytes=1_000)
    rig.valve._tap.at_once = None
    rig.valve.feed_data(numbered(100))
    await asyncio.sleep(0.2)
    assert len(looks) <= 3
    rig.valve.feed_data(frame(b"100"))
    found = [int((await rig.valve._tap.read()).data) for _ in range(101)]
    assert found == list(range(101))
    assert rig.wire.is_reading


async def test_whom_we_do_not_read_cannot_be_heard() -> None:
    rig = Rig()
    tap = rig.valve._tap
    transport = cast("Any", Transport())
    outbox = Outbox(cast("Any", None), tap, transport, 1_000, Flusher(), Nursery("n"), Unread(1_000))
    outbox.ping_if_silent()
    assert transport.written == [b"\x89\x00"]
    rig.wire.pause_reading()
    assert outbox.is_heard
    for _ in range(3):
        outbox.ping_if_silent()
    assert not transport.is_aborted
    rig.wire.resume_reading()
    # It is asked again, and only then is its silence its own.
    outbox.ping_if_silent()
    assert (len(transport.written), transport.is_aborted) == (2, False)
    outbox.ping_if_silent()
    assert transport.is_aborted


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_aborted = False

    def is_closing(self) -> bool:
        return self.is_aborted

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def abort(self) -> None:
        self.is_aborted = True
