"""Attack H99: connections that never say what they came for, or say it a byte at a time."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from time import monotonic

from lingua_scheduler.telemetry import metrics
from tests.support.half_open import attacker
from tests.support.peers import FakeClient, Field, field
from tests.support.schedulers import scheduler_on, serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until

DEADLINES = {"server__header_timeout_ms": 1_000, "server__body_timeout_ms": 1_000, "server__keepalive_ms": 2_000}
HALF_A_HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
ASK = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
ASK_MUCH = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
# 5 000 that say nothing and 1 000 that say half of it, as the attack has it, a fifth of them at a time.
ROUNDS, SILENT, HALF, DRIBBLING = 5, 1_000, 150, 50
# The p99 during the attack, in terms of that without it.
MOST_TIMES = 5
PAUSE_S = 0.005
BODY = (
    b"POST /v1/node/poll HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
)

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def cut(reason: str) -> float:
    return float(metrics.CONNECTIONS_CUT.labels(reason)._value.get())


@asynccontextmanager
async def brisk(server: RedisProcess) -> AsyncIterator[Field]:
    async with scheduler_on(server.url, **DEADLINES) as (scheduler, _), field(scheduler.port) as peers:
        yield peers


async def wires(port: int, count: int, first: bytes = b"") -> list[Wire]:
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    for _, writer in opened:
        writer.write(first)
    return opened


async def is_gone(wire: Wire) -> bool:
    try:
        while await wire[0].read(65_536):
            pass
    except ConnectionError:
        pass
    await hang_up([wire])
    return True


async def hang_up(opened: list[Wire]) -> None:
    """And wait until it is done: on a busy machine the loop may end before."""
    for _, writer in opened:
        writer.transport.abort()
    for _, writer in opened:
        with suppress(ConnectionError):
            await writer.wait_closed()


async def dribble(wire: Wire) -> bool:
    """A byte now and then, for as long as it is taken."""
    try:
        while not wire[0].at_eof():
            wire[1].write(b"x")
            await wire[1].drain()
            await asyncio.sleep(0.1)
    except (ConnectionError, RuntimeError):
        # A RuntimeError: uvloop had closed its side when the byte was written.
        pass
    return await is_gone(wire)


async def speak(client: FakeClient, first: int, count: int) -> list[float]:
    """What utterances take, in milliseconds."""
    took = []
    for index in range(first, first + count):
        began = monotonic()
        await client.utterance(index)
        assert (await client.outcome())["type"] == "translation_result"
        took.append((monotonic() - began) * 1000)
    return sorted(took)


async def all_gone(waits: list[Awaitable[bool]]) -> None:
    async with asyncio.timeout(90):
        assert all(await asyncio.gather(*waits))


async def test_h99_half_open_connections_are_gone_after_the_deadline(server: RedisProcess) -> None:
    async with brisk(server) as peers:
        await peers.node()
        client = await peers.client()
        before = await speak(client, 0, 40)
        cut_before = cut("headers")
        silent = await wires(peers.port, 100)
        half = await wires(peers.port, 100, HALF_A_HEAD)
        slow = await wires(peers.port, 20, HALF_A_HEAD)
        ends = asyncio.gather(*map(is_gone, [*silent, *half]), *map(dribble, slow))
        during = await speak(client, 40, 40)
        async with asyncio.timeout(90):
            assert all(await ends)
        assert cut("headers") == cut_before + 220
        print(f"median {before[20]:.1f} ms before, {during[20]:.1f} ms during: x {during[20] / before[20]:.2f}")
        # Those who said what they came for are still there.
        assert not client.socket.socket.closed
        await speak(client, 80, 1)


async def converse(client: FakeClient, numbers: Iterator[int], is_over: Callable[[], bool]) -> list[float]:
    """What utterances take, in ms, with pauses between them."""
    took: list[float] = []
    while not is_over():
        took += await speak(client, next(numbers), 1)
        await asyncio.sleep(PAUSE_S)
    return took


def typical(slices: list[list[float]], percentile: int) -> float:
    """The median of it over all slices, so that one which something else on the machine disturbed does not count."""
    return median(quantiles(taken, n=100)[percentile - 1] for taken in slices)


async def test_h99_half_open_connections_leave_the_p99_of_a_conversation_where_it_was(
    server: RedisProcess, tmp_path: Path
) -> None:
    """Slices with and without the attack take turns; scheduler and attacker are processes of their own."""
    calm: list[list[float]] = []
    stormy: list[list[float]] = []
    numbers = count()
    async with serve_process(tmp_path, "--redis-url", server.url, "--set", "server.header_timeout_ms=1000") as process:
        await until(lambda: process.port, within_s=30)
        async with field(process.port) as peers, attacker(process.port) as enemy:
            await peers.node()
            client = await peers.client()
            await speak(client, next(numbers), 1)
            for _ in range(ROUNDS):
                attack = asyncio.create_task(enemy.attack(SILENT, HALF, DRIBBLING))
                stormy.append(await converse(client, numbers, attack.done))
                await attack
                # As long as the one before.
                pause = asyncio.create_task(asyncio.sleep(sum(stormy[-1]) / 1000 + PAUSE_S * len(stormy[-1])))
                calm.append(await converse(client, numbers, pause.done))
            _, page = await peers.get("/metrics")
    assert f'lingua_connections_cut_total{{reason="headers"}} {ROUNDS * (SILENT + HALF + DRIBBLING)}.0\n' in page
    p99, p99_during = typical(calm, 99), typical(stormy, 99)
    print(
        f"{sum(map(len, calm))} utterances without the attack: median {typical(calm, 50):.1f} ms, p99 {p99:.1f} ms; "
        f"{sum(map(len, stormy))} during it: median {typical(stormy, 50):.1f} ms, p99 {p99_during:.1f} ms: "
        f"x {p99_during / p99:.2f}"
    )
    # 0.9 to 1.4 was measured on two busy cores, and 10 to 19 with a loop that stalls for 50 ms with every 50th of them.
    assert p99_during < MOST_TIMES * p99


async def test_h99_bodies_and_idle_connections_have_deadlines_but_not_sockets(server: RedisProcess) -> None:
    async with brisk(server) as peers:
        cut_before = cut("body")
        sockets = [await peers.socket(path) for path in ("/ws/session", "/ws/node")]
        bodies = await wires(peers.port, 10, BODY)
        assert all([b"408 Request Timeout" in await reader.readuntil(b"\r\n\r\n") for reader, _ in bodies]), (
            "they are told why"
        )
        assert cut("body") == cut_before + 10
        idle = await wires(peers.port, 10, ASK)
        half = await wires(peers.port, 10, ASK + HALF_A_HEAD)
        await all_gone([is_gone(wire) for wire in [*idle, *half]])
        assert not any(opened.socket.closed for opened in sockets), "no deadline of HTTP is for them"
        await hang_up(bodies)


async def test_h99_an_answer_that_nobody_reads_is_given_up(server: RedisProcess) -> None:
    async with brisk(server) as peers:
        cut_before = cut("answer")
        link = socket.create_connection(("127.0.0.1", peers.port))
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        link.setblocking(False)
        asked = 0

        async def ask_on() -> bool:
            """More than fits into any buffer on the way."""
            nonlocal asked
            try:
                asked += link.send(ASK_MUCH * 100)
            except BlockingIOError:
                pass
            except ConnectionError:
                return True
            return cut("answer") > cut_before

        await until(ask_on, 15)
        assert asked
        assert cut("answer") == cut_before + 1
        link.close()
