"""What a node calls its jobs, and what lies in Redis, stops nobody: honest peers go on, and repair removes it."""

import asyncio
import random
from typing import Any

import pytest

from lingua_scheduler.store.keys import FAMILIES
from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.store import Store
from tests.support.peers import Field, acknowledgement, field, heartbeat, result_of
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET
from tests.support.waiting import until

OPUS = PACKET * 10
STRANGE = ["job-0-a#b", "job-0-a#1#n", "job-0-a b", "job-0-\n", "job-0-{s1}", "job-0-" + "a" * 200, "#", "", "x"]


async def say_one(peers: Field, client: Any) -> None:
    await client.chunk(OPUS, is_final=True)
    assert (await client.outcome(within_s=20))["type"] == "translation_result"


async def go_on(client: Any, tries: int) -> None:
    """Every utterance has an outcome, and before long they are translated again: what was lost is written anew."""
    outcome = {}
    for _ in range(tries):
        await client.chunk(OPUS, is_final=True)
        outcome = await client.outcome()
        if outcome["type"] == "translation_result":
            return
        # What is written anew is written with the next beat of an instance or a node, which a busy machine delays.
        await asyncio.sleep(0.5)
    raise AssertionError(f"not translated: {outcome}")


async def test_a_heartbeat_with_ids_that_are_none_stops_no_sweep(server: RedisProcess) -> None:
    """`running_job_ids: ["job-0-a#b"]` became a lease that nobody could parse, end or remove."""
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        evil = await peers.node(node_id="evil", accept_public_jobs=False)
        await peers.node(node_id="good")
        client = await peers.client()
        await evil.socket.send(heartbeat("evil", running_job_ids=STRANGE))
        for job_id in STRANGE:
            job = {"job_id": job_id, "attempt_id": 1, "session_id": "s", "trace_id": "t", "utterance_index": 0}
            await evil.socket.send(acknowledgement(job, "evil"))
            await evil.socket.send(acknowledgement(job, "evil") | {"type": "job_started"})
            await evil.socket.send(result_of(job, "evil"))
            status, _ = await peers.get("/v1/jobs/" + job_id.replace("\n", "%0A").replace("#", "%23"))
            assert status < 500
        await say_one(peers, client)
        assert await store.line.call("ZRANGE", store.keys.shard(0).leases, 0, -1) == []
        await scheduler.sweeper.sweep()
        await scheduler.sweeper.repair()
        assert (await peers.get("/v1/jobs"))[0] == 200
        assert await Checkup(store).look(settle_s=0) == []


async def test_a_lease_that_an_older_release_let_in_is_passed_over_and_removed(server: RedisProcess) -> None:
    async with scheduler_on(server.url, watch__interval_ms=500) as (scheduler, store), field(scheduler.port) as peers:
        node = await peers.node(node_id="good")
        client = await peers.client()
        leases = store.keys.shard(0).leases
        await store.line.call("ZADD", leases, 0, "job-0-a#b#0#good")
        await scheduler.sweeper.sweep()
        assert (await peers.get("/v1/jobs"))[0] == 200
        await say_one(peers, client)
        await until(lambda: _has_alarm(peers, "data.unreadable"))
        await scheduler.sweeper.repair()
        assert await store.line.call("ZRANGE", leases, 0, -1) == []
        await node.socket.close()
        await until(lambda: _has_nodes(store, 0))


async def _has_alarm(peers: Field, code: str) -> bool:
    _, found = await peers.get("/v1/picture")
    return any(alarm["code"] == code for alarm in found.get("alarms", []))


async def _has_nodes(store: Store, count: int) -> bool:
    return len(await store.placements.all()) == count


@pytest.mark.parametrize("way", ["beside", "instead"])
@pytest.mark.expects_surprise("letter.dead")
async def test_a_conversation_goes_on_while_every_family_of_keys_is_soiled(server: RedisProcess, way: str) -> None:
    """Rubbish beside what is there, or another type instead of it, one family after the other."""
    dice = random.Random(7)
    async with (
        scheduler_on(server.url, instances__beat_ms=200, sessions__hangover_manual_ms=0) as (
            scheduler,
            store,
        ),
        field(scheduler.port) as peers,
    ):
        node = await peers.node()
        client = await peers.client()
        await say_one(peers, client)
        for family in FAMILIES:
            if family.type == "any" or family.name == "version":
                continue
            for key in await _keys(store, family.name):
                if way == "instead":
                    other = ("SADD", key, "x") if family.type != "set" else ("SET", key, "x")
                    # In one write; the scheduler may have been quicker all the same.
                    await asyncio.gather(store.line.call("DEL", key), store.line.call(*other), return_exceptions=True)
                else:
                    await _soil(store, family.type, key, dice)
            await node.socket.send(heartbeat(node.node_id))
            try:
                await go_on(client, tries=1 if way == "beside" else 60)
            except (AssertionError, TimeoutError, ConnectionError) as error:
                raise AssertionError(f"the conversation stopped at {family.name}: {error!r}") from error
        assert (await peers.get("/v1/jobs"))[0] == 200
        assert (await peers.get("/v1/nodes"))[0] == 200
        await node.socket.send(heartbeat(node.node_id))
        assert (await Checkup(store).put_right(settle_s=0.2))[0]

        async def is_right() -> bool:
            """Once instances that lost their entries beat again, there is nothing left to be repaired."""
            _, left = await Checkup(store).put_right(settle_s=0.2)
            return not any(finding.is_repairable for finding in left)

        await until(is_right)
        assert [one.words for one in await Checkup(store).look(settle_s=0.2) if one.is_repairable] == []
        await say_one(peers, client)


async def _soil(store: Store, kind: str, key: str, dice: random.Random) -> None:
    rubbish = dice.choice([b"\xff\xfe", b"two words", b"", b"{", b"job-0-a#b#0#n"])
    match kind:
        case "hash":
            await store.line.call("HSET", key, rubbish, b"\xff")
        case "zset":
            await store.line.call("ZADD", key, 0, rubbish)
        case "set":
            await store.line.call("SADD", key, rubbish)
        case "list":
            await store.line.call("RPUSH", key, rubbish)
        case "stream":
            await store.line.call("XADD", key, "*", "f", rubbish)
        case "string":
            await store.line.call("SET", key, rubbish)


async def _keys(store: Store, family: str) -> list[str]:
    _, keys = await store.line.call("SCAN", "0", "MATCH", "lingua:*", "COUNT", 100_000)
    return [key for key in keys if (found := store.keys.family_of(key)) is not None and found.name == family]
