"""The same request on several instances: one job, whoever is asked, whoever dies, whoever is frozen."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from lingua_scheduler.domain.jobs.job_ids import JobHandle
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.store.jobs.jobs import JobNote
from lingua_scheduler.store.store import Store
from tests.support.callers import Answer, Caller, caller_of
from tests.support.fleet import ledger
from tests.support.mail import BRISK, who
from tests.support.peers import FakeNode, Field, Frame, answer, field, stay_silent
from tests.support.schedulers import scheduler_on, serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until

CLAIM_MS = 1_500


class Instance(NamedTuple):
    peers: Field
    caller: Caller


class Gate:
    """Nodes answer when it opens."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, node: FakeNode, job: Frame) -> None:
        await self.opened.wait()
        await answer(node, job)


@pytest.fixture
async def three(server: RedisProcess) -> AsyncIterator[list[Instance]]:
    async with AsyncExitStack() as stack:
        instances = []
        for _ in range(3):
            scheduler, _ = await stack.enter_async_context(scheduler_on(server.url))
            peers = await stack.enter_async_context(field(scheduler.port))
            instances.append(Instance(peers, await stack.enter_async_context(caller_of(scheduler.port))))
        yield instances


async def all_pools_seen(instances: list[Instance], nodes: int) -> None:
    async def seen() -> bool:
        pools = [(await one.peers.get("/v1/pools"))[1]["pairs"] for one in instances]
        return all(pairs.get("en:zh", {}).get("speech") == nodes for pairs in pools)

    await until(seen)


def one_job(answers: list[Answer]) -> str:
    assert {found.status for found in answers} == {200}, answers
    (job_id,) = {found.body["job_id"] for found in answers}
    return str(job_id)


async def test_a_hundred_calls_on_three_instances_are_one_job(three: list[Instance]) -> None:
    nodes = [await one.peers.node() for one in three]
    await all_pools_seen(three, 3)
    answers = await asyncio.gather(*(three[number % 3].caller.dispatch(request_id="r") for number in range(100)))
    job_id = one_job(list(answers))
    fetched = [await one.caller.result(job_id, 5_000) for one in three]
    assert [(found.status, found.body["state"]) for found in fetched] == [(200, "DONE")] * 3
    assert [job["job_id"] for node in nodes for job in node.jobs] == [JobHandle.parse(job_id).job_id]


async def test_many_requests_raced_on_three_instances_are_one_job_each(three: list[Instance]) -> None:
    nodes = [await one.peers.node(max_concurrent_jobs=64) for one in three]
    await all_pools_seen(three, 3)
    names = [f"r{number}" for number in range(30)]
    answers = await asyncio.gather(*(one.caller.dispatch(request_id=name) for name in names for one in three))
    jobs = {one_job(list(answers[at : at + 3])) for at in range(0, len(answers), 3)}
    await until(lambda: sum(len(node.jobs) for node in nodes) >= len(names))
    assert len(jobs) == len(names)
    assert sorted(job["job_id"] for node in nodes for job in node.jobs) == sorted(
        JobHandle.parse(job).job_id for job in jobs
    )


async def test_a_repeat_elsewhere_is_answered_with_the_job_and_dispatches_nothing(three: list[Instance]) -> None:
    """The others cannot reach this node, and need not."""
    node = await three[0].peers.node()
    first = await three[0].caller.dispatch(request_id="r")
    repeats = [await one.caller.dispatch(request_id="r") for one in three]
    assert [(found.status, found.body) for found in repeats] == [(200, first.body)] * 3
    await three[0].caller.result(first.body["job_id"], 5_000)
    assert len(node.jobs) == 1


async def test_a_call_killed_between_claim_and_dispatch_is_repeated_after_its_lease(
    tmp_path: Path, server: RedisProcess
) -> None:
    arguments = ("--redis-url", server.url, "--set", f"requests.claim_ms={CLAIM_MS}")
    async with (
        serve_process(tmp_path, *arguments) as serving,
        scheduler_on(server.url) as (scheduler, store),
        field(scheduler.port) as peers,
        caller_of(scheduler.port) as caller,
    ):
        gate = Gate()
        node = await peers.node(gate, max_concurrent_jobs=1)
        blocker = await caller.dispatch()
        async with caller_of(await until(lambda: serving.port, 60)) as doomed:
            lost = asyncio.create_task(doomed.dispatch(request_id="r"))
            key = store.keys.request("", "caller", "r")
            await until(lambda: store.line.call("EXISTS", key))
            assert await store.line.call("HGET", key, "job") is None
            serving.process.kill()
            with pytest.raises(Exception, match=r"(?i)disconnected|reset"):
                await lost

        # Its claim stands, so the repeat has to wait; nothing was dispatched for it.
        early = await caller.dispatch(request_id="r", options={"timeout_ms": 50})
        assert (early.status, early.body["error"]) == (503, "ALL_CANDIDATES_FULL_OR_FAILED")
        gate.opened.set()
        await caller.result(blocker.body["job_id"], 5_000)
        repeats = await asyncio.gather(*(caller.dispatch(request_id="r") for _ in range(10)))
        job_id = one_job(list(repeats))
        assert (await caller.result(job_id, 5_000)).body["state"] == "DONE"
        assert [job["job_id"] for job in node.jobs] == [
            JobHandle.parse(placed).job_id for placed in (blocker.body["job_id"], job_id)
        ]
        assert await ledger(store, node.node_id) == (0, 1, 0)


