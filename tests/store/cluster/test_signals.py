"""Signals between instances: everybody who listens hears them, and a broken connection comes back."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lingua_scheduler.protocol.signals import CancelJob, JobsWait, Signal, SlotFreed
from lingua_scheduler.store.cluster import signals
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from tests.store.conftest import AnyServer
from tests.support.waiting import until

CANCEL = CancelJob("i-here", "job-0-1")


@asynccontextmanager
async def listener(store: Store) -> AsyncIterator[list[Any]]:
    heard: list[Any] = []
    task = asyncio.create_task(store.signals.listen(dict.fromkeys((CancelJob, JobsWait, SlotFreed), heard.append)))
    try:
        await asyncio.wait_for(store.signals.listening.wait(), 10)
        yield heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def another(server: AnyServer, prefix: str = "test:v1") -> AsyncIterator[Store]:
    opened = Store(server.url, key_prefix=prefix)
    await opened.open()
    yield opened
    await opened.close()


@pytest.mark.parametrize("signal", [CANCEL, JobsWait("i-1", ["en:zh:speech"]), SlotFreed("i-1", "en:zh:speech")])
async def test_every_listener_hears_a_signal(store: Store, server: AnyServer, signal: Signal) -> None:
    async with another(server) as other, listener(store) as here, listener(other) as there:
        await store.signals.publish(signal)
        await until(lambda: here == there == [signal])


async def test_installations_with_different_prefixes_do_not_hear_each_other(store: Store, server: AnyServer) -> None:
    async with another(server, "other:v1") as other, listener(store) as here, listener(other) as there:
        await other.signals.publish(CANCEL)
        await until(lambda: there == [CANCEL])
        assert here == []


RUBBISH: list[str | bytes] = [
    "",
    "{",
    '{"type":"from the future"}',
    '{"type":"cancel_job"}',
    "[]",
    "x" * 100_000,
    b"\xff",
]
DEEP = b'{"type":"cancel_job","depth":' + b"[" * 5_000 + b"]" * 5_000 + b"}"


async def test_rubbish_is_passed_over_on_the_same_connection(store: Store) -> None:
    """A new connection would miss what is said meanwhile."""
    async with listener(store) as heard:
        for rubbish in (*RUBBISH, DEEP, b'{"type":"cancel_job","owner":"\xff"}'):
            await store.line.call("PUBLISH", store.keys.signals, rubbish)
        await store.signals.publish(CANCEL)
        await until(lambda: heard == [CANCEL])


@pytest.mark.expects_surprise("signal.surprised")
async def test_a_handler_that_fails_does_not_end_the_listening(store: Store) -> None:
    heard = []

    def fail_once(signal: CancelJob) -> None:
        heard.append(signal)
        if len(heard) == 1:
            raise ValueError("a surprise")

    task = asyncio.create_task(store.signals.listen({CancelJob: fail_once}))
    await store.signals.listening.wait()
    for _ in range(2):
        await store.signals.publish(CANCEL)
    await until(lambda: len(heard) == 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_broken_connection_comes_back(store: Store, server: AnyServer, request: pytest.FixtureRequest) -> None:
    if "cluster" in request.node.name:
        pytest.skip("the listener is at any one of the servers")
    async with listener(store) as heard:
        for _ in range(2):
            assert await store.line.call("CLIENT", "KILL", "TYPE", "pubsub") >= 1  # Sentinels listen there too
            heard.clear()

            async def is_heard_again() -> bool:
                await store.signals.publish(CANCEL)
                return bool(heard)

            await until(is_heard_again)


async def test_a_quiet_line_is_asked_whether_it_is_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "QUIET_S", 0.02)
    pings = 0
    send = signals._send

    async def count(connection: Any, *command: str) -> None:
        nonlocal pings
        pings += command == ("PING",)
        await send(connection, *command)

    monkeypatch.setattr(signals, "_send", count)
    async with listener(store) as heard:
        await until(lambda: pings >= 3)

        async def is_heard() -> bool:
            # On a busy machine an answer may take longer than it may be quiet, and a signal may be lost then.
            await store.signals.publish(CANCEL)
            return CANCEL in heard

        await until(is_heard)


async def test_a_server_that_hangs_is_left(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "QUIET_S", 0.05)
    send, connect, connections = signals._send, store.line.another_connection, 0

    async def swallow(connection: Any, *command: str) -> None:
        if command != ("PING",):
            await send(connection, *command)

    async def count() -> Any:
        nonlocal connections
        connections += 1
        return await connect()

    monkeypatch.setattr(signals, "_send", swallow)
    monkeypatch.setattr(store.line, "another_connection", count)
    async with listener(store):
        await until(lambda: connections >= 3)


async def test_without_redis_nothing_is_said(server: AnyServer) -> None:
    closed = Store(f"unix:///tmp/nobody-{os.getpid()}.sock", key_prefix="test:v1")
    with pytest.raises(RedisAway):
        closed.signals.publish(CANCEL)
