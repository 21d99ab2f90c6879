"""A node with 99 languages: any pair of them, on one instance and on two; too many, and it hears why."""

from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.store.store import Store
from tests.support.fleet import wide_codes
from tests.support.peers import Field, field, heartbeat
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET
from tests.support.waiting import until

CODES = wide_codes(99)
TEXT = {"use_asr": True, "use_nmt": True, "use_tts": False}


def said(codes: list[str], **more: Any) -> dict[str, Any]:
    lists = dict.fromkeys(("asr_languages", "tts_languages", "semantic_languages"), codes)
    return {"language_capabilities": {**lists, "semantic_core_ready": True, **more}}


@pytest.fixture
async def both(server: RedisProcess) -> AsyncIterator[tuple[Field, Field, Scheduler, Store]]:
    async with scheduler_on(server.url) as (a, store), scheduler_on(server.url) as (b, _):
        async with field(a.port) as at_a, field(b.port) as at_b:
            yield at_a, at_b, a, store


async def translated(peers: Field, **init: Any) -> dict[str, Any]:
    client = await peers.client(**init)
    await client.utterance(0, src_lang=init["src_lang"], tgt_lang=init["tgt_lang"])
    return await client.outcome()


@pytest.mark.parametrize(("src", "tgt"), [("en", "zh"), ("xaa", "xcz"), (CODES[-1], CODES[50]), ("xab", "xab")])
async def test_any_of_its_pairs_is_translated(peers: Field, src: str, tgt: str) -> None:
    node = await peers.node(**said(CODES))
    outcome = await translated(peers, src_lang=src, tgt_lang=tgt)
    assert outcome["type"] == "translation_result", outcome
    assert (node.jobs[0]["src_lang"], node.jobs[0]["tgt_lang"]) == (src, tgt)


async def test_so_are_both_ways_at_once_and_text_alone(peers: Field) -> None:
    # It speaks half of what it writes.
    await peers.node(**said(CODES, tts_languages=CODES[:50]))
    client = await peers.client(mode="two_way_auto", src_lang="auto", tgt_lang="xab", lang_a="xaa", lang_b="xab")
    await client.chunk(PACKET * 20)
    await client.chunk(PACKET * 20, is_final=True)
    assert (await client.outcome())["type"] == "translation_result"
    written = await peers.client(src_lang="en", tgt_lang=CODES[90])
    await written.utterance(0, src_lang="en", tgt_lang=CODES[90], pipeline=TEXT)
    assert (await written.outcome())["type"] == "translation_result"
    status, pool = await peers.get(f"/v1/pools/en/{CODES[90]}")
    assert (status, pool["text"], pool["speech"]) == (200, 1, 0)
    step = f"start one with: lingua node --languages en,{CODES[90]}"
    assert pool["missing"] == {"speech": f"no node speaks {CODES[90]}; {step}; text without speech is served"}


async def test_a_session_here_is_served_by_a_wide_node_there(both: tuple[Field, Field, Scheduler, Store]) -> None:
    here, there, scheduler, _ = both
    node = await there.node(**said(CODES))
    await until(lambda: "xaa:xbb:speech" in scheduler._pool_map.map)
    outcome = await translated(here, src_lang="xaa", tgt_lang="xbb")
    assert outcome["type"] == "translation_result", outcome
    assert len(node.jobs) == 1


async def test_it_costs_redis_a_handful_of_keys(both: tuple[Field, Field, Scheduler, Store]) -> None:
    here, _, _, store = both
    await here.node(**said(CODES))
    assert len(await store.line.call("KEYS", "*:pool:*")) == 1
    assert await store.line.call("MEMORY", "USAGE", store.keys.shard(0).wide) < 8_000


async def test_what_is_served_is_told_by_languages(peers: Field) -> None:
    wide = await peers.node(**said(CODES), max_concurrent_jobs=4)
    await peers.node()
    _, pools = await peers.get("/v1/pools")
    assert pools["pairs"]["en:zh"] == {"speech": 2, "text": 2}
    assert set(pools["pairs"]) == {"en:en", "en:zh", "zh:en", "zh:zh"}
    assert [(len(one["sources"]), len(one["speech"]), one["nodes"]) for one in pools["wide"]] == [(99, 99, 1)]
    _, pool = await peers.get("/v1/pools/xaa/xbb")
    assert (pool["speech"], pool["slots"], [node["node_id"] for node in pool["nodes"]]) == (1, 4, [wide.node_id])
    assert pool["nodes"][0]["speech"]
    _, fleet = await peers.get("/v1/nodes")
    assert {node["node_id"]: (len(node["pairs"]), node["wide_pairs"]) for node in fleet["nodes"]}[wide.node_id] == (
        0,
        9_801,
    )


async def test_a_language_that_is_withdrawn_is_not_served_any_more(peers: Field) -> None:
    node = await peers.node(**said(CODES))
    await node.socket.send(heartbeat(node.node_id, **said(CODES[:-1])))
    await until(lambda: _is_unserved(peers, CODES[-1]))
    outcome = await translated(peers, src_lang="en", tgt_lang=CODES[-1])
    assert outcome["type"] == "missing_result"
    assert (await translated(peers, src_lang="en", tgt_lang=CODES[-2]))["type"] == "translation_result"


