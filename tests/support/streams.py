"""A reader of server-sent events, as a browser is one."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp

from tests.support.waiting import PATIENCE_S


class Message(NamedTuple):
    name: str
    data: Any
    size: int


class Stream:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.comments: list[str] = []
        self.retry_ms = 0

    async def next(self, *names: str, within_s: float = PATIENCE_S) -> Message:
        """The next message of one of these names; others are passed over."""
        async with asyncio.timeout(within_s):
            while True:
                message = await self._read()
                if not names or message.name in names:
                    return message

    async def change_with(self, *parts: str, within_s: float = PATIENCE_S) -> Any:
        """The next change that tells of these parts."""
        async with asyncio.timeout(within_s):
            while True:
                data = (await self.next("change", within_s=within_s)).data
                if all(part in data for part in parts):
                    return data

    async def ended(self, within_s: float = PATIENCE_S) -> None:
        async with asyncio.timeout(within_s):
            while True:
                try:
                    await self._read()
                except EOFError:
                    return

    async def _read(self) -> Message:
        name, data, size = "", b"", 0
        while True:
            line = await self.response.content.readuntil(b"\n")
            if not line:
                raise EOFError
            size += len(line)
            field, _, value = line.rstrip(b"\n").partition(b": ")
            match field:
                case b"event":
                    name = value.decode()
                case b"data":
                    data = value
                case b"retry":
                    self.retry_ms = int(value)
                case b"":
                    if value:
                        self.comments.append(value.decode())
                    if data:
                        return Message(name, json.loads(data), size)


@asynccontextmanager
async def stream_of(port: int, query: str = "") -> AsyncIterator[Stream]:
    async with (
        aiohttp.ClientSession(read_bufsize=2**24) as http,
        http.get(f"http://127.0.0.1:{port}/v1/watch{query}") as response,
    ):
        assert response.status == 200, await response.text()
        yield Stream(response)
