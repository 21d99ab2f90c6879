"""The lean WebSocket client reads frames however the network cuts them."""

import asyncio
from typing import Any, cast

import pytest

from bench.frames import FramePeer, SocketClosed, head_of
from lingua_scheduler.gateway.outbox import text_header

UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


class Listener(FramePeer):
    def __init__(self) -> None:
        super().__init__("/x")
        self.heard: list[bytes] = []
        self.goodbyes: list[str] = []

    def on_text(self, payload: bytes) -> None:
        self.heard.append(payload)

    def on_closed(self, reason: str) -> None:
        self.goodbyes.append(reason)


class Wire:
    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data


def connected() -> tuple[Listener, Wire]:
    listener, wire = Listener(), Wire()
    listener.connection_made(cast("asyncio.BaseTransport", cast("Any", wire)))
    wire.written = b""
    return listener, wire


@pytest.mark.parametrize(
    ("sizes", "step_bytes"),
    [((0, 1, 125, 126, 300), 1), ((0, 1, 125, 126, 300), 7), ((65_535, 65_536), 1000), ((0, 65_536, 1), 1_000_000)],
)
async def test_frames_arrive_whole(sizes: tuple[int, ...], step_bytes: int) -> None:
    listener, _ = connected()
    messages = [b"a" * size for size in sizes]
    stream = UPGRADED + b"".join(text_header(len(message)) + message for message in messages)
    for at in range(0, len(stream), step_bytes):
        listener.data_received(stream[at : at + step_bytes])
    assert listener.heard == messages


async def test_a_ping_is_answered() -> None:
    listener, wire = connected()
    listener.data_received(UPGRADED + b"\x89\x02hi")
    assert wire.written == b"\x8a\x82\0\0\0\0hi"


async def test_a_refused_handshake_is_told_to_whoever_waits() -> None:
    listener, _ = connected()
    listener.data_received(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
    with pytest.raises(SocketClosed, match="503"):
        await listener.opened


async def test_a_goodbye_is_heard_once() -> None:
    listener, _ = connected()
    listener.data_received(UPGRADED + b"\x88\x06\x03\xf4late")
    listener.connection_lost(None)
    assert listener.goodbyes == ["late"]


@pytest.mark.parametrize(("length", "head"), [(5, 6), (125, 6), (126, 8), (65_535, 8), (65_536, 14)])
def test_client_frames_are_masked(length: int, head: int) -> None:
    assert len(head_of(0x81, length)) == head
    assert head_of(0x81, length)[1] & 0x80
