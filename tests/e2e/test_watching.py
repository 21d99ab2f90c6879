"""One picture of several instances, and of a large fleet."""

import asyncio
import signal
from functools import partial
from pathlib import Path
from typing import Any

from lingua_scheduler.domain.nodes.nodes import MachineLoad
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.store.nodes.fleet_columns import digest_of, look_of
from lingua_scheduler.store.store import Store
from tests.support.fleet import entry
from tests.support.peers import Field, field, heartbeat
from tests.support.schedulers import scheduler_on, serve_process
from tests.support.servers import RedisProcess
from tests.support.streams import stream_of
from tests.support.waiting import until

QUICK = {"watch__interval_ms": 200, "watch__watched_interval_ms": 100}
POOLS = frozenset(f"{src}:{tgt}:{facet}" for src in "ab" for tgt in "cd" for facet in ("speech", "text"))


async def picture_with(peers: Field, is_so: Any) -> Any:
    status, found = await peers.get("/v1/picture")
    return found if status == 200 and is_so(found) else None


async def test_two_instances_are_one_picture_wherever_it_is_asked_for(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, **QUICK) as (a, _),
        scheduler_on(server.url, **QUICK) as (b, _),
        field(a.port) as at_a,
        field(b.port) as at_b,
    ):
        await at_a.node()
        await at_b.node()
        clients = [await at_a.client(), await at_b.client(), await at_b.client(src_lang="zh", tgt_lang="en")]
        for client in clients:
            await client.utterance(0)
            await client.outcome()
        for peers in (at_a, at_b):
            found = await until(partial(picture_with, peers, lambda seen: seen["jobs_ended"]["DONE"] == 3))
            assert found["session_languages"] == {"en:zh": 2, "zh:en": 1}
            assert (found["now"]["sessions"], found["now"]["slots_total"]) == (3, 8)
            assert {one["instance_id"]: (one["nodes"], one["sessions"]) for one in found["instances"]} == {
                a.instance: (1, 1),
                b.instance: (1, 2),
            }
            assert [one["instance_id"] for one in found["instances"] if one["is_leader"]] == [found["leader"]]


async def test_jobs_of_both_are_in_the_rates_and_percentiles_of_either(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, **QUICK) as (a, _),
        scheduler_on(server.url, **QUICK) as (b, _),
        field(a.port) as at_a,
        field(b.port) as at_b,
    ):
        await at_a.node()
        client = await at_b.client()
        await until(partial(picture_with, at_a, lambda seen: seen["now"]["sessions"] == 1))
        async with stream_of(a.port) as stream:
            await stream.next("picture")
            await client.utterance(0)
            await client.outcome()
            while not (now := (await stream.next("change")).data["now"])["done_per_s"]:
                pass
            assert now["p50_ms"] > 0


async def test_an_instance_that_is_killed_has_died_and_one_that_stops_has_left(
    server: RedisProcess, tmp_path: Path
) -> None:
    quick = ("--set", "instances.beat_ms=100", "--set", "instances.dead_ms=500", "--set", "watch.interval_ms=200")
    others = ("--redis-url", server.url, *quick, "--set", "watch.watched_interval_ms=100")
    async with scheduler_on(server.url, instances__beat_ms=200, instances__dead_ms=2_000, **QUICK) as (here, _):
        # An instance that is late with its own beats, as on a busy machine, judges nobody.
        for number, kill, kind in ((1, signal.SIGKILL, "instance.died"), (2, signal.SIGTERM, "instance.left")):
            folder = tmp_path / str(number)
            folder.mkdir()
            async with stream_of(here.port) as stream, serve_process(folder, *others) as other, field(here.port) as us:
                await until(partial(getattr, other, "port"), 30)
                await until(partial(picture_with, us, lambda seen: sum(map(is_alive, seen["instances"])) == 2), 20)
                other.process.send_signal(kill)
                while not (gone := [event for event in await next_events(stream) if event["kind"] == kind]):
                    pass
                assert gone[0]["subject"] != here.instance
                codes = [alarm["code"] for alarm in (await us.get("/v1/picture"))[1]["alarms"]]
                # The first one is dead all the time.
                assert codes.count("instance.dead") == 1


def is_alive(instance: Any) -> bool:
    return bool(instance["is_alive"])


async def next_events(stream: Any) -> list[Any]:
    return list((await stream.change_with("events", within_s=45))["events"])


