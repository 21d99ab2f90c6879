"""How a load process is led: it says a line when it is ready, then one after each command on its standard input."""

import asyncio
import sys
from typing import Protocol, TypeVar

import msgspec
import uvloop

from bench.frames import SocketClosed
from bench.orders import Answer, Command

CONNECT_WITHIN_S = 120.0

C = TypeVar("C", bound=Command)
C_contra = TypeVar("C_contra", bound=Command, contravariant=True)


class LoadFailed(Exception):
    """The other end did something a benchmark cannot go on with."""


class Carrier(Protocol[C_contra]):
    async def connect(self) -> None: ...

    async def carry_out(self, command: C_contra, /) -> Answer: ...


def obey(carrier: Carrier[C], kind: type[C]) -> None:
    """Until nobody gives commands any more, or something failed: then the answer says what."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_obey(carrier, kind))


async def _obey(carrier: Carrier[C], kind: type[C]) -> None:
    try:
        async with asyncio.timeout(CONNECT_WITHIN_S):
            await carrier.connect()
        _tell(Answer())
        commands = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
        async for line in commands:
            _tell(await carrier.carry_out(msgspec.json.decode(line, type=kind)))
    except (LoadFailed, SocketClosed, OSError, TimeoutError) as error:
        _tell(Answer(failure=str(error) or type(error).__name__))


def _tell(answer: Answer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.flush()
