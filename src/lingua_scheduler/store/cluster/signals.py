"""Signals: messages between instances that may be lost, by Redis Pub/Sub on a connection that reconnects by itself."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, get_args

import hiredis
import msgspec
from redis.asyncio.connection import AbstractConnection

from lingua_scheduler.protocol.signals import DECODER, Signal
from lingua_scheduler.store.connection import RECONNECTS, RedisAway, RedisLine, Waiter
from lingua_scheduler.telemetry import logs, metrics
from lingua_sdk.domain.decoding import DECODE_ERRORS

_log = logs.get()

_HEARD = metrics.by(metrics.SIGNALS, *(kind.__name__ for kind in get_args(Signal)), "unreadable")

# After this much silence the connection is checked with a ping, and closed after as much again.
QUIET_S = 5.0
CONNECT_WITHIN_S = 2.0
MAX_BYTES = 16_384

Handlers = Mapping[type[Any], Callable[[Any], None]]


class Signals:
    """One channel for all instances. What is said while a listener is away is lost to it."""

    def __init__(self, line: RedisLine, channel: str) -> None:
        self._line = line
        self._channel = channel
        self.listening = asyncio.Event()

    def publish(self, signal: Signal, to: str = "") -> Waiter:
        """Send a signal to all instances, including this one, or to one.

        The returned future is done when it was sent.
        """
        channel = f"{self._channel}:{to}" if to else self._channel
        said = self._line.call("PUBLISH", channel, msgspec.json.encode(signal))
        said.add_done_callback(_do_not_mind)
        return said

    async def listen(self, handlers: Handlers, instance: str = "") -> None:
        """Hand every signal to the handler of its type, for ever; handlers must not take long.

        Those to all are heard, and those to `instance`.
        """
        channels = [self._channel, f"{self._channel}:{instance}"] if instance else [self._channel]
        failures, was_failing = 0, False
        while True:
            connection: AbstractConnection | None = None
            try:
                async with asyncio.timeout(CONNECT_WITHIN_S):
                    connection = await self._line.another_connection()
                    await connection.connect()  # type: ignore[no-untyped-call]
                    await _send(connection, "SUBSCRIBE", *channels)
                    for _ in channels:
                        await connection.read_response(disconnect_on_error=False)
                self.listening.set()
                failures, was_failing = 0, False
                await self._hear(connection, handlers)
            except Exception as error:
                if not was_failing:
                    # Said once, however long it lasts.
                    _log.warning("signals.deaf", error=f"{type(error).__name__}: {error}")
                was_failing = True
            finally:
                self.listening.clear()
                if connection is not None:
                    await connection.disconnect(nowait=True)
            failures += 1
            await asyncio.sleep(RECONNECTS.pause_s(failures))

    async def _hear(self, connection: AbstractConnection, handlers: Handlers) -> None:
        is_asked = False
        while True:
            # Raw, because rubbish need not be UTF-8. With a timeout of ours the reply is None when it is quiet.
            reply = await connection.read_response(True, timeout=QUIET_S, disconnect_on_error=False)
            if reply is None:
                if is_asked:
                    raise RedisAway(f"no answer for {QUIET_S:g} s")
                is_asked = True
                await _send(connection, "PING")
                continue
            is_asked = False
            if reply[0] == b"message":
                _hand_over(reply[2], handlers)


def _hand_over(said: bytes, handlers: Handlers) -> None:
    try:
        if len(said) > MAX_BYTES:
            raise msgspec.ValidationError("it is too long")
        signal = DECODER.decode(said)
    except DECODE_ERRORS:
        # Of another release, or invalid; a signal may be lost.
        _HEARD["unreadable"].inc()
        return
    _HEARD[type(signal).__name__].inc()
    try:
        handlers[type(signal)](signal)
    except Exception:
        _log.exception("signal.surprised", kind=type(signal).__name__)


async def _send(connection: AbstractConnection, *command: str) -> None:
    await connection.send_packed_command(hiredis.pack_command(command), check_health=False)  # type: ignore[arg-type]


def _do_not_mind(said: Waiter) -> None:
    """A signal that did not leave is a lost one; looking at the error is what keeps asyncio quiet."""
    if not said.cancelled():
        said.exception()
