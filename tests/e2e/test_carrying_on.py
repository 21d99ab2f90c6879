"""Nodes and clients made with the SDK while processes are killed and wires are cut: nothing is lost, or twice."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from lingua_sdk.client import Client, Result, Translation
from tests.support.peers import Field, field
from tests.support.schedulers import ServeProcess, serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until
from tests.support.wires import Wire, wire
from tests.support.word_nodes import NodeProcess, word_node
from tests.support.worded_sound import spoken

START_WITHIN_S = 60.0
# Long enough to be an utterance of its own.
QUIET = bytes(2 * 16_000 * 2)


class Talk:
    """A person who keeps talking until told to stop, and remembers what came of it."""

    def __init__(self, addresses: list[str]) -> None:
        self.client = Client(addresses, "en", "zh")
        self.said = 0
        self.heard: list[Result] = []
        self._enough = asyncio.Event()
        self.task = asyncio.create_task(self._talk())

    async def _talk(self) -> None:
        async with self.client, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._speak())
            async for result in self.client.results():
                self.heard.append(result)

    async def _speak(self) -> None:
        while not self._enough.is_set():
            await self.say(spoken(f"sentence {self.said}"))
            self.said += 1
            await asyncio.sleep(0.2)
        await self.client.finish()

    async def say(self, sound: bytes) -> None:
        await self.client.utterance(sound)

    async def end(self) -> None:
        """Everything that was said is heard: all of it, once, in order, and right."""
        self._enough.set()
        async with asyncio.timeout(60):
            await self.task
        self.judge()

    def judge(self) -> None:
        assert [result for result in self.heard if not isinstance(result, Translation)] == []
        assert len(self.heard) == self.said
        for index, result in enumerate(self.heard):
            assert isinstance(result, Translation)
            words = f"sentence {index}"
            assert (result.utterance_index, result.text, result.translated) == (index, words, words.upper())
            assert result.speech.decode().startswith(words.upper())


class Stream(Talk):
    """In chunks: the scheduler cuts, and what comes in a rush after a break it may cut elsewhere."""

    async def say(self, sound: bytes) -> None:
        await self.client.send(sound + QUIET, is_final=True)

    def judge(self) -> None:
        assert [result.utterance_index for result in self.heard] == list(range(len(self.heard)))
        assert [result for result in self.heard if not isinstance(result, Translation)] == []
        text = " ".join(result.text for result in self.heard if isinstance(result, Translation))
        assert text == " ".join(f"sentence {number}" for number in range(self.said))


each_way = pytest.mark.parametrize("way", [Talk, Stream])


@asynccontextmanager
async def talking(port: int, way: type[Talk] = Talk) -> AsyncIterator[Talk]:
    talk = way([f"127.0.0.1:{port}"])
    try:
        yield talk
    finally:
        talk.task.cancel()
        await asyncio.gather(talk.task, return_exceptions=True)


@asynccontextmanager
async def scheduler(folder: Path, redis_url: str, port: int = 0) -> AsyncIterator[ServeProcess]:
    own = folder / f"serve-{len(list(folder.iterdir()))}"
    own.mkdir()
    fast = ("--set", "server.stop_timeout_ms=2000", "--set", "instances.beat_ms=500")
    # A process that was killed is back when the machine has started another; till then sentences wait.
    patient = ("--set", "dispatch.queue_wait_ms=60000", "--set", "delivery.hold_ms=60000")
    # The last --port counts.
    async with serve_process(own, "--redis-url", redis_url, "--port", str(port), *fast, *patient) as serving:
        await until(lambda: serving.port, START_WITHIN_S, "the scheduler is ready")
        yield serving


async def has_ready(port: int, count: int) -> bool:
    try:
        async with field(port) as peers:
            return len(await ready_nodes(peers)) == count
    except (aiohttp.ClientError, OSError):
        return False


async def ready_nodes(peers: Field) -> list[str]:
    _, found = await peers.get("/v1/nodes")
    return [node["node_id"] for node in found["nodes"] if node["state"] == "ready"]


async def kill(process: asyncio.subprocess.Process) -> None:
    process.kill()
    await process.wait()


@pytest.mark.parametrize("others", [0, 1], ids=["the only one", "one of two"])
async def test_a_node_that_is_killed_and_started_again_costs_nothing(
    server: RedisProcess, tmp_path: Path, others: int
) -> None:
    async with AsyncExitStack() as stack:
        serving = await stack.enter_async_context(scheduler(tmp_path, server.url))
        victim = await stack.enter_async_context(word_node(tmp_path, serving.port, "victim", work_s=0.2))
        for number in range(others):
            await stack.enter_async_context(word_node(tmp_path, serving.port, f"other-{number}", work_s=0.2))
        await until(lambda: has_ready(serving.port, 1 + others), START_WITHIN_S)
        talk = await stack.enter_async_context(talking(serving.port))
        await until(lambda: len(victim.said("began")) > len(victim.said("ended")), 20)
        await kill(victim.process)
        again = await stack.enter_async_context(word_node(tmp_path, serving.port, "victim", work_s=0.2))
        await until(lambda: again.said("ended"), 30)
        await talk.end()


@each_way
async def test_a_scheduler_that_is_killed_and_started_again_costs_nothing(
    server: RedisProcess, tmp_path: Path, way: type[Talk]
) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(scheduler(tmp_path, server.url))
        port = first.port
        node = await stack.enter_async_context(word_node(tmp_path, port, "node", work_s=0.2))
        await until(lambda: has_ready(port, 1), START_WITHIN_S)
        talk = await stack.enter_async_context(talking(port, way))
        await until(lambda: talk.heard and len(node.said("began")) > len(node.said("ended")), 20)
        await kill(first.process)
        await stack.enter_async_context(scheduler(tmp_path, server.url, port))
        await until(lambda: len(node.said("registered")) == 2, 30)
        ended = len(node.said("ended"))
        await until(lambda: len(node.said("ended")) > ended + 2, 30)
        assert talk.client.times_resumed == 1
        await talk.end()


async def cut_for(wires: list[Wire], seconds: float) -> None:
    for each in wires:
        each.cut()
    await asyncio.sleep(seconds)
    for each in wires:
        each.mend()


async def torn(wires: list[Wire], seconds: float) -> None:
    for each in wires:
        each.tear()
    await cut_for(wires, seconds)


@pytest.mark.parametrize(
    ("harm", "seconds"),
    [(cut_for, 2.0), (torn, 2.0), pytest.param(cut_for, 10.0, marks=pytest.mark.slow)],
    ids=["cut-2s", "torn-2s", "cut-10s"],
)
@each_way
async def test_a_wire_that_is_cut_for_a_while_costs_nothing(
    server: RedisProcess,
    tmp_path: Path,
    harm: Callable[[list[Wire], float], Awaitable[None]],
    seconds: float,
    way: type[Talk],
) -> None:
    async with AsyncExitStack() as stack:
        serving = await stack.enter_async_context(scheduler(tmp_path, server.url))
        to_node = await stack.enter_async_context(wire(serving.port))
        to_client = await stack.enter_async_context(wire(serving.port))
        node = await stack.enter_async_context(word_node(tmp_path, to_node.port, "node", work_s=0.2))
        await until(lambda: has_ready(serving.port, 1), START_WITHIN_S)
        talk = await stack.enter_async_context(talking(to_client.port, way))
        await until(lambda: talk.heard and len(node.said("began")) > len(node.said("ended")), 20)
        await harm([to_node, to_client], seconds)
        heard = len(talk.heard)
        await until(lambda: len(talk.heard) > heard + 2, 40)
        ended = len(node.said("ended"))
        await until(lambda: len(node.said("ended")) > ended, 40, "the node works again")
        await talk.end()


async def test_a_node_that_is_asked_to_leave_finishes_its_work_and_takes_no_more(
    server: RedisProcess, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        serving = await stack.enter_async_context(scheduler(tmp_path, server.url))
        # With room for all that is said until the other one has started, which takes a busy machine long.
        leaving = await stack.enter_async_context(word_node(tmp_path, serving.port, "leaving", slots=16, work_s=1.0))
        await until(lambda: has_ready(serving.port, 1), START_WITHIN_S)
        talk = await stack.enter_async_context(talking(serving.port))
        await until(lambda: len(leaving.said("began")) > len(leaving.said("ended")), 20)
        stays = await stack.enter_async_context(word_node(tmp_path, serving.port, "stays", slots=4))
        await until(lambda: has_ready(serving.port, 2), START_WITHIN_S)
        os.kill(leaving.process.pid, signal.SIGTERM)
        await until(lambda: leaving.said("draining"))
        begun = len(leaving.said("began"))
        async with asyncio.timeout(90):
            assert await leaving.process.wait() == 0
        assert len(leaving.said("began")) == len(leaving.said("ended")) == begun
        await until(lambda: stays.said("ended"), 20)
        await talk.end()
        # Each sentence was worked on once: nothing was taken from the one that left.
        both = leaving.said("began") + stays.said("began")
        assert sorted(both) == sorted(set(both))


async def test_a_node_that_is_asked_twice_leaves_at_once(server: RedisProcess, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        serving = await stack.enter_async_context(scheduler(tmp_path, server.url))
        node: NodeProcess = await stack.enter_async_context(word_node(tmp_path, serving.port, "slow", work_s=3600))
        await until(lambda: has_ready(serving.port, 1), START_WITHIN_S)
        await stack.enter_async_context(talking(serving.port))
        await until(lambda: node.said("began"), 20)
        os.kill(node.process.pid, signal.SIGTERM)
        await until(lambda: node.said("draining"))
        os.kill(node.process.pid, signal.SIGTERM)
        async with asyncio.timeout(25):
            assert await node.process.wait() == 0
