"""Two schedulers on one Redis: what one of them hears, the other one knows at once."""

from typing import Any

import pytest

from lingua_scheduler import app
from lingua_scheduler.protocol.signals import JobsWait
from lingua_scheduler.services import nudging
from tests.support.peers import field, result_of, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until


async def test_a_job_is_cancelled_from_another_instance(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url) as (here, store),
        scheduler_on(server.url) as (there, _),
        field(here.port) as peers,
        field(there.port) as others,
    ):
        node = await peers.node(stay_silent)
        client = await peers.client()
        await client.utterance(0)
        job = (await until(lambda: node.jobs))[0]
        await until(store.signals.listening.is_set)
        status, _ = await others.post(f"/v1/jobs/{job['job_id']}/cancel")
        assert status == 200
        outcome = await client.outcome(within_s=2)  # the job itself had ten seconds more
        assert (outcome["type"], outcome["reason"]) == ("missing_result", "job_failed")
        await until(lambda: node.socket.of_type("job_cancel"))
        _, found = await others.get(f"/v1/jobs/{job['job_id']}")
        assert found["state"] == "CANCELLED"


async def test_a_job_that_waits_is_cancelled_from_another_instance(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "POKE_S", 3_600.0)  # a poked job would find out by itself
    async with (
        scheduler_on(server.url) as (here, store),
        scheduler_on(server.url) as (there, _),
        field(here.port) as peers,
        field(there.port) as others,
    ):
        node = await peers.node(stay_silent, max_concurrent_jobs=1)
        client, waiter = await peers.client(), await peers.client()
        await client.utterance(0)
        await until(lambda: node.jobs)
        await waiter.utterance(0)
        (waiting,) = await until(lambda: store.jobs.latest(state="CREATED"))
        await until(store.signals.listening.is_set)
        assert (await others.post(f"/v1/jobs/{waiting.job_id}/cancel"))[0] == 200
        assert (await waiter.outcome(within_s=2))["reason"] == "job_failed"


async def test_a_slot_freed_at_one_instance_wakes_a_job_that_waits_at_another(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "POKE_S", 3_600.0)  # the net below this must not be what wakes it
    async with (
        scheduler_on(server.url) as (here, store),
        scheduler_on(server.url) as (there, _),
        field(here.port) as peers,
        field(there.port) as others,
    ):
        theirs = await others.node(stay_silent, max_concurrent_jobs=1)
        speaker = await others.client()
        await speaker.utterance(0)
        running = (await until(lambda: theirs.jobs))[0]
        await here._pool_map.refresh()
        listener = await peers.client()
        await listener.utterance(0)

        (waiting,) = await until(lambda: store.jobs.latest(state="CREATED"))
        # It is announced while it waits; only then does the other instance say anything.
        await until(lambda: there._nudger._wanted)
        await theirs.socket.send(result_of(running, theirs.node_id))

        async def was_tried() -> bool:
            found = await store.jobs.find(waiting.job_id)
            return found is not None and found.attempt > 0

        # It gets the slot, and would wait for eight seconds more without a nudge.
        await until(was_tried, within_s=2)


async def test_nothing_is_said_about_slots_while_nobody_waits(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Any] = []
    async with scheduler_on(server.url) as (here, store), field(here.port) as peers:
        monkeypatch.setattr(store.signals, "publish", said.append)
        await peers.node()
        client = await peers.client()
        for index in range(20):
            await client.utterance(index)
            await client.outcome()
        assert said == []
        # Nor when those who waited have stopped saying so.
        monkeypatch.setattr(nudging, "FRESH_S", -1.0)
        here._nudger.others_wait(JobsWait("i-other", ["en:zh:speech"]))
        await client.utterance(20)
        await client.outcome()
        assert said == []


async def test_many_slots_freed_at_once_are_few_nudges(server: RedisProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    async with scheduler_on(server.url) as (here, store), field(here.port) as peers:
        await peers.node(max_concurrent_jobs=50)
        monkeypatch.setattr(store.signals, "publish", said.append)
        here._nudger.others_wait(JobsWait("i-other", ["en:zh:speech"]))
        for _ in range(500):
            here._nudger.unclaimed({"en:zh:speech", "zh:en:speech"})
        # One at once, one when the pause is over, for what was freed meanwhile.
        await until(lambda: len(said) == 2)
        assert {signal.pool for signal in said} == {"en:zh:speech"}
        assert not here._nudger._timers