async def test_a_node_that_vanishes_is_an_alarm_until_it_is_back_and_one_that_drained_is_none(
    server: RedisProcess,
) -> None:
    async with scheduler_on(server.url, **QUICK) as (here, _), field(here.port) as peers:
        stays, vanishes, drains = [await peers.node(node_id=name) for name in ("stays", "w2", "w3")]
        await until(partial(picture_with, peers, lambda seen: len(seen["nodes"]) == 3))
        await peers.post(f"/v1/nodes/{drains.node_id}/drain")
        await until(partial(picture_with, peers, lambda seen: "draining" in {one["state"] for one in seen["nodes"]}))
        await drains.stop()
        await vanishes.stop()
        await until(partial(picture_with, peers, lambda seen: lost_in(seen) == ["w2"] and len(seen["nodes"]) == 1))
        await peers.node(node_id="w2")
        await until(partial(picture_with, peers, lambda seen: len(seen["nodes"]) == 2 and not lost_in(seen)))
        _, told = await peers.get("/v1/events")
        left = {one["subject"]: one["text"] for one in told["events"] if one["kind"] == "node.left"}
        assert left == {"w2": "w2 left", "w3": "w3 left, as announced"}
        await stays.stop()


def lost_in(picture: Any) -> list[str]:
    return [alarm["subject"] for alarm in picture["alarms"] if alarm["code"] == "node.lost"]


async def test_a_thousand_nodes_are_a_few_kilobytes_a_second(server: RedisProcess) -> None:
    """Printed rather than judged closely: each beats every 15 s, as nodes do, and one in a hundred changes its load."""
    async with scheduler_on(server.url) as (scheduler, store):
        await fill(store, scheduler.instance, 1_000)
        beating = asyncio.create_task(beat(store, scheduler.instance, 1_000, every_s=15))
        try:
            await scheduler.snapshots.build()
            async with stream_of(scheduler.port) as stream:
                first = await stream.next("picture")
                assert len(first.data["picture"]["nodes"]) == 1_000
                changes = [await stream.next("change") for _ in range(8)]
        finally:
            beating.cancel()
        took_s = (changes[-1].data["at_ms"] - changes[0].data["at_ms"]) / 1000
        per_s = sum(change.size for change in changes[1:]) / took_s
        print(f"1000 nodes: first message {first.size} bytes, then {per_s:.0f} bytes/s")
        assert per_s < 30_000


async def fill(store: Store, instance: str, count: int) -> None:
    for number in range(count):
        node = entry(f"n{number}", pools=POOLS)._replace(
            look=look_of(digest_of(POOLS, "{}"), 45_000, MachineLoad(5, 5))
        )
        _, place = await store.placements.assign(node.node_id, 100, 1000)
        await store.nodes.register(place.shard, Owner(instance, "c1"), node)


async def beat(store: Store, instance: str, count: int, every_s: float) -> None:
    digest = digest_of(POOLS, "{}")
    places = await store.placements.all()
    number = 0
    while True:
        for _ in range(10):
            number += 1
            name = f"n{number % count}"
            look = look_of(digest, 45_000, MachineLoad(number // count % 100, 50)) if number % 100 == 0 else ""
            await store.nodes.beat(places[name].shard, Owner(instance, "c1"), name, 45_000, look)
        await asyncio.sleep(every_s / count * 10)


async def test_a_heartbeat_that_is_no_news_writes_no_looks(server: RedisProcess) -> None:
    async with scheduler_on(server.url, watch__interval_ms=60_000, watch__watched_interval_ms=60_000) as (here, store):
        async with field(here.port) as peers:
            fake = await peers.node()
            looks = store.keys.shard(0).looks

            async def shown() -> str:
                return str(await store.line.call("HGET", looks, fake.node_id))

            async def alive_until() -> str:
                return str(await store.line.call("ZSCORE", store.keys.shard(0).seen, fake.node_id))

            async def beats(cpu: float) -> None:
                usage = {"cpu_percent": cpu, "mem_percent": 40.0, "running_jobs": 0}
                before = await alive_until()
                await asyncio.sleep(0.005)  # signs of life count in milliseconds
                await fake.socket.send(heartbeat(fake.node_id, resource_usage=usage))
                await until(partial(differs, alive_until, before))

            await beats(20)
            await until(partial(is_shown, shown, " 20 40 -"))
            await store.line.call("HSET", looks, fake.node_id, "ready untouched")
            await beats(23)
            assert await shown() == "ready untouched"
            await beats(25)
            assert (await shown()).endswith(" 25 40 -")


async def differs(ask: Any, before: str) -> bool:
    return bool(await ask() != before)


async def is_shown(shown: Any, end: str) -> bool:
    return bool((await shown()).endswith(end))
