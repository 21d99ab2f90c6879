"""`lingua evict` and `lingua release`: what they change, what they say, and how they end."""

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from lingua_scheduler.cli.main import main
from lingua_scheduler.store.store import Store
from tests.support.fleet import dispatch, entry, join, order
from tests.support.servers import RedisProcess

SETTINGS = 2


async def lingua(server: RedisProcess, *arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, [*arguments, "--redis-url", server.url])


async def test_an_evicted_node_is_gone_and_its_jobs_are_named(server: RedisProcess, store: Store) -> None:
    await join(store, entry("n1"))
    shown = await lingua(server, "evict", "n1")
    assert (shown.exit_code, shown.stdout) == (0, "n1 is evicted; it had no jobs. It may connect again\n")
    assert await store.node_views.all() == []
    await join(store, entry("n2"))
    await dispatch(store, order(1))
    assert "1 job is retried elsewhere" in (await lingua(server, "evict", "n2")).stdout


async def test_a_released_node_is_well_again(server: RedisProcess, store: Store) -> None:
    await join(store, entry("n1"))
    assert (await lingua(server, "release", "n1")).stdout == "n1 is in no quarantine\n"
    keys = store.keys.shard(0)
    await store.line.call("ZADD", keys.sick, 9e15, "n1")
    await store.line.call("HSET", keys.trouble, "n1", "xxx 1 5")
    assert (await lingua(server, "release", "n1")).stdout == "n1 is out of quarantine\n"
    assert await store.line.call("ZSCORE", keys.sick, "n1") is None
    assert await store.line.call("HGET", keys.trouble, "n1") is None
    await store.line.call("ZADD", keys.sick, 9e15, "n1")
    told = json.loads((await lingua(server, "release", "n1", "--json")).stdout)
    assert told == {"node_id": "n1", "outcome": "released"}


@pytest.mark.parametrize("command", ["evict", "release"])
async def test_a_node_that_is_not_there_is_named(server: RedisProcess, command: str) -> None:
    refused = await lingua(server, command, "n9")
    assert refused.exit_code == SETTINGS
    assert "there is no node n9; lingua nodes lists them" in refused.stderr
