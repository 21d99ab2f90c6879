"""The node of docs/http.md is run as it stands there."""

import asyncio
import re
import sys
from pathlib import Path

from lingua_scheduler.processes import die_with_parent, stop
from tests.support.peers import Field
from tests.support.waiting import until
from tools.docs import DOCS


def example(port: int) -> str:
    (block,) = re.findall(r"^```python\n(.*?)^```$", (DOCS / "http.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    text = str(block).replace("http://127.0.0.1:5010", f"http://127.0.0.1:{port}")
    assert str(port) in text
    return text


async def test_the_node_in_twenty_lines_translates(peers: Field, tmp_path: Path) -> None:
    program = tmp_path / "node.py"
    program.write_text(example(peers.port), "utf-8")
    assert sum(bool(line.strip()) for line in program.read_text("utf-8").splitlines()) <= 20
    process = await asyncio.create_subprocess_exec(sys.executable, str(program), preexec_fn=die_with_parent)
    try:
        await until(lambda: has_nodes(peers))
        client = await peers.client()
        for index in range(3):
            await client.utterance(index)
            outcome = await client.outcome()
            assert (outcome["text_asr"], outcome["text_translated"]) == ("hello", "你好")
    finally:
        await stop(process, 5.0)


async def has_nodes(peers: Field) -> bool:
    return bool((await peers.get("/v1/nodes"))[1]["nodes"])
