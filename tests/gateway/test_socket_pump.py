"""The pump of a socket: frames keep their order, whether they wait in the queue or are handled at once."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from aiohttp import WSMessage, WSMsgType
from aiohttp._websocket.reader import WebSocketReader

from lingua_scheduler.domain.access.principals import LOCAL
from lingua_scheduler.gateway.fair_queue import FairQueue
from lingua_scheduler.gateway.frame_tap import FrameTap
from lingua_scheduler.gateway.socket_pump import Manners, Sockets
from lingua_scheduler.gateway.valve import COUNTED_BYTES, RUN_FRAMES, Commons, SocketRates, Unfinished, Valve
from lingua_sdk.protocol.bulk import OF_NODES, Bulk
from tests.gateway.test_valve import Wire
from tests.support.access import nobody_live
from tests.support.bare import frame
from tests.support.schedulers import settings_with

PLENTY = SocketRates(1_000_000, 1_000_000_000, 2)
GOODBYE = frame(b"\x03\xe8", opcode=8)


class Socket:
    """As far as the pump knows one."""

    def __init__(self, queue_bytes: int) -> None:
        wire = cast("Any", Wire())
        self.tap = FrameTap(wire, queue_bytes, loop=asyncio.get_running_loop())
        reader = WebSocketReader(self.tap, 1_000_000, compress=False, decode_text=False)
        commons = Commons(Unfinished(1_000_000, 60), FairQueue(1.0), FairQueue(1.0))
        self.valve = Valve(reader, self.tap, wire, PLENTY, commons)
        self.before_close: Callable[[], None] | None = None

    def __aiter__(self) -> "Socket":
        return self

    async def __anext__(self) -> WSMessage:
        message = await self.tap.read()
        if message.type is WSMsgType.CLOSE:
            raise StopAsyncIteration
        return cast("WSMessage", message)


async def heard(socket: Socket, is_taken_at_once: Callable[[int], bool], on_frame: Callable[[int], None]) -> list[int]:
    found: list[int] = []

    def at_once(data: bytes, _is_text: bool) -> bool:
        if is_taken_at_once(int(data)):
            found.append(int(data))
            return True
        return False

    manners = cast("Any", SimpleNamespace(side="node"))
    pump = Sockets(settings_with().server, FairQueue(1.0), nobody_live()).frames(
        cast("Any", socket), cast("Any", SimpleNamespace(principal=LOCAL)), manners, at_once
    )
    async for got in pump:
        found.append(int(got.data))
        on_frame(int(got.data))
    return found


async def test_a_frame_does_not_pass_one_that_was_taken_out_of_the_queue() -> None:
    socket = Socket(1_000_000)
    for number in range(RUN_FRAMES):
        socket.valve.feed_data(frame(b"%d" % number))

    def on_frame(number: int) -> None:
        # The pump lets others run before it goes on with the last one.
        if number == RUN_FRAMES - 2:
            sent = frame(b"%d" % RUN_FRAMES) + GOODBYE
            asyncio.get_running_loop().call_soon(socket.valve.feed_data, sent)

    order = await heard(socket, lambda number: number >= RUN_FRAMES, on_frame)
    assert order == list(range(RUN_FRAMES + 1))


async def test_nor_does_one_that_a_full_queue_had_held_back() -> None:
    socket = Socket(50)
    socket.valve.feed_data(b"".join(frame(b"%d" % number) for number in range(4)) + GOODBYE)
    order = await heard(socket, lambda number: number > 0, lambda _: None)
    assert order == [0, 1, 2, 3]


async def test_when_all_is_done_frames_are_taken_at_once_again() -> None:
    socket = Socket(1_000_000)
    taken: list[int] = []

    def take(number: int) -> bool:
        taken.append(number)
        return number != 0

    pumping = asyncio.ensure_future(heard(socket, take, lambda _: None))
    await asyncio.sleep(0)
    socket.valve.feed_data(frame(b"0"))
    for _ in range(3):
        await asyncio.sleep(0)
    socket.valve.feed_data(frame(b"1") + GOODBYE)
    assert taken == [0, 1]
    assert await pumping == [0, 1]


async def test_a_long_frame_is_weighed_once() -> None:
    socket, charged, looks = Socket(1_000_000), list[float](), list[float]()

    class Counting:
        def take(self, cpu_s: float, _now_s: float) -> float:
            charged.append(cpu_s)
            return 0.0

        def clock(self) -> float:
            looks.append(0.0)
            return len(looks) * 1e-6

    socket.valve._scales = cast("Any", Counting())
    manners = Manners(cast("Any", socket), cast("Any", None), "node", 120)

    def read(frame: bytes, _most: Bulk) -> int:
        return len(frame)

    socket.tap.at_once = lambda data, _: bool(manners.weigh(data, read, OF_NODES))
    socket.valve.feed_data(frame(bytes(5_000)))
    assert (len(charged), len(looks)) == (0, 2)
    socket.valve.feed_data(frame(bytes(COUNTED_BYTES)))
    assert (len(charged), len(looks)) == (1, 4)
    # One that waited in the queue is weighed by whoever reads it.
    assert manners.weigh(bytes(5_000), read, OF_NODES) == 5_000
    assert (len(charged), len(looks)) == (2, 6)
