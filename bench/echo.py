"""The least that aiohttp can do with a WebSocket: send back what came. The floor below the scheduler's sockets."""

import asyncio

import uvloop
from aiohttp import WSMsgType, web


async def echo(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(compress=False, decode_text=False, max_msg_size=2**24)
    await socket.prepare(request)
    async for frame in socket:
        if frame.type is WSMsgType.TEXT:
            await socket.send_frame(frame.data, WSMsgType.TEXT)
    return socket


async def serve() -> None:
    app = web.Application()
    app.router.add_get("/echo", echo)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def main() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


if __name__ == "__main__":
    main()
