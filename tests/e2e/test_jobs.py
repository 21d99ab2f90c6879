"""When something was not translated, somebody can say why; and what nobody wants any more can be cancelled."""

from typing import Any

import pytest

from lingua_scheduler.protocol.signals import CancelJob
from lingua_scheduler.services.dispatch import recording
from lingua_scheduler.store.cluster.signals import Signals
from tests.support.peers import FakeClient, FakeNode, Field, Frame, answer, field, heartbeat, result_of, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until


async def job_of(node: FakeNode) -> Frame:
    job: Frame = await until(lambda: node.jobs and node.jobs[-1])
    return job


async def looked_up(peers: Field, job_id: str, path: str = "") -> dict[str, Any]:
    status, found = await peers.get(f"/v1/jobs/{job_id}{path}")
    assert status == 200, found
    return dict(found)


async def held(peers: Field) -> int:
    _, found = await peers.get("/v1/status")
    return int(found["slots"]["taken"])


async def waiting_job(peers: Field) -> str:
    """The one job that waits for its first node."""

    async def look() -> list[dict[str, Any]]:
        _, found = await peers.get("/v1/jobs?state=CREATED")
        return list(found["jobs"])

    (job,) = await until(look)
    return str(job["job_id"])


async def assert_cancelled_for(client: FakeClient, job_id: str) -> None:
    while "hint" not in (event := await client.socket.next("ui_event")):
        pass  # the steps before
    assert (event["job_id"], event["status"], event["hint"]) == (job_id, "ok", "cancelled")
    assert event["event"] != "ERROR"
    assert "error_code" not in event
    outcome = await client.outcome()
    assert (outcome["type"], outcome["reason"]) == ("missing_result", "job_failed")


# Looking up and explaining


async def test_a_job_that_runs_on_its_only_node_is_not_said_to_find_none(peers: Field) -> None:
    node = await peers.node(stay_silent, max_concurrent_jobs=1)
    client = await peers.client()
    await client.utterance(0)
    job_id = (await until(lambda: node.jobs))[0]["job_id"]
    explained = await looked_up(peers, job_id, "/explain")
    assert explained["headline"] == f"it is in progress: attempt 1 on {node.node_id}"
    assert explained["now"]["headline"] == f"{node.node_id} has the job; no other node serves en→zh"
    assert explained["now"]["candidates"] == [
        {"node_id": node.node_id, "verdict": "has_it", "detail": "it has this job"}
    ]
    await peers.node()

    async def sees_the_other() -> bool:
        told = (await looked_up(peers, job_id, "/explain"))["now"]["headline"]
        return bool(told == f"{node.node_id} has the job; 1 of 1 other nodes for en→zh are free")

    await until(sees_the_other)


async def test_a_job_that_found_nobody_can_be_looked_up_and_names_what_is_missing(peers: Field) -> None:
    await peers.node()
    client = await peers.client(tgt_lang="fr")
    await client.utterance(0, tgt_lang="fr")
    event = await client.failure()
    assert event["error_code"] == "NO_CAPABLE_NODE"
    job = await looked_up(peers, event["job_id"])
    assert (job["state"], job["reason"], job["attempt"]) == ("FAILED", "NO_CAPABLE_NODE", 0)
    assert (job["session_id"], job["utterance_index"]) == (f"{client.session_id[:10]}…", 0)
    assert (job["src_lang"], job["tgt_lang"]) == ("en", "fr")
    assert "speaks French" in job["detail"]
    explained = await looked_up(peers, event["job_id"], "/explain")
    assert explained["headline"] == event["hint"] == job["detail"]
    assert explained["now"]["counts"] == {"not_in_pool": 1}
    # The same is kept on the record a moment later, for when the fleet has changed.
    kept = await until(lambda: looked_up_then(peers, event["job_id"]))
    assert kept["headline"] == job["detail"]


async def looked_up_then(peers: Field, job_id: str) -> Any:
    return (await looked_up(peers, job_id, "/explain")).get("then")


async def test_a_job_that_went_through_at_once_says_so(peers: Field) -> None:
    node = await peers.node()
    client = await peers.client()
    await client.utterance(0)
    job_id = (await client.outcome())["job_id"]
    explained = await looked_up(peers, job_id, "/explain")
    assert explained["headline"] == f"it was dispatched without waiting: attempt 1 on {node.node_id}"
    assert (explained["then"], explained["now"]) == (None, None)
    _, latest = await peers.get("/v1/jobs")
    assert [job["job_id"] for job in latest["jobs"]] == [job_id]


