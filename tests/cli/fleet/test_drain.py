"""`lingua drain` and `lingua resume`, directly in Redis: what they change, what they say, and how they end."""

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from lingua_scheduler.cli.main import main
from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome, EndOutcome
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.store.store import Store
from tests.support.fleet import RULES, entry, join, order
from tests.support.servers import RedisProcess

SETTINGS, SCHEDULER = 2, 5


async def lingua(server: RedisProcess, *arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, [*arguments, "--redis-url", server.url])


async def outcome_of_a_job(store: Store) -> DispatchOutcome:
    return (await store.jobs.dispatch(0, order(1), RULES)).outcome


async def test_a_drained_node_gets_no_jobs_until_it_is_resumed(server: RedisProcess, store: Store) -> None:
    await join(store, entry("n1"))
    drained = await lingua(server, "drain", "n1")
    assert (drained.exit_code, drained.stdout) == (0, "n1 is draining; nothing is running on it\n")
    assert await outcome_of_a_job(store) is DispatchOutcome.NOBODY
    assert (await lingua(server, "drain", "n1")).stdout == "n1 was draining already; nothing is running on it\n"
    assert (await lingua(server, "resume", "n1")).stdout == "n1 takes work again\n"
    assert await outcome_of_a_job(store) is DispatchOutcome.DISPATCHED
    assert (await lingua(server, "resume", "n1")).stdout == "n1 was not draining\n"


async def test_scripts_get_the_outcome_and_the_running_jobs(server: RedisProcess, store: Store) -> None:
    await join(store, entry("n1"))
    await outcome_of_a_job(store)
    told = json.loads((await lingua(server, "drain", "n1", "--json")).stdout)
    assert told == {"node_id": "n1", "outcome": "drained", "held": 1}
    assert json.loads((await lingua(server, "resume", "n1", "--json")).stdout) == {
        "node_id": "n1",
        "outcome": "resumed",
    }


async def test_one_may_wait_for_the_last_job(server: RedisProcess, store: Store) -> None:
    await join(store, entry("n1"))
    await outcome_of_a_job(store)
    late = await lingua(server, "drain", "n1", "--wait", "--timeout", "0")
    assert late.exit_code == SCHEDULER
    assert "n1 still runs 1 jobs after 0 s; it gets no new ones" in late.output
    waiting = asyncio.create_task(lingua(server, "drain", "n1", "--wait", "--timeout", "20"))
    lost = await store.jobs.end(Attempt(order(1).job_id, 1, "n1", 0), "", JobEvent.LOSE_ATTEMPT)
    assert lost.outcome is EndOutcome.ENDED
    ended = await waiting
    assert (ended.exit_code, ended.stdout) == (0, "n1 was draining already; nothing is running on it\n")


@pytest.mark.parametrize("command", ["drain", "resume"])
async def test_a_node_nobody_knows_is_said_to_be_none(server: RedisProcess, store: Store, command: str) -> None:
    await join(store, entry("n1"))
    refused = await lingua(server, command, "n2")
    assert refused.exit_code == SETTINGS
    assert "there is no node n2; lingua nodes lists them" in refused.output
