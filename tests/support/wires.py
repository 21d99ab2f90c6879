"""A wire between two peers that can be cut: nothing arrives, nothing is lost, nobody is told; or it breaks."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Wire:
    """A TCP proxy. While it is cut, bytes wait as they do in a network that sends them again, and so do connections."""

    def __init__(self, far_port: int) -> None:
        self._far_port = far_port
        self._whole = asyncio.Event()
        self._whole.set()
        self._transports: set[asyncio.WriteTransport] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.connections = 0

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        self._whole.set()

    def tear(self) -> None:
        """Every connection is gone at once."""
        for transport in list(self._transports):
            transport.abort()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        await self._whole.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._far_port)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer.transport, far_writer.transport}
        self._transports |= ends
        try:
            await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))
        finally:
            self._transports -= ends

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while carried := await reader.read(65_536):
                await self._whole.wait()
                writer.write(carried)
                await writer.drain()
        # The end of a connection does not come through a cut wire either.
        await self._whole.wait()
        writer.close()

    async def close(self) -> None:
        self.mend()
        self.tear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def wire(far_port: int) -> AsyncIterator[Wire]:
    laid = Wire(far_port)
    door = await asyncio.start_server(laid.take, "127.0.0.1", 0)
    laid.port = door.sockets[0].getsockname()[1]
    try:
        yield laid
    finally:
        door.close()
        await laid.close()
