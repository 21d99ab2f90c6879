"""The autoscaling signal over HTTP: one number, of all pairs or of some, from what jobs really asked for."""

import asyncio
from itertools import count
from typing import Any

import pytest

from tests.support.peers import FakeNode, Field, Frame, answer, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

QUICK = {"watch__interval_ms": 200, "scaling__window_ms": 1_000, "scaling__hold_ms": 60_000}


async def scaling_with(peers: Field, path: str, is_so: Any) -> Any:
    status, found = await peers.get(path)
    assert status == 200, found
    return found if is_so(found) else None


async def some_work(node: FakeNode, job: Frame) -> None:
    """Long enough to be more than nothing in thousandths of a second."""
    await asyncio.sleep(0.05)
    await answer(node, job)


async def test_jobs_are_demand_for_slots_and_nodes_are_what_exists(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        status, nothing = await peers.get("/v1/scaling")
        assert (status, nothing["wanted_slots"], nothing["pairs"]) == (200, 0, [])
        await peers.node(some_work, max_concurrent_jobs=3)
        client, numbers = await peers.client(), count()

        async def busy() -> Any:
            await client.utterance(next(numbers))
            await client.outcome()
            return await scaling_with(
                peers,
                "/v1/scaling",
                lambda found: found["pairs"] and found["is_settled"] and found["capacity"]["slots"],
            )

        found = await until(busy)
        (pair,) = found["pairs"]
        assert (pair["src"], pair["tgt"], pair["capacity"]["slots"]) == ("en", "zh", 3)
        assert pair["arrivals_per_s"] > 0 < pair["node_s_per_job"]
        assert found["wanted_slots"] == pair["wanted_slots"] >= 1
        assert (found["capacity"]["nodes"], found["capacity"]["slots"], found["is_stale"]) == (1, 3, False)
        # One pair alone, in any spelling; a pair without jobs wants nothing.
        _, chosen = await peers.get("/v1/scaling?pair=EN:zh,zh:en")
        assert chosen["wanted_slots"] >= 1
        assert [(one["src"], one["wanted_slots"] > 0) for one in chosen["pairs"]] == [("en", True), ("zh", False)]


async def test_jobs_that_no_node_takes_are_demand_too(server: RedisProcess) -> None:
    """From nothing to the first node."""
    async with scheduler_on(server.url, **QUICK) as (scheduler, _), field(scheduler.port) as peers:
        client, numbers = await peers.client(), count()

        async def refused() -> Any:
            await client.utterance(next(numbers))
            return await scaling_with(peers, "/v1/scaling", lambda found: found["wanted_slots"])

        found = await until(refused)
        assert (found["capacity"]["nodes"], found["pairs"][0]["node_s_per_job"]) == (0, None)


@pytest.mark.parametrize("query", ["pair=en", "pair=en:zh,", "pair=:", "pair=en:zh:speech", "pairs=en:zh", "pair=1:2"])
async def test_what_is_no_pair_is_refused_with_an_example(server: RedisProcess, query: str) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        status, found = await peers.get(f"/v1/scaling?{query}")
        assert (status, found["error"]) == (400, "INVALID_MESSAGE")
        assert "en:zh" in found["detail"] or 'did you mean "pair"' in found["detail"]


async def test_a_choice_without_end_is_refused(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        assert (await peers.get("/v1/scaling?pair=" + ",".join(["en:zh"] * 101)))[0] == 400
