"""A connection that breaks when a test wants it to."""

import asyncio


class Proxy:
    """Between the browser and the scheduler; while it `is_cut`, connections break and none are made."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._frozen: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    @property
    def is_cut(self) -> bool:
        return self._is_cut

    @is_cut.setter
    def is_cut(self, cut: bool) -> None:
        self._is_cut = cut
        if cut:
            for writer in self._writers:
                writer.transport.abort()

    def move(self, target: int) -> None:
        """Later connections lead to another port."""
        self._target = target

    def freeze(self) -> None:
        """What is open stays open, and carries nothing any more."""
        self._frozen = set(self._writers)

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            there, here = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            # What is behind it is being restarted.
            writer.transport.abort()
            return
        self._writers |= {writer, here}
        await asyncio.gather(self._pump(reader, here), self._pump(there, writer))
        self._writers -= {writer, here}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(65_536):
                if writer not in self._frozen:
                    writer.write(piece)
                    await writer.drain()
        except ConnectionError:
            pass
        writer.close()
