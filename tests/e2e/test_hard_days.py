"""Days on which everything happens at once: floods of languages, a Redis that pauses, a Redis that forgets."""

import asyncio
import signal
from typing import Any

import pytest

from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics
from tests.support.fleet import entry, join
from tests.support.peers import Field, answer, field, heartbeat, registration, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.scripts import Call, around_scripts
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import until


async def test_a_node_with_languages_without_end_is_told_the_limit(peers: Field) -> None:
    codes = [f"{a}{b}{c}" for a in "abcdefgh" for b in "abcdefgh" for c in "abcdefgh"][:500]
    socket = await peers.socket("/ws/node")
    capabilities = {"asr_languages": codes, "tts_languages": codes, "semantic_languages": codes}
    await socket.send(registration(language_capabilities=capabilities))
    refusal = await socket.next("error")
    assert refusal["code"] == "INVALID_CAPABILITY_SCHEMA"
    assert refusal["message"] == "asr_languages has 500 languages; a node may list at most 256"
    assert await socket.closed() is not None
    _, pools = await peers.get("/v1/pools")
    assert (pools["pairs"], pools["wide"]) == ({}, [])


async def test_a_pause_of_redis_longer_than_a_nodes_life_declares_nobody_dead() -> None:
    private = RedisProcess(str(binaries()["valkey"]))
    try:
        async with (
            scheduler_on(private.url, redis__timeout_ms=300) as (scheduler, store),
            field(scheduler.port) as peers,
        ):
            node = await peers.node(stay_silent, heartbeat_interval_ms=1000, node_id="patient")
            client = await peers.client()
            await client.utterance(0)
            await until(lambda: node.jobs)
            before = (await store.node_views.all())[0].owner
            private.signal(signal.SIGSTOP)
            await until(lambda: not store.is_ready)
            await asyncio.sleep(3.5)  # longer than three of its heartbeats, and there is no other way to let it pass
            private.signal(signal.SIGCONT)
            await until(lambda: store.is_ready)
            await answer(node, node.jobs[0])
            assert (await client.outcome())["type"] == "translation_result"
            assert (await store.node_views.all())[0].owner == before
            assert len(node.jobs) == 1
    finally:
        private.signal(signal.SIGCONT)
        private.stop()


