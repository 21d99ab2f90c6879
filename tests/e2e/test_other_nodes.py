"""The example nodes in other languages serve a session, come back after a restart, and leave in peace.

They are run where their toolchain is installed."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from lingua_scheduler.store.servers.local_cluster import free_port
from lingua_sdk.domain.key_texts import KeyKind
from lingua_sdk.processes import die_with_parent, stop
from tests.support.peers import field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.tenants import tenants_at
from tests.support.waiting import until
from tools.docs import ROOT

NODE_JS, GO = shutil.which("node"), shutil.which("go")
TOOLS = [
    pytest.param("nodejs", marks=pytest.mark.skipif(NODE_JS is None, reason="Node.js is not installed")),
    pytest.param("go", marks=pytest.mark.skipif(GO is None, reason="Go is not installed")),
]


async def command(name: str, folder: Path) -> list[str]:
    if name == "nodejs":
        # Node.js 22 has WebSocket without the flag, and takes it all the same.
        return [str(NODE_JS), "--experimental-websocket", str(ROOT / "examples" / "nodejs" / "node.mjs")]
    program = folder / "lingua-node"
    offline = os.environ | {"GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOCACHE": str(folder / "cache")}
    building = await asyncio.create_subprocess_exec(
        *(str(GO), "build", "-o", str(program), "."), cwd=ROOT / "examples" / "go", env=offline
    )
    assert await building.wait() == 0
    return [str(program)]


@asynccontextmanager
async def running(
    words: list[str], port: int, log: Path, **variables: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(*words, f"ws://127.0.0.1:{port}"),
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            env=os.environ | variables,
            preexec_fn=die_with_parent,
        )
    try:
        yield process
    finally:
        await stop(process, 15.0)


def is_registered(log: Path, times: int) -> bool:
    return log.read_text().count("registered as node-") == times


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", TOOLS)
async def test_an_example_node_serves_comes_back_and_leaves(name: str, server: RedisProcess, tmp_path: Path) -> None:
    words, log = await command(name, tmp_path), tmp_path / "log"
    async with scheduler_on(server.url) as (first, _):
        port = first.port
        async with field(port) as peers:
            async with running(words, port, log) as process:
                for turn in range(2):
                    await until(partial(is_registered, log, turn + 1), 60)
                    client = await peers.client(src_lang="en-US", tgt_lang="pt")
                    await client.utterance(0, src_lang="en-US", tgt_lang="pt")
                    outcome = await client.outcome()
                    assert outcome["text_translated"].endswith("segundos de fala"), outcome
                    assert outcome["tts_audio"]
                    if turn == 0:
                        # Its connection breaks; it comes back with its id.
                        _, body = await peers.get("/v1/nodes")
                        (before,) = [view["node_id"] for view in body["nodes"]]
                        (link,) = first._connected.links.all()
                        link.peer.close(1012, "restart")  # type: ignore[arg-type]
                _, body = await peers.get("/v1/nodes")
                assert [view["node_id"] for view in body["nodes"]] == [before]
                process.terminate()
                async with asyncio.timeout(90):
                    assert await process.wait() == 0


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", TOOLS)
async def test_where_nodes_need_a_key_it_shows_one_and_leaves_when_that_is_revoked(
    name: str, server: RedisProcess, tmp_path: Path
) -> None:
    words, log = await command(name, tmp_path), tmp_path / "log"
    async with tenants_at(server.url, tmp_path) as tenants:
        key = await tenants.key(KeyKind.NODE, node_id="node-1")
        async with running(words, tenants.scheduler.port, log, LINGUA_KEY=key.text) as process:
            await until(lambda: is_registered(log, 1), 60)
            status, _ = await tenants.ask("POST", f"/v1/keys/{key.credential.id}/revoke", json={})
            assert status == 200
            async with asyncio.timeout(90):
                assert await process.wait() == 1
    assert "dismissed this node (4004)" in log.read_text()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", TOOLS)
async def test_without_a_scheduler_it_says_so_and_still_leaves(name: str, tmp_path: Path) -> None:
    words, log = await command(name, tmp_path), tmp_path / "log"
    async with running(words, free_port(), log) as process:
        await until(lambda: "Start a scheduler with: lingua serve" in log.read_text(), 60)
        assert "no connection to ws://127.0.0.1:" in log.read_text()
        process.terminate()
        async with asyncio.timeout(90):
            assert await process.wait() == 0


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", TOOLS)
async def test_an_address_that_is_none_is_answered_with_the_usage(name: str, tmp_path: Path) -> None:
    words = await command(name, tmp_path)
    process = await asyncio.create_subprocess_exec(*words, "nonsense", stderr=asyncio.subprocess.PIPE)
    async with asyncio.timeout(90):
        _, said = await process.communicate()
    assert process.returncode == 2
    assert said.decode().startswith("nonsense is not an address; usage: ")


@pytest.mark.skipif(NODE_JS is None, reason="Node.js is not installed")
async def test_a_runtime_without_websockets_is_told_what_to_do(tmp_path: Path) -> None:
    node, flag, script = await command("nodejs", tmp_path)
    without = flag.replace("--experimental", "--no-experimental")
    process = await asyncio.create_subprocess_exec(node, without, script, stderr=asyncio.subprocess.PIPE)
    _, said = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 1
    assert said.decode().startswith("This Node.js has no WebSocket")