async def test_a_retried_job_tells_where_it_was_tried_and_who_else_there_was(peers: Field) -> None:
    async def refuse(node: FakeNode, job: Frame) -> None:
        error = {"code": "NODE_OVERLOADED", "message": ""}
        await node.socket.send(result_of(job, node.node_id, success=False, error=error))

    bad = await peers.node(refuse)
    client = await peers.client()
    await client.utterance(0)
    event = await client.failure(within_s=20)

    async def explained() -> Any:
        found = await looked_up(peers, event["job_id"], "/explain")
        return found if found["then"] else None

    found = await until(explained)
    assert "NODE_OVERLOADED" in found["headline"]
    assert found["then"]["candidates"] == [
        {"node_id": bad.node_id, "verdict": "excluded", "detail": "this job has already been tried there"}
    ]


@pytest.mark.parametrize("path", ["job-0-nobody", "nonsense", "job-0-nobody/explain"])
async def test_a_job_nobody_knows_is_not_found_and_the_next_step_is_told(peers: Field, path: str) -> None:
    status, problem = await peers.get(f"/v1/jobs/{path}")
    assert (status, problem["error"]) == (404, "JOB_NOT_FOUND")
    assert "GET /v1/jobs" in problem["detail"]


async def test_cancelling_a_job_nobody_knows_is_not_found(peers: Field) -> None:
    status, problem = await peers.post("/v1/jobs/job-0-nobody/cancel")
    assert (status, problem["error"]) == (404, "JOB_NOT_FOUND")


@pytest.mark.parametrize("query", ["state=LOST", "limit=0", "limit=501", "limit=x", f"session_id={'x' * 200}"])
async def test_a_query_that_makes_no_sense_is_refused(peers: Field, query: str) -> None:
    status, problem = await peers.get(f"/v1/jobs?{query}")
    assert (status, problem["error"]) == (400, "INVALID_MESSAGE")


async def test_refusals_in_masses_are_only_counted(server: RedisProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "RECORDS_PER_S", 3)
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        client = await peers.client(tgt_lang="fr")
        for index in range(40):
            await client.utterance(index, tgt_lang="fr")
        outcomes = [await client.outcome() for _ in range(40)]
        assert {outcome["type"] for outcome in outcomes} == {"missing_result"}
        events = client.socket.of_type("ui_event")
        written = {event["job_id"] for event in events} - {""}
        assert len(events) == 40
        assert 3 <= len(written) < 20
        assert {record.job_id for record in await store.jobs.latest()} == written


# Cancelling


async def test_a_running_job_is_cancelled(peers: Field) -> None:
    node = await peers.node(stay_silent)
    client = await peers.client()
    await client.utterance(0)
    job = await job_of(node)
    status, cancelled = await peers.post(f"/v1/jobs/{job['job_id']}/cancel")
    assert (status, cancelled) == (
        200,
        {"job_id": job["job_id"], "was": "DISPATCHED", "attempt": 1, "node_id": node.node_id},
    )
    await assert_cancelled_for(client, job["job_id"])
    told = (await until(lambda: node.socket.of_type("job_cancel")))[0]
    assert (told["job_id"], told["reason"]) == (job["job_id"], "cancelled")
    assert await held(peers) == 0
    # The result that comes all the same is stale, and so is a second cancel.
    await node.socket.send(result_of(job, node.node_id))
    status, problem = await peers.post(f"/v1/jobs/{job['job_id']}/cancel")
    assert (status, problem["error"]) == (409, "JOB_ENDED")
    assert "CANCELLED" in problem["detail"]
    node.work = answer
    await client.utterance(1)
    assert (await client.outcome())["utterance_index"] == 1
    assert len(node.jobs) == 2


async def test_the_slot_of_a_node_that_tells_what_it_runs_is_free_when_it_lets_go(peers: Field) -> None:
    node = await peers.node(stay_silent, running_job_ids=[], max_concurrent_jobs=1)
    client = await peers.client()
    await client.utterance(0)
    job = await job_of(node)
    await peers.post(f"/v1/jobs/{job['job_id']}/cancel")
    await assert_cancelled_for(client, job["job_id"])
    await node.socket.send(heartbeat(node.node_id, running_job_ids=[job["job_id"]]))
    assert await held(peers) == 1
    await node.socket.send(result_of(job, node.node_id))
    await until(lambda: is_free(peers))