async def test_an_instance_that_was_frozen_in_line_wakes_up_to_the_winners_job(
    tmp_path: Path, server: RedisProcess
) -> None:
    arguments = ("--redis-url", server.url, "--set", f"requests.claim_ms={CLAIM_MS}")
    async with (
        serve_process(tmp_path, *arguments) as serving,
        scheduler_on(server.url) as (scheduler, store),
        field(scheduler.port) as peers,
        caller_of(scheduler.port) as caller,
        field(await until(lambda: serving.port, 60)) as frozen_peers,
        caller_of(serving.port) as frozen_caller,
    ):
        gates = Gate(), Gate()
        node = await peers.node(gates[0], max_concurrent_jobs=1)
        frozen_node = await frozen_peers.node(gates[1], max_concurrent_jobs=1)
        for taken, where in ((node, caller), (frozen_node, frozen_caller)):
            options = {"preferred_node_id": taken.node_id, "strict": True}
            assert (await where.dispatch(options=options)).status == 200
        await until(lambda: node.jobs and frozen_node.jobs)

        sleeper = asyncio.create_task(frozen_caller.dispatch(request_id="r"))
        await until(lambda: store.line.call("EXISTS", store.keys.request("", "caller", "r")))
        serving.process.send_signal(signal.SIGSTOP)
        gates[0].opened.set()
        winner = await caller.dispatch(request_id="r")
        assert (await caller.result(winner.body["job_id"], 5_000)).body["state"] == "DONE"

        gates[1].opened.set()
        serving.process.send_signal(signal.SIGCONT)
        woken = await sleeper
        assert (woken.status, woken.body) == (200, winner.body)
        assert [job["job_id"] for job in node.jobs[1:]] == [JobHandle.parse(winner.body["job_id"]).job_id]
        assert len(frozen_node.jobs) == 1
        for one in (node, frozen_node):
            await until(partial(free_again, store, one))


async def test_after_its_instance_is_gone_a_call_is_answered_and_a_repeat_begins_anew(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (_, store), AsyncExitStack() as stack:
        scheduler, _ = await stack.enter_async_context(scheduler_on(server.url))
        here = await stack.enter_async_context(field(scheduler.port))
        near = await stack.enter_async_context(caller_of(scheduler.port))
        silent = await here.node(stay_silent, max_concurrent_jobs=1)
        async with AsyncExitStack() as doomed:
            gone, _ = await doomed.enter_async_context(scheduler_on(server.url, server__stop_timeout_ms=0))
            far = await doomed.enter_async_context(caller_of(gone.port))

            async def placed() -> Answer | None:
                found = await far.dispatch(request_id="r")
                return found if found.status == 200 else None

            job_id = (await until(placed)).body["job_id"]
            assert (await near.result(job_id)).body["state"] == "DISPATCHED"
            assert (await near.dispatch(request_id="r")).body["job_id"] == job_id

        async def is_lost() -> bool:
            found = await near.result(job_id)
            return (found.status, found.body["error"]) == (410, "RESULT_LOST")

        await until(is_lost)
        await here.node(answer)
        again = (await near.dispatch(request_id="r")).body["job_id"]
        assert again != job_id
        assert (await near.result(again, 5_000)).body["state"] == "DONE"
        # Its node loses the job too: nobody goes on with it, and it does not wait for ever.
        await silent.socket.close()
        await until(partial(is_in, store, job_id, JobState.RETRYING))
        scheduler.sweeper._look_again_at = 0.0
        await scheduler.sweeper.close_forsaken([gone.instance])
        assert await is_in(store, job_id, JobState.FAILED)


async def test_jobs_that_wait_at_a_dead_instance_end_and_those_of_a_living_one_do_not(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **BRISK) as (scheduler, store), caller_of(scheduler.port) as caller:
        await store.instances.join(who("i-dead"), 800)
        for job_id, owner in (("job-0-1", "i-dead"), ("job-0-2", scheduler.instance)):
            await store.jobs.note(0, JobNote(job_id, ("en:zh:speech",), "caller", 0, owner), 60_000)
        await until(partial(is_in, store, "job-0-1", JobState.FAILED))
        assert await is_in(store, "job-0-2", JobState.CREATED)
        assert (await caller.result("job-0-1.0123456789ab")).status == 410


async def is_in(store: Store, job_id: str, state: JobState) -> bool:
    record = await store.jobs.find(job_id)
    return record is not None and record.state == state


async def free_again(store: Store, node: FakeNode) -> bool:
    return await ledger(store, node.node_id) == (0, 1, 0)
