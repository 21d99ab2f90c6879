"""The connection of a client: whatever ends it, it may be made again."""

from typing import Any, cast

import aiohttp
import pytest

from lingua_scheduler.sdk.line import SessionLine


class Breaking:
    """A socket that breaks while it is read."""

    close_code = None

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __aiter__(self) -> "Breaking":
        return self

    async def __anext__(self) -> Any:
        raise self._error


@pytest.mark.parametrize(
    "error",
    [
        # What aiohttp raises when it answers a ping on a connection that has just broken.
        aiohttp.ClientConnectionResetError("Cannot write to closing transport"),
        ConnectionResetError("reset"),
    ],
)
async def test_a_connection_that_breaks_while_it_is_read_has_ended(error: Exception) -> None:
    line = SessionLine("127.0.0.1:1")
    line.socket = cast("Any", Breaking(error))
    assert await line.next() is None


async def test_a_connection_that_ended_has_no_message() -> None:
    line = SessionLine("127.0.0.1:1")
    assert await line.next() is None
    line.socket = cast("Any", Breaking(StopAsyncIteration()))
    assert await line.next() is None
