"""The connection of a client: whatever ends it, it may be made again."""

import asyncio
import contextlib
from typing import Any, cast

import pytest

from lingua_sdk import line as line_module
from lingua_sdk.line import SessionLine
from lingua_sdk.protocol.session import SessionInit


class Breaking:
    """A socket that breaks while it is read."""

    close_code = None

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __aiter__(self) -> "Breaking":
        return self

    async def __anext__(self) -> Any:
        raise self._error


async def test_a_connection_that_breaks_while_it_is_read_has_ended() -> None:
    line = SessionLine("127.0.0.1:1")
    line.socket = cast("Any", Breaking(ConnectionResetError("reset")))
    assert await line.next() is None


async def test_a_connection_that_ended_has_no_message() -> None:
    line = SessionLine("127.0.0.1:1")
    assert await line.next() is None
    line.socket = cast("Any", Breaking(StopAsyncIteration()))
    assert await line.next() is None


async def test_a_scheduler_that_never_answers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that is open, and behind which nothing speaks."""
    monkeypatch.setattr(line_module, "ACK_WITHIN_S", 0.2)

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        gone.set()

    gone = asyncio.Event()
    async with await asyncio.start_server(listen, "127.0.0.1", 0) as silent:
        address = f"127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        init = SessionInit(client_version="1", platform="test", src_lang="en", tgt_lang="pt")
        with pytest.raises(TimeoutError, match=rf"no answer of ws://{address}/ws/session within 0\.2 s"):
            await SessionLine(address).connect(init)
        await gone.wait()
