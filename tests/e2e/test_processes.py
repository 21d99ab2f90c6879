"""`lingua serve` as a process: started, killed beneath, asked to stop."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.support.peers import FakeNode, Field, Frame, answer, field
from tests.support.schedulers import ServeProcess, serve_command
from tests.support.servers import RedisProcess
from tests.support.waiting import until

START_S = 60.0


async def ready(peers: Field) -> bool:
    status, _ = await peers.get("/health/ready")
    return status == 200


async def test_a_killed_redis_is_back_within_three_seconds_and_nobody_reconnects(tmp_path: Path) -> None:
    async with serve_command(tmp_path, "--data-dir", str(tmp_path / "data")) as serving:
        async with field(await until(lambda: serving.port, START_S)) as peers:
            node = await peers.node()
            client = await peers.client()
            await client.utterance(0)
            assert (await client.outcome())["type"] == "translation_result"

            os.kill(redis_pid(serving), signal.SIGKILL)
            loop = asyncio.get_running_loop()
            killed_at = loop.time()
            await until(lambda: '"redis.down"' in serving.log, what="the loss is noticed")
            await until(lambda: ready(peers), within_s=3.0 - (loop.time() - killed_at), what="ready again")

            await client.utterance(1)
            assert (await client.outcome())["type"] == "translation_result"
            assert len(node.jobs) == 2
            assert not node.socket.socket.closed


async def test_speech_during_an_outage_is_translated_afterwards(tmp_path: Path) -> None:
    async with serve_command(tmp_path, "--data-dir", str(tmp_path / "data")) as serving:
        async with field(await until(lambda: serving.port, START_S)) as peers:
            await peers.node()
            client = await peers.client()
            os.kill(redis_pid(serving), signal.SIGKILL)
            await until(lambda: '"redis.down"' in serving.log)
            await client.utterance(0)
            assert (await client.outcome())["type"] == "translation_result"


async def not_ready(peers: Field) -> bool:
    return not await ready(peers)


async def test_a_result_that_comes_while_redis_is_away_is_not_lost(tmp_path: Path) -> None:
    async with serve_command(tmp_path, "--data-dir", str(tmp_path / "data")) as serving:
        async with field(await until(lambda: serving.port, START_S)) as peers:
            go_on = asyncio.Event()

            async def wait_then_answer(node: FakeNode, job: Frame) -> None:
                await go_on.wait()
                await answer(node, job)

            node = await peers.node(wait_then_answer)
            client = await peers.client()
            await client.utterance(0)
            await until(lambda: node.jobs)
            os.kill(redis_pid(serving), signal.SIGSTOP)
            pid = redis_pid(serving)
            go_on.set()
            os.kill(pid, signal.SIGKILL)
            assert (await client.outcome())["type"] == "translation_result"


async def test_sigterm_lets_a_running_job_finish_and_tells_everybody_to_come_back(tmp_path: Path) -> None:
    async with serve_command(tmp_path, "--data-dir", str(tmp_path / "data")) as serving:
        async with field(await until(lambda: serving.port, START_S)) as peers:
            go_on = asyncio.Event()

            async def wait_then_answer(node: FakeNode, job: Frame) -> None:
                await go_on.wait()
                await answer(node, job)

            node = await peers.node(wait_then_answer)
            client = await peers.client()
            await client.utterance(0)
            await until(lambda: node.jobs)
            serving.process.terminate()
            await until(lambda: not_ready(peers), what="not ready while stopping")
            go_on.set()
            assert (await client.outcome())["type"] == "translation_result"
            assert await client.socket.closed() == 1012
            assert await node.socket.closed() == 1012
            async with asyncio.timeout(90):
                assert await serving.process.wait() == 0


async def test_a_second_sigterm_ends_it_at_once(tmp_path: Path) -> None:
    async with serve_command(tmp_path, "--data-dir", str(tmp_path / "data")) as serving:
        async with field(await until(lambda: serving.port, START_S)) as peers:

            async def never(node: FakeNode, job: Frame) -> None:
                pass

            node = await peers.node(never)
            client = await peers.client()
            await client.utterance(0)
            await until(lambda: node.jobs)
            serving.process.terminate()
            await until(lambda: '"scheduler.stopping"' in serving.log)
            serving.process.terminate()
            # A job may take 15 s to finish; this one is not waited for.
            async with asyncio.timeout(90):
                assert await serving.process.wait() == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--redis-url", "redis://127.0.0.1:1"), 3, "cannot be reached"),
        (("--redis-url", "http://127.0.0.1:1"), 3, "is not a Redis address"),
        (("--set", "server.prot=1"), 2, 'did you mean "server.port"?'),
        (("--set", "server.port"), 2, "has no value"),
        (("--port", "70000"), 2, "expected a whole number"),
        (("--config", "/nowhere/lingua.toml"), 2, "/nowhere/lingua.toml"),
    ],
)
async def test_a_start_that_cannot_work_ends_with_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    async with serve_command(tmp_path, "--data-dir", str(tmp_path / "data"), *arguments) as serving:
        async with asyncio.timeout(90):
            assert await serving.process.wait() == code
        said = serving.log.strip().splitlines()
        assert words in said[-1]
        assert "Traceback" not in serving.log


async def test_a_taken_port_is_named(tmp_path: Path) -> None:
    listening = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with serve_command(tmp_path, "--data-dir", str(tmp_path / "data"), "--port", str(port)) as serving:
        async with asyncio.timeout(90):
            assert await serving.process.wait() == 4
        assert f"127.0.0.1:{port} is in use" in serving.log
        assert "--port" in serving.log
    listening.close()
    await listening.wait_closed()


async def test_it_can_wait_for_redis(tmp_path: Path, server: RedisProcess) -> None:
    if not isinstance(server, RedisProcess):
        pytest.skip("this one needs a server on a Unix socket")
    link = tmp_path / "later.sock"
    async with serve_command(tmp_path, "--redis-url", f"unix://{link}", "--wait-for-redis") as serving:
        await until(lambda: '"redis.awaited"' in serving.log, START_S)
        link.symlink_to(server.socket)
        assert await until(lambda: serving.port, START_S)


def redis_pid(serving: ServeProcess) -> int:
    """The embedded server is the one child of the scheduler."""
    children = Path(f"/proc/{serving.process.pid}/task/{serving.process.pid}/children").read_text().split()
    assert len(children) == 1
    return int(children[0])
