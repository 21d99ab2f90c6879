"""Languages that no single node serves: by several nodes, by way of a third language, or without speech."""

from base64 import b64decode, b64encode
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.protocol.uploads import wav_of
from lingua_scheduler.store.maintenance.checkup import Checkup
from tests.support.peers import FakeClient, Field, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET
from tests.support.text_nodes import HEARD, able, do
from tests.support.tones import noise
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(120)

LISTENS = able(asr=["zh"], nmt=["zh-en"])
WRITES = able(nmt=["en-ja"])
SPEAKS = able(tts=["ja"])
SOUND = noise(3_000) * 10


async def joined(scheduler: Scheduler, peers: Field, *nodes: dict[str, Any]) -> None:
    for abilities in nodes:
        await peers.node(do, **abilities)
    await until(lambda: all(link.pools for link in scheduler._connected.links.all()))
    await scheduler._pool_map.look_again()


async def said(client: FakeClient) -> dict[str, Any]:
    await client.chunk(PACKET * 40, is_final=True)
    return await client.socket.next("translation_result", "missing_result", within_s=60)


async def test_a_pair_is_served_by_way_of_a_third_language(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, pools__pivot_langs=("en",)) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        await joined(scheduler, peers, LISTENS, WRITES, SPEAKS)
        client = await peers.client(src_lang="zh", tgt_lang="ja")
        assert "unserved" not in client.ack
        result = await said(client)
        assert (result["text_asr"], result["text_translated"]) == ("zh(words)", "ja[en[zh(words)]]")
        assert b64decode(result["tts_audio"]).decode() == result["text_translated"]
        assert result["degraded"] == {"rung": "pivot", "pivot": "en"}

        async def told() -> str:
            return str((await peers.get(f"/v1/jobs/{result['job_id']}/explain"))[1]["headline"])

        await until(lambda: scheduler._recorder._explaining == 0)
        headline = await told()
        assert "job 3 of 3 for its utterance by way of en, after job-" in headline
        other = await peers.client(src_lang="zh", tgt_lang="ja", allow_pivot=False)
        assert "unserved" in other.ack
        assert (await said(other))["type"] == "missing_result"


async def test_callers_over_http_are_served_by_way_of_a_third_language_too(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, pools__pivot_langs=("en",)) as (scheduler, _),
        field(scheduler.port) as peers,
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http,
    ):
        await joined(scheduler, peers, LISTENS, WRITES, SPEAKS)
        asked = {"session_id": "s", "src_lang": "zh", "tgt_lang": "ja", "audio": b64encode(SOUND).decode()}

        async def dispatch(**more: Any) -> tuple[int, dict[str, Any]]:
            async with http.post("/v1/dispatch/f2f", json=asked | more) as response:
                return response.status, await response.json()

        status, placed = await dispatch(request_id="r-1", options={"timeout_ms": 60_000})
        assert status == 200
        # The whole of it is known by its first job, and a repeat gets the same.
        assert (await dispatch(request_id="r-1", options={"timeout_ms": 60_000}))[1]["job_id"] == placed["job_id"]
        async with http.get(f"/v1/jobs/{placed['job_id']}/result?wait_ms=30000") as response:
            result = await response.json()
        assert (result["state"], result["text_asr"]) == ("DONE", "zh(words)")
        assert result["text_translated"] == "ja[en[zh(words)]]"
        assert b64decode(result["tts_audio"]).decode() == result["text_translated"]
        assert result["degraded"] == {"rung": "pivot", "pivot": "en"}

        status, refused = await dispatch(options={"allow_pivot": False})
        assert (status, refused["error"]) == (422, "NO_CAPABLE_NODE")
        # A node that must be taken does all of it, or nothing.
        (node_id,) = {link.node_id for link in scheduler._connected.links.all() if "zh:en:text" in link.pools}
        status, refused = await dispatch(options={"preferred_node_id": node_id, "strict": True})
        assert (status, refused["error"]) == (409, "PREFERRED_NODE_NOT_CAPABLE")


async def test_a_file_is_translated_by_way_of_a_third_language(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, pools__pivot_langs=("en",)) as (scheduler, _),
        field(scheduler.port) as peers,
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http,
    ):
        await joined(scheduler, peers, LISTENS, WRITES, SPEAKS)
        async with http.post("/v1/translate?src=zh&tgt=ja", data=wav_of(SOUND)) as response:
            told = await response.json()
        assert (response.status, told["translation"]) == (200, "ja[en[zh(words)]]"), told
        assert [one["degraded"] for one in told["utterances"]] == [{"rung": "pivot", "pivot": "en"}]
        async with http.post("/v1/translate?src=zh&tgt=ja&allow_pivot=false", data=wav_of(SOUND)) as response:
            assert (response.status, (await response.json())["error"]) == (422, "NO_CAPABLE_NODE")


async def test_without_a_setting_the_pair_is_not_served(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        await joined(scheduler, peers, LISTENS, WRITES, SPEAKS)
        client = await peers.client(src_lang="zh", tgt_lang="ja")
        assert "unserved" in client.ack
        missing = await said(client)
        assert (missing["type"], missing["code"]) == ("missing_result", "NO_CAPABLE_NODE")


async def test_a_text_without_speech_is_better_than_nothing(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, pools__text_fallback=True) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        await joined(scheduler, peers, able(asr=["zh"], nmt=["zh-en"], text=False))
        client = await peers.client(src_lang="zh", tgt_lang="en")
        assert "unserved" not in client.ack
        result = await said(client)
        assert (result["text_translated"], result["tts_audio"]) == ("en[zh(words)]", "")
        assert result["degraded"] == {"rung": "text_only"}


async def test_nodes_that_do_one_thing_each_lose_nothing(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        await joined(scheduler, peers, able(asr=["en"]), WRITES, SPEAKS)
        result = await said(await peers.client(src_lang="en", tgt_lang="ja"))
        assert result["text_translated"] == "ja[en(words)]"
        assert "degraded" not in result


async def test_a_node_of_another_instance_gets_the_text(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, server__instance_id="i-one") as (one, _),
        scheduler_on(server.url, server__instance_id="i-two") as (two, _),
        field(one.port) as here,
        field(two.port) as there,
    ):
        await joined(one, here, able(asr=["en"]))
        await joined(two, there, WRITES, SPEAKS)
        await one._pool_map.look_again()
        result = await said(await here.client(src_lang="en", tgt_lang="ja"))
        assert (result["text_asr"], result["text_translated"]) == ("en(words)", "ja[en(words)]")


_READ = {"hash": "HGETALL", "set": "SMEMBERS", "string": "GET"}
_READ_RANGE = {"list": "LRANGE", "zset": "ZRANGE"}


async def test_no_text_is_left_in_redis_and_its_pools_are_sound(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        await joined(scheduler, peers, able(asr=["en"]), WRITES, SPEAKS)
        assert (await said(await peers.client(src_lang="en", tgt_lang="ja")))["text_asr"] == f"en({HEARD})"
        await until(lambda: scheduler._recorder._explaining == 0)
        for key in await store.line.call("KEYS", "*"):
            kind = await store.line.call("TYPE", key)
            if kind == "stream":
                value = await store.line.call("XRANGE", key, "-", "+")
            elif kind in _READ:
                value = await store.line.call(_READ[kind], key)
            else:
                value = await store.line.call(_READ_RANGE[kind], key, 0, -1)
            assert HEARD not in str(value), key
        assert await Checkup(store).look(settle_s=0.1) == []
        pairs = (await peers.get("/v1/pools"))[1]["pairs"]
        assert list(pairs) == ["en:en"]
