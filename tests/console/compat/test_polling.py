"""What older pages poll: the exact shapes, true figures, no word to Redis."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from functools import partial
from time import monotonic
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.services.watching.pair_gauges import PairGauges
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics
from tests.support.peers import Field, field, registration, stay_silent
from tests.support.pictures import pair, picture
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import until

QUICK = {"watch__interval_ms": 200, "watch__watched_interval_ms": 100}
GPUS = {"cpu_cores": 8, "memory_gb": 32, "gpus": [{"name": "a", "memory_gb": 24}, {"name": "b", "memory_gb": 8}]}


async def ask(peers: Field, path: str, is_so: Any = lambda body: True) -> Any:
    status, body = await peers.get(path)
    return body if status == 200 and is_so(body) else None


async def test_stats_have_the_shape_older_pages_know(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        fake = await peers.node(stay_silent, hardware=GPUS)
        other = await peers.node(stay_silent)
        one, two = await peers.client(), await peers.client(src_lang="zh", tgt_lang="en")
        await peers.client(src_lang="auto", tgt_lang="auto", mode="two_way_auto", lang_a="en", lang_b="fr")
        await one.utterance(0)
        await until(lambda: fake.jobs or other.jobs)
        ready = partial(ask, peers, "/api/v1/stats", lambda body: body["web_clients"]["active_users"] == 3)
        await until(ready)
        await until(partial(ask, peers, "/v1/picture", lambda body: body["now"]["slots_taken"] == 1))
        stats = await until(ready)
        powers = [
            {"node_id": fake.node_id, "cpu_power": 8.0, "gpu_power": 32.0, "memory_power": 32.0},
            {"node_id": other.node_id, "cpu_power": 2.0, "gpu_power": 0.0, "memory_power": 24.0},
        ]
        assert stats == {
            "web_clients": {
                "active_users": 3,
                "top_languages": [
                    {"language": "en", "count": 4},
                    {"language": "fr", "count": 2},
                    {"language": "zh", "count": 2},
                ],
                "language_usage": {
                    "en": {"as_source": 2, "as_target": 2, "total": 4},
                    "fr": {"as_source": 1, "as_target": 1, "total": 2},
                    "zh": {"as_source": 1, "as_target": 1, "total": 2},
                },
            },
            "nodes": {
                "connected_nodes": 2,
                "type_node_counts": {"asr": 2},
                "available_services": [{"service_id": "whisper", "type": "", "name": "", "version": ""}],
                "total_services": 1,
                "type_in_use_counts": {"asr": 1},
                "compute_power": {
                    "total_cpu_power": 10.0,
                    "total_gpu_power": 32.0,
                    "total_memory_power": 56.0,
                    "node_power_details": sorted(powers, key=lambda power: str(power["node_id"])),
                },
            },
        }
        assert two.session_id


async def test_the_cluster_has_the_shape_older_pages_know(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        fake = await peers.node(max_concurrent_jobs=3)
        await peers.client()
        busy = lambda body: body["total_sessions"] and body["nodes"] and body["nodes"][0]["cpu_usage"]  # noqa: E731
        cluster = await until(partial(ask, peers, "/api/v1/cluster", busy))
        (instance,), (seen,) = cluster.pop("instances"), cluster.pop("nodes")
        assert cluster == {
            "total_instances": 1,
            "online_instances": 1,
            "total_nodes": 1,
            "online_nodes": 1,
            "ready_nodes": 1,
            "total_sessions": 1,
            "total_pending": 0,
            "total_dlq": 0,
            "redis_key_prefix": "lingua:v1",
        }
        assert instance.pop("uptime_seconds") >= 0
        about = scheduler.presence.me
        assert instance == {
            "instance_id": scheduler.instance,
            "hostname": about.host,
            "pid": about.pid,
            "version": about.version,
            "started_at_ms": about.started_at_ms,
            "is_online": True,
            "inbox_length": 0,
            "inbox_pending": 0,
            "dlq_length": 0,
            "nodes_owned": 1,
            "sessions_owned": 1,
        }
        assert abs(seen.pop("last_heartbeat") - about.started_at_ms) < 30_000
        assert seen == {
            "node_id": fake.node_id,
            "platform": "linux",
            "online": True,
            "status": "ready",
            "cpu_usage": 1.0,
            "gpu_usage": None,
            "memory_usage": 2.0,
            "current_jobs": 0,
            "max_concurrent_jobs": 3,
            "services": ["whisper"],
            "capabilities": ["asr"],
        }


async def test_the_flat_figures_are_true(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        client = await peers.client()
        for index in range(3):
            await client.utterance(index)
            await client.outcome()
        done = partial(ask, peers, "/api/v1/metrics", lambda body: body["jobs_done_total"] == 3)
        found = await until(done)
        assert all(not isinstance(value, dict | list) for value in found.values())
        assert (found["nodes_ready"], found["sessions"], found["slots_total"], found["redis_up"]) == (1, 1, 4, True)
        assert (found["pairs_served"], found["instances_alive"], found["leader"]) == (2, 1, scheduler.instance)


async def test_asking_costs_redis_nothing(server: RedisProcess) -> None:
    slow = {"watch__interval_ms": 86_400_000, "watch__watched_interval_ms": 86_400_000}
    async with scheduler_on(server.url, **slow) as (scheduler, store), field(scheduler.port) as peers:
        await peers.node()
        await peers.get("/api/v1/stats")
        built: list[int] = []
        scheduler.snapshots.on_picture.append(lambda picture: built.append(picture.serial))
        before, began = await commands(store), monotonic()
        for path in ("/api/v1/stats", "/api/v1/metrics", "/api/v1/cluster", "/v1/picture", "/v1/history", "/v1/events"):
            for _ in range(200):
                assert (await peers.get(path))[0] == 200
        asked = await commands(store)
        # What goes on by itself (beats, sweeps, the leader) goes by the clock.
        await asyncio.sleep(monotonic() - began)
        assert built == []
        assert asked - before < 2 * (await commands(store) - asked) + 400


async def commands(store: Store) -> int:
    """That Redis has carried out so far."""
    told = [await server.call("INFO", "stats") for server in store.line.servers()]
    return sum(int(text.split("total_commands_processed:")[1].split()[0]) for text in told)


# Without Redis


@pytest.fixture
def own_server() -> Iterator[RedisProcess]:
    redis = RedisProcess(str(binaries()["valkey"]))
    yield redis
    redis.signal(signal.SIGCONT)
    redis.stop()


@pytest.fixture
async def scheduler(own_server: RedisProcess) -> AsyncIterator[Scheduler]:
    async with scheduler_on(own_server.url, redis__timeout_ms=300, **QUICK) as (found, _):
        yield found


async def test_a_redis_that_stands_still_makes_stats_stale_and_the_cluster_unavailable_until_it_goes_on(
    own_server: RedisProcess, scheduler: Scheduler
) -> None:
    async with field(scheduler.port) as peers:
        fake = await peers.node()
        await until(partial(ask, peers, "/api/v1/stats", lambda body: body["nodes"]["connected_nodes"]))
        own_server.signal(signal.SIGSTOP)
        stale = await until(partial(ask, peers, "/api/v1/stats", lambda body: body.get("stale")), 20)
        assert stale["nodes"]["connected_nodes"] == 1
        status, body = await peers.get("/api/v1/cluster")
        assert (status, body["error"]) == (503, "SCHEDULER_DEPENDENCY_DOWN")
        assert (await ask(peers, "/api/v1/metrics"))["redis_up"] is False
        _, found = await peers.get("/v1/picture")
        assert (found["is_stale"], found["nodes"][0]["node_id"]) == (True, fake.node_id)
        assert [alarm["code"] for alarm in found["alarms"]] == ["redis.away"]
        async with aiohttp.ClientSession() as http:
            await until(partial(is_older_than, http, scheduler.port, 1))
        own_server.signal(signal.SIGCONT)
        await until(partial(ask, peers, "/api/v1/stats", lambda body: "stale" not in body), 20)
        assert (await peers.get("/api/v1/cluster"))[0] == 200
        kinds = [(event.kind, event.values.get("code")) for event in scheduler.snapshots.events]
        assert ("alarm.raised", "redis.away") in kinds
        assert ("alarm.cleared", "redis.away") in kinds


async def is_older_than(http: aiohttp.ClientSession, port: int, seconds: int) -> bool:
    async with http.get(f"http://127.0.0.1:{port}/api/v1/stats") as response:
        return int(response.headers["Age"]) >= seconds


# Gauges


def shown(name: str, src: str, tgt: str) -> float | None:
    return metrics.REGISTRY.get_sample_value(name, {"src": src, "tgt": tgt})


async def test_pairs_are_gauges_and_a_lost_pair_is_zero(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        fake = await peers.node(max_concurrent_jobs=3)
        await until(lambda: shown("lingua_pair_free_slots", "en", "zh") == 3)
        assert (shown("lingua_pair_slots", "en", "zh"), shown("lingua_pair_nodes", "en", "zh")) == (3, 1)
        # Somebody wants it.
        client = await peers.client()
        await fake.socket.close()
        await until(lambda: shown("lingua_pair_nodes", "en", "zh") == 0, 30)
        assert shown("lingua_pair_nodes", "zh", "en") is None
        await client.socket.close()
        _, page = await peers.get("/metrics")
        assert 'lingua_pair_nodes{src="en",tgt="zh"} 0.0' in page
        assert (metrics.REGISTRY.get_sample_value("lingua_snapshot_age_seconds") or 0) < 60


def test_a_pair_that_is_forgotten_has_no_gauge_any_more_and_a_stale_picture_changes_nothing() -> None:
    gauges = PairGauges(10)
    gauges.show(picture(pairs=[pair("xx:yy"), pair("yy:xx")]))
    gauges.show(picture(pairs=[pair("xx:yy", free=1)]))
    assert (shown("lingua_pair_free_slots", "xx", "yy"), shown("lingua_pair_nodes", "yy", "xx")) == (1, None)
    gauges.show(picture(pairs=[], is_stale=True))
    assert shown("lingua_pair_nodes", "xx", "yy") == 2
    gauges.show(picture(pairs=[]))
    assert shown("lingua_pair_nodes", "xx", "yy") is None


async def test_only_so_many_pairs_have_gauges_of_their_own(server: RedisProcess) -> None:
    async with scheduler_on(server.url, watch__max_pairs=2, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node(**registration(("en", "zh", "fr")) | {"max_concurrent_jobs": 3})
        # Six, without those of a language with itself.
        await until(lambda: shown("lingua_pair_nodes", "other", "other") == 4)
        assert shown("lingua_pair_slots", "other", "other") == 12
        assert shown("lingua_pair_nodes", "en", "fr") == 1
        assert shown("lingua_pair_nodes", "en", "en") is None
        assert shown("lingua_pair_nodes", "zh", "fr") is None
