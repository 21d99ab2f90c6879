"""The node of docs/http.md is run as it stands there."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from aiohttp.test_utils import TestServer

from lingua_sdk.processes import die_with_parent, stop
from tests.support.peers import Field
from tests.support.waiting import until
from tools.docs import DOCS


def example(port: int) -> str:
    (block,) = re.findall(r"^```python\n(.*?)^```$", (DOCS / "http.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    text = str(block).replace("http://127.0.0.1:5010", f"http://127.0.0.1:{port}")
    assert str(port) in text
    return text


@asynccontextmanager
async def running_example(port: int, folder: Path) -> AsyncIterator[None]:
    program = folder / "node.py"
    program.write_text(example(port), "utf-8")
    assert sum(bool(line.strip()) for line in program.read_text("utf-8").splitlines()) <= 20
    process = await asyncio.create_subprocess_exec(sys.executable, str(program), preexec_fn=die_with_parent)
    try:
        yield
    finally:
        await stop(process, 5.0)


async def test_the_node_in_twenty_lines_translates_and_registers_again_when_it_is_unknown(
    peers: Field, tmp_path: Path
) -> None:
    async with running_example(peers.port, tmp_path):
        await until(lambda: node_ids(peers))
        client = await peers.client()
        for index in range(3):
            await client.utterance(index)
            outcome = await client.outcome()
            assert (outcome["text_asr"], outcome["text_translated"]) == ("hello", "你好")
        (former,) = await node_ids(peers)
        # As after a restart of the instance with which it registered.
        await peers.post(f"/v1/nodes/{former}/evict")
        await until(lambda: is_another(peers, former), what="the node has registered again")
        await client.utterance(3)
        assert (await client.outcome())["text_translated"] == "你好"


async def test_the_node_in_twenty_lines_tries_again_while_the_scheduler_is_stopping(tmp_path: Path) -> None:
    asked: list[str] = []
    # What each request is answered with, in turn; a poll that is refused for now keeps the registration.
    statuses = iter([503, 200, 503, 404])

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path.rpartition("/")[2])
        return web.json_response({"node_id": "node-a", "assignments": []}, status=next(statuses, 200))

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    async with TestServer(app) as scheduler, running_example(scheduler.port or 0, tmp_path):
        await until(lambda: len(asked) > 5)
    assert asked[:6] == ["register", "register", "poll", "poll", "register", "poll"]


async def node_ids(peers: Field) -> list[str]:
    return [node["node_id"] for node in (await peers.get("/v1/nodes"))[1]["nodes"]]


async def is_another(peers: Field, former: str) -> bool:
    found = await node_ids(peers)
    return bool(found) and former not in found
