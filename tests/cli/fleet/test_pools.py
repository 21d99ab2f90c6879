"""`lingua pools SRC TGT` says who serves a pair, and what is missing where nobody does."""

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from lingua_scheduler.cli.main import main
from tests.support.fleet import wide_codes
from tests.support.peers import Field
from tests.support.servers import RedisProcess


async def lingua(server: RedisProcess, *arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, ["pools", *arguments, "--redis-url", server.url])


async def test_who_serves_a_pair_and_what_is_missing_for_another(server: RedisProcess, peers: Field) -> None:
    node = await peers.node()
    served = await lingua(server, "en", "zh")
    assert f"en → zh as speech: 1 node: {node.node_id}" in served.output
    missing = await lingua(server, "en", "fr")
    assert "en → fr as speech: no node translates English into French or speaks French" in missing.output
    assert "start one with: lingua node --languages en,fr" in missing.output
    told = json.loads((await lingua(server, "en", "fr", "--json")).output)
    assert told["nodes"] == {"speech": [], "text": []}
    assert set(told["missing"]) == {"speech", "text"}


@pytest.mark.parametrize("words", [("EN", "ZH"), ("en", "zh-hans"), ("en_US", "zh-Hans-CN"), ("en:zh",), ("EN→zh",)])
async def test_a_pair_is_found_however_its_tags_are_written(
    server: RedisProcess, peers: Field, words: tuple[str, ...]
) -> None:
    node = await peers.node()
    served = await lingua(server, *words)
    assert f"en → zh as speech: 1 node: {node.node_id}" in served.output
    told = json.loads((await lingua(server, *words, "--json")).output)
    assert (told["src"], told["tgt"]) == ("en", "zh")


async def test_a_sibling_of_what_is_served_is_missing(server: RedisProcess, peers: Field) -> None:
    await peers.node(languages=("en", "zh-CN"))
    told = (await lingua(server, "EN", "zh-tw")).output
    assert "speaks Chinese (tw)" in " ".join(told.split())


async def test_half_a_pair_is_refused_with_the_next_step(server: RedisProcess) -> None:
    for words in (("en",), ("en", "?")):
        refused = await lingua(server, *words)
        assert refused.exit_code == 2
        assert "lingua pools en fr" in refused.output


async def test_nodes_with_many_languages_are_one_line_and_any_pair_can_be_asked_for(
    server: RedisProcess, peers: Field
) -> None:
    codes = wide_codes(99)
    lists = dict.fromkeys(("asr_languages", "tts_languages", "semantic_languages"), codes)
    wide = [await peers.node(language_capabilities=lists, max_concurrent_jobs=4) for _ in range(2)]
    await peers.node(max_concurrent_jobs=2)
    shown = (await lingua(server)).output
    assert "any of 99 languages → any of 99: 2 nodes, 8/8 free" in shown
    assert max(map(len, shown.splitlines())) <= 80
    pair = (await lingua(server, "xaa", "xbb")).output
    assert all(node.node_id in pair for node in wide)
    told = json.loads((await lingua(server, "--json")).output)
    assert told["pairs"]["en:zh"] == {"speech": 3, "text": 3, "free": 10, "slots": 10, "shards": 1, "level": None}
    assert len(told["pairs"]) == 4
    (group,) = told["wide"]
    assert (group["pairs"], group["nodes"], group["free"], len(group["sources"])) == (9_801, 2, 8, 99)
