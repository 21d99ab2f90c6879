"""`lingua pools SRC TGT` says who serves a pair, and what is missing where nobody does."""

import asyncio
import json

from click.testing import CliRunner, Result

from lingua_scheduler.cli.main import main
from tests.support.peers import Field
from tests.support.servers import RedisProcess


async def lingua(server: RedisProcess, *arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, ["pools", *arguments, "--redis-url", server.url])


async def test_who_serves_a_pair_and_what_is_missing_for_another(server: RedisProcess, peers: Field) -> None:
    node = await peers.node()
    served = await lingua(server, "en", "zh")
    assert f"en → zh as speech: 1 nodes: {node.node_id}" in served.output
    missing = await lingua(server, "en", "fr")
    assert "en → fr as speech: no node serves" in missing.output
    assert "tts(fr)" in missing.output
    told = json.loads((await lingua(server, "en", "fr", "--json")).output)
    assert told["nodes"] == {"speech": [], "text": []}
    assert set(told["missing"]) == {"speech", "text"}


async def test_half_a_pair_is_refused_with_the_next_step(server: RedisProcess) -> None:
    for words in (("en",), ("en", "?")):
        refused = await lingua(server, *words)
        assert refused.exit_code == 2
        assert "lingua pools en fr" in refused.output