async def is_free(peers: Field) -> bool:
    return await held(peers) == 0


async def test_a_job_that_waits_for_its_first_node_is_explained_and_cancelled(peers: Field) -> None:
    node = await peers.node(stay_silent, max_concurrent_jobs=1)
    client, other = await peers.client(), await peers.client()
    await client.utterance(0)
    running = await job_of(node)
    await other.utterance(0)
    job_id = await waiting_job(peers)
    explained = await looked_up(peers, job_id, "/explain")
    assert explained["headline"] == "it is waiting for its first node: no node for en→zh can take the job: 1 full"
    assert explained["now"]["candidates"] == [
        {"node_id": node.node_id, "verdict": "full", "detail": "1 of 1 slots taken"}
    ]
    status, _ = await peers.post(f"/v1/jobs/{job_id}/cancel")
    assert status == 200
    await assert_cancelled_for(other, job_id)
    # The slot goes to whoever still wants it.
    await node.socket.send(result_of(running, node.node_id))
    assert (await client.outcome())["type"] == "translation_result"
    assert len(node.jobs) == 1
    assert await held(peers) == 0


async def test_a_job_that_waited_and_then_ran_keeps_its_id_and_says_that_it_waited(peers: Field) -> None:
    node = await peers.node(stay_silent, max_concurrent_jobs=1)
    client, other = await peers.client(), await peers.client()
    await client.utterance(0)
    running = await job_of(node)
    await other.utterance(0)
    job_id = await waiting_job(peers)
    await until(lambda: looked_up_then(peers, job_id))
    node.work = answer
    await node.socket.send(result_of(running, node.node_id))
    assert (await other.outcome())["job_id"] == job_id
    explained = await looked_up(peers, job_id, "/explain")
    assert explained["headline"].startswith(f"it waited, then was sent to {node.node_id}")
    assert explained["then"]["counts"] == {"full": 1}


async def test_a_job_that_waits_for_another_try_is_cancelled(peers: Field) -> None:
    victim = await peers.node(stay_silent)
    client = await peers.client()
    await client.utterance(0)
    job = await job_of(victim)
    await victim.socket.close()

    async def is_retrying() -> bool:
        return bool((await looked_up(peers, job["job_id"]))["state"] == "RETRYING")

    await until(is_retrying)
    assert (await peers.post(f"/v1/jobs/{job['job_id']}/cancel"))[0] == 200
    await assert_cancelled_for(client, job["job_id"])


@pytest.mark.parametrize("habits", [{}, {"running_job_ids": []}, {"advanced_features": ["job_ack"]}])
async def test_a_lost_signal_costs_the_deadline_and_no_second_try(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch, habits: dict[str, Any]
) -> None:
    publish = Signals.publish

    def lose(self: Signals, signal: Any) -> Any:
        return publish(self, CancelJob("i-nobody", "job-0-none") if isinstance(signal, CancelJob) else signal)

    short = {"job__timeout_base_ms": 500, "job__reservation_ttl_ms": 500}
    async with scheduler_on(server.url, **short) as (here, _), field(here.port) as peers:
        async with scheduler_on(server.url) as (there, _), field(there.port) as others:
            monkeypatch.setattr(Signals, "publish", lose)
            nodes = [await peers.node(stay_silent, **habits) for _ in range(2)]
            client = await peers.client()
            await client.utterance(0)
            job = await until(lambda: next((node.jobs[0] for node in nodes if node.jobs), None))
            assert (await others.post(f"/v1/jobs/{job['job_id']}/cancel"))[0] == 200
            await assert_cancelled_for(client, job["job_id"])
            assert sum(len(node.jobs) for node in nodes) == 1


# Given up by others


async def test_a_waiting_job_that_others_gave_up_while_we_were_frozen_is_translated(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        node = await peers.node(stay_silent, max_concurrent_jobs=1)
        client = await peers.client()
        await client.utterance(0)
        first = await job_of(node)
        await client.utterance(1)
        waiting = await waiting_job(peers)
        # As the sweepers of the others do when they take this instance for dead.
        await scheduler.sweeper.close_forsaken([scheduler.instance])
        record = await store.jobs.find(waiting)
        assert record is not None
        assert record.state == "FAILED"
        node.work = answer
        await node.socket.send(result_of(first, node.node_id))
        assert [(await client.outcome())["type"] for _ in range(2)] == ["translation_result"] * 2
        assert (await job_of(node))["job_id"] != waiting
