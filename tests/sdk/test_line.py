"""The connection of a client: whatever ends it, it may be made again."""

from typing import Any, cast

from lingua_sdk.line import SessionLine


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