async def test_a_job_for_a_dead_instance_goes_elsewhere_though_redis_goes_at_that_moment(
    server: RedisProcess, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[str] = []

    await join(store, entry("orphan"), owner=Owner("dead", "c1"))
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:

        async def losing(name: str, call: Call) -> Any:
            if name == "node_remove" and not lost:
                lost.append(name)
                await peers.node()
                raise RedisAway("the connection broke")
            return await call()

        client = await peers.client()
        around_scripts(monkeypatch, losing)
        await client.utterance(0)
        assert (await client.outcome())["type"] == "translation_result"
        assert lost


async def test_a_redis_that_forgot_everything_is_told_again_and_jobs_flow(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        held = await peers.node(stay_silent)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: held.jobs)
        server.flush()
        # Its next heartbeat is all it takes; the job it already has is not lost either.
        await held.socket.send(heartbeat(held.node_id))
        await answer(held, held.jobs[0])
        assert (await client.outcome())["type"] == "translation_result"
        await client.utterance(1)
        await until(lambda: len(held.jobs) == 2)
        await answer(held, held.jobs[1])
        assert (await client.outcome())["type"] == "translation_result"
        assert [view.node_id for view in await store.node_views.all()] == [held.node_id]


async def test_a_silent_node_is_cut_off_and_its_job_goes_elsewhere(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        silent = await peers.node(stay_silent, heartbeat_interval_ms=1000)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: silent.jobs)
        good = await peers.node()
        assert (await client.outcome())["type"] == "translation_result"
        assert len(good.jobs) == 1
        assert [view.node_id for view in await store.node_views.all()] == [good.node_id]


async def test_a_place_whose_node_never_came_is_used_again(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, store):
        _, place = await store.placements.assign("died-in-between", 100, 1000)
        await store.placements.assign("also-placed", 100, 1000)
        await scheduler.sweeper.repair()
        assert await store.placements.find("died-in-between") == place  # it may still be on its way
        await scheduler.sweeper.repair()
        assert await store.placements.find("died-in-between") is None
        assert await store.nodes.remove(0, Owner("", ""), "died-in-between", frozenset()) == ("gone", [])


async def test_a_world_that_is_full_refuses_in_words(server: RedisProcess) -> None:
    changes = {"pools__shard_size": 1, "pools__max_shards": 2}
    async with scheduler_on(server.url, **changes) as (scheduler, _), field(scheduler.port) as peers:
        for _ in range(2):
            await peers.node()
        third = await peers.socket("/ws/node")
        await third.send(registration())
        assert "room for 2 nodes" in (await third.next("error"))["message"]
        client = await peers.client()
        for index in range(64):  # both shards are found; which one comes first is chance
            await client.utterance(index)
            assert (await client.outcome())["type"] == "translation_result"
            if all(node.jobs for node in peers.nodes):
                break
        assert all(node.jobs for node in peers.nodes)


async def test_a_herd_that_comes_back_is_let_in_by_portions_and_nobody_is_turned_away(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, server__max_registrations_per_s=10) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        before = metrics.REGISTRATIONS.labels("delayed")._value.get()
        began_s = asyncio.get_running_loop().time()
        nodes = await asyncio.gather(*(peers.node() for _ in range(60)))
        assert len({node.node_id for node in nodes}) == 60
        # 10 at once and 10 a second after that.
        assert asyncio.get_running_loop().time() - began_s > 4.5
        # Those who come late because the machine is slow need not wait any more.
        assert 0 < metrics.REGISTRATIONS.labels("delayed")._value.get() - before <= 50


async def test_two_people_whom_no_node_serves_both_ways_are_told_so_at_once(peers: Field) -> None:
    one_way = {"asr_languages": ["en"], "semantic_languages": ["en"], "tts_languages": ["zh"]}
    await peers.node(language_capabilities=one_way | {"nmt_capabilities": [{"from": "en", "to": "zh"}]})
    client = await peers.client(src_lang="auto", mode="two_way_auto", lang_a="en", lang_b="zh")
    await client.utterance(0, src_lang="auto", mode="two_way_auto", lang_a="en", lang_b="zh")
    failure = await client.failure()
    assert failure["error_code"] == "NO_CAPABLE_NODE"
    assert "translates Chinese into English" in failure["hint"]


async def test_a_pair_served_one_way_does_not_rewrite_the_fleet_for_each_utterance(
    peers: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_way = {"asr_languages": ["en"], "semantic_languages": ["en"], "tts_languages": ["zh"]}
    for _ in range(20):
        await peers.node(language_capabilities=one_way | {"nmt_capabilities": [{"from": "en", "to": "zh"}]})
    beats: list[str] = []

    async def counting(name: str, call: Call) -> Any:
        if name in ("node_beat", "node_register"):
            beats.append(name)
        return await call()

    both_ways: dict[str, Any] = {"src_lang": "auto", "mode": "two_way_auto", "lang_a": "en", "lang_b": "zh"}
    client = await peers.client(**both_ways)
    around_scripts(monkeypatch, counting)
    for index in range(5):
        await client.utterance(index, **both_ways)
        assert (await client.failure())["error_code"] == "NO_CAPABLE_NODE"
    print(f"{len(beats)} scripts that write nodes, for 5 utterances nobody serves, among 20 nodes")
    assert len(beats) <= 5  # vouching for a quiet node is no fault


async def test_a_drained_pair_does_not_rewrite_the_fleet_for_each_utterance(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        nodes = [await peers.node() for _ in range(10)]
        for node in nodes:
            await store.nodes.drain(node.node_id)
        beats: list[str] = []

        async def counting(name: str, call: Call) -> Any:
            if name in ("node_beat", "node_register"):
                beats.append(name)
            return await call()

        client = await peers.client()
        around_scripts(monkeypatch, counting)
        for index in range(5):
            await client.utterance(index)
            assert (await client.failure())["error_code"] == "NO_CAPABLE_NODE"
        assert len(beats) <= 5


async def test_the_nodes_of_a_dead_instance_are_removed_though_redis_failed_at_the_first_try(
    server: RedisProcess, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[str] = []

    async def losing(name: str, call: Call) -> Any:
        if name == "node_remove" and not lost:
            lost.append(name)
            raise RedisAway("the connection broke")
        return await call()

    await join(store, entry("orphan"), owner=Owner("dead", "c1"))
    async with scheduler_on(server.url) as (scheduler, _):
        around_scripts(monkeypatch, losing)
        with pytest.raises(RedisAway):
            await scheduler.sweeper.remove_orphans({"dead"})
        await scheduler.sweeper.remove_orphans({"dead"})
        assert await store.node_views.all() == []


async def test_a_record_outlives_its_attempt_however_short_records_are_kept(server: RedisProcess) -> None:
    async with scheduler_on(server.url, job__keep_ms=1_000) as (scheduler, store), field(scheduler.port) as peers:
        node = await peers.node(stay_silent)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: node.jobs)
        left_ms = await store.line.call("PTTL", store.keys.shard(0).job(node.jobs[0]["job_id"]))
        assert left_ms > 60_000