async def _is_unserved(peers: Field, code: str) -> bool:
    _, pool = await peers.get(f"/v1/pools/en/{code}")
    return bool(pool["text"] == 0)


async def test_a_heartbeat_with_too_many_is_answered_and_changes_nothing(peers: Field) -> None:
    node = await peers.node(**said(CODES))
    endless = [f"{a}{b}" for a, b in product("abcdefghijklmnopqrstuvwxyz", repeat=2)]
    await node.socket.send(heartbeat(node.node_id, **said(endless)))
    error = await node.socket.next("error")
    assert error["code"] == "INVALID_CAPABILITY_SCHEMA"
    assert error["message"] == "asr_languages has 676 languages; a node may list at most 256"
    assert (await translated(peers, src_lang="xaa", tgt_lang="xbb"))["type"] == "translation_result"


async def test_over_http_too(peers: Field) -> None:
    endless = [f"{a}{b}" for a, b in product("abcdefghijklmnopqrstuvwxyz", repeat=2)]
    many = {"node_id": "http-wide", "semantic_langs": CODES, "tts_langs": CODES, "health": "ok"}
    status, refusal = await peers.post("/v1/node/register", many | {"tts_langs": endless})
    assert (status, refusal["error"]) == (400, "INVALID_CAPABILITY_SCHEMA")
    status, _ = await peers.post("/v1/node/register", many)
    assert status == 200
    assert not await _is_unserved(peers, CODES[-1])
    status, refusal = await peers.post("/v1/node/heartbeat", many | {"tts_langs": endless})
    assert (status, refusal["error"]) == (400, "INVALID_CAPABILITY_SCHEMA")
    assert not await _is_unserved(peers, CODES[-1])


async def test_a_wide_node_that_is_demanded_at_once_is_found(peers: Field) -> None:
    """Nobody has read the pool map since it came."""
    node = await peers.node(**said(CODES), node_id="demanded")
    body = {
        "session_id": "s-1",
        "src_lang": "xaa",
        "tgt_lang": "xbb",
        "audio": "AAAA",
        "options": {"preferred_node_id": "demanded", "strict": True},
    }
    status, answer = await peers.post("/v1/dispatch/f2f", body)
    assert (status, answer.get("node_id")) == (200, "demanded"), answer
    await until(lambda: node.jobs)


async def test_a_drained_one_is_named_as_the_reason(peers: Field) -> None:
    node = await peers.node(**said(CODES), node_id="resting")
    await peers.post("/v1/nodes/resting/drain")
    outcome = await translated(peers, src_lang="xaa", tgt_lang="xbb")
    assert outcome["type"] == "missing_result"
    _, pool = await peers.get("/v1/pools/xaa/xbb")
    assert "those that serve it are draining" in pool["missing"]["speech"]
    await peers.post("/v1/nodes/resting/resume")
    assert (await translated(peers, src_lang="xaa", tgt_lang="xbb"))["type"] == "translation_result"
    assert node.jobs


async def test_a_definition_that_redis_lost_is_written_again(both: tuple[Field, Field, Scheduler, Store]) -> None:
    here, _, scheduler, store = both
    node = await here.node(**said(CODES))
    await store.line.call("DEL", store.keys.shard(0).wide)
    store.pools._known.clear()
    scheduler._pool_map.map = await store.pools.build_map()
    assert "xaa:xbb:speech" not in scheduler._pool_map.map
    assert (await translated(here, src_lang="xaa", tgt_lang="xbb"))["type"] == "translation_result"
    assert len(node.jobs) == 1
    assert await store.line.call("HLEN", store.keys.shard(0).wide) == 1


async def test_the_picture_tells_them_once_and_lists_what_is_asked_for(server: RedisProcess) -> None:
    async with scheduler_on(server.url, watch__interval_ms=200) as (scheduler, _), field(scheduler.port) as peers:
        nodes = [await peers.node(**said(CODES), max_concurrent_jobs=4) for _ in range(3)]
        await peers.client(src_lang="xaa", tgt_lang="xbb")

        async def picture() -> dict[str, Any]:
            _, found = await peers.get("/v1/picture")
            return dict(found)

        async def is_told() -> bool:
            found = await picture()
            return bool(found["wide"]) and found["wide"][0]["nodes"] == 3 and bool(found["pairs"])

        await until(is_told)
        found = await picture()
        (group,) = found["wide"]
        assert (group["slots"], group["free"], group["pairs"], len(group["sources"])) == (12, 12, 9_801, 99)
        assert [(pair["src"], pair["tgt"], pair["nodes"]) for pair in found["pairs"]] == [("xaa", "xbb", 3)]
        assert {node["wide"] for node in found["nodes"]} == {group["name"]}
        assert all(node["speech"] == [] for node in found["nodes"])
        assert not [alarm for alarm in found["alarms"] if alarm["code"].startswith("pair.")]
        _, flat = await peers.get("/api/v1/metrics")
        assert (flat["pairs"], flat["pairs_served"]) == (99 * 98, 99 * 98)
        assert len(nodes) == 3
