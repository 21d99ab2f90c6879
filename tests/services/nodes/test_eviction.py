"""An eviction from outside: the node is out of Redis, its connection closed, and its jobs are done elsewhere."""

import asyncio
import json
from typing import Any, cast

from click.testing import CliRunner

from lingua_scheduler.cli.main import main
from lingua_scheduler.services.nodes.eviction import evict_from_outside
from lingua_scheduler.store.store import Store
from tests.support.peers import answer, field, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

COME_BACK = 1012


async def test_a_command_evicts_a_node_and_its_jobs_are_retried(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        await until(store.signals.listening.is_set)
        sick = await peers.node(stay_silent)
        client = await peers.client()
        await client.utterance(0)
        (job,) = await until(lambda: sick.jobs)
        well = await peers.node(answer)
        shown = await asyncio.to_thread(
            CliRunner().invoke, main, ["evict", sick.node_id, "--json", "--redis-url", server.url]
        )
        # The scheduler of this process may log into what the command prints.
        said = json.loads(next(line for line in shown.stdout.splitlines() if line.startswith("{")))
        assert said == {"node_id": sick.node_id, "outcome": "evicted", "jobs": [job["job_id"]]}
        assert await sick.socket.closed() == COME_BACK
        assert (await client.outcome())["type"] == "translation_result"
        assert [view.node_id for view in await store.node_views.all()] == [well.node_id]


async def test_a_node_that_is_not_there_is_not_evicted(store: Store) -> None:
    asked: list[str] = []

    class Nobody:
        async def evict(self, _owner: object, node_id: str) -> None:
            asked.append(node_id)

    holders = cast("Any", Nobody())
    assert await evict_from_outside(store, holders, "n1", "here") is None
    # It has a place, and is not registered.
    await store.placements.assign("n1", 100, 1000)
    assert await evict_from_outside(store, holders, "n1", "here") is None
    assert asked == []
    assert "n1" in await store.placements.all()
