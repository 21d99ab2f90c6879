"""A WebSocket over real sockets: what it sends and reads, how it ends, and when it gives up a silent peer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import WSMsgType, web
from websockets.utils import accept_key

from lingua_sdk import websocket
from lingua_sdk.trouble import NotTheProtocol, UnknownHost
from lingua_sdk.websocket import HandshakeRefused, WebSocket
from tests.support.waiting import PATIENCE_S, until

Serving = Callable[[web.WebSocketResponse], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(serve: Serving, *, autoping: bool = True) -> AsyncIterator[str]:
    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path == "/moved":
            raise web.HTTPTemporaryRedirect("/")
        if request.path == "/no":
            return web.json_response({"error": "NO"}, status=403, headers={"Retry-After": "7"})
        socket = web.WebSocketResponse(max_msg_size=0, autoping=autoping)
        await socket.prepare(request)
        await serve(socket)
        return socket

    app = web.Application()
    app.router.add_get("/{any:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def echo(socket: web.WebSocketResponse) -> None:
    async for frame in socket:
        if frame.type is WSMsgType.TEXT:
            await socket.send_str(frame.data)
        else:
            await socket.send_bytes(frame.data)


async def test_frames_of_any_size_come_back_as_what_they_were() -> None:
    async with serving(echo) as url, await WebSocket.open(url, {}) as socket:
        frames = aiter(socket)
        for frame in ("é".encode(), b"x" * 5_000_000):
            await socket.send(frame)
            assert await anext(frames) == frame.decode()
        await socket.send(b"\0\xff", is_text=False)
        assert await anext(frames) == b"\0\xff"


@pytest.mark.parametrize("in_parts", [False, True])
async def test_a_message_beyond_the_limit_closes_the_connection_and_is_not_kept(
    in_parts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "MAX_MESSAGE_BYTES", 1000)
    codes: list[int | None] = []

    async def flood(socket: web.WebSocketResponse) -> None:
        if in_parts:
            assert socket._writer is not None
            # A text of 400 bytes that goes on, and three continuations that go on too.
            for opcode in (1, 0, 0, 0):
                socket._writer.transport.write(bytes((opcode, 126, 1, 144)) + b"x" * 400)
        else:
            await socket.send_bytes(b"x" * 1001)
        await socket.receive()
        codes.append(socket.close_code)

    async with serving(flood) as url:
        async with await WebSocket.open(url, {}) as socket:
            assert [frame async for frame in socket] == []
        await until(lambda: codes)
    assert codes == [1009]


async def test_it_ends_with_the_code_of_the_peer_and_nothing_more_is_sent() -> None:
    async def leave(socket: web.WebSocketResponse) -> None:
        await socket.close(code=4004)

    async with serving(leave) as url, await WebSocket.open(url, {}) as socket:
        assert [frame async for frame in socket] == []
        assert (socket.is_closed, socket.close_code) == (True, 4004)
        with pytest.raises(ConnectionError):
            await socket.send(b"late")


async def test_a_refusal_brings_status_headers_and_body_and_a_redirect_is_followed() -> None:
    async with serving(echo) as url:
        with pytest.raises(HandshakeRefused) as refused:
            await WebSocket.open(f"{url}/no", {"Authorization": "Bearer secret"})
        assert (refused.value.status, refused.value.headers["retry-after"]) == (403, "7")
        assert refused.value.body == b'{"error": "NO"}'
        async with await WebSocket.open(f"{url}/moved", {}) as socket:
            await socket.send(b"there")
            assert await anext(aiter(socket)) == "there"


async def test_what_is_no_scheduler_is_told_apart() -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"220 smtp ready\r\n")
        writer.close()

    for mute in (hang_up, babble):
        server = await asyncio.start_server(mute, "127.0.0.1", 0)
        async with server:
            with pytest.raises((NotTheProtocol, ConnectionResetError)):
                await WebSocket.open(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}", {})
    with pytest.raises(ConnectionRefusedError):
        await WebSocket.open("ws://127.0.0.1:1", {})
    with pytest.raises(UnknownHost, match="no-such-host"):
        await WebSocket.open("ws://no-such-host.invalid:1", {})


async def test_a_peer_that_answers_no_ping_is_left_and_one_that_does_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "PING_EVERY_S", 0.1)
    monkeypatch.setattr(websocket, "CLOSE_WITHIN_S", 0.1)
    pings = 0
    silent = asyncio.Event()

    async def listen(socket: web.WebSocketResponse) -> None:
        nonlocal pings
        async for frame in socket:
            pings += frame.type is WSMsgType.PING
            if silent.is_set():
                await asyncio.sleep(PATIENCE_S)
            await socket.pong(frame.data)

    async with serving(listen, autoping=False) as url, await WebSocket.open(url, {}) as socket:
        reading = asyncio.create_task(_read(socket))
        await until(lambda: pings >= 3)
        assert not reading.done()
        silent.set()
        async with asyncio.timeout(PATIENCE_S):
            await reading
        assert socket.close_code == 1006


async def test_who_reads_too_slowly_holds_up_the_sender() -> None:
    async def never_read(_: web.WebSocketResponse) -> None:
        await asyncio.sleep(PATIENCE_S)

    async with serving(never_read) as url:
        socket = await WebSocket.open(url, {})
        sent = 0

        async def send() -> None:
            nonlocal sent
            while sent < 1_000:
                await socket.send(bytes(100_000), is_text=False)
                sent += 1

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(send(), 0.5)
        assert sent < 900
        socket.abort()
        await socket.close()


async def _read(socket: WebSocket) -> None:
    async for _ in socket:
        pass


async def test_who_does_not_read_holds_up_the_peer_and_loses_nothing() -> None:
    sent = 0

    async def send(socket: web.WebSocketResponse) -> None:
        nonlocal sent
        for number in range(400):
            await socket.send_bytes(number.to_bytes(2, "big") * 50_000)
            sent = number + 1
        await socket.close()

    async with serving(send) as url, await WebSocket.open(url, {}) as socket:
        await until(lambda: sent > 20)
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 400
        frames = [frame async for frame in socket]
        assert [int.from_bytes(bytes(frame[:2]), "big") for frame in frames if isinstance(frame, bytes)] == list(
            range(400)
        )


async def test_a_message_in_several_frames_is_one() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        key = next(line.split()[1] for line in head.splitlines() if line.lower().startswith(b"sec-websocket-key"))
        accept = accept_key(key.decode())
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept.encode() + b"\r\n\r\n"
            # Text in two frames with a ping between them, then a close frame.
            b"\x01\x02\xc3\xa9\x89\x00\x80\x01!\x88\x02\x03\xe8"
        )
        await reader.read()
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server:
        socket = await WebSocket.open(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}", {})
        assert [frame async for frame in socket] == ["é!"]
        assert socket.close_code == 1000
        await socket.close()
