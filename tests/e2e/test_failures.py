"""Every failed sentence leaves a trace that all instances show, and that outlives Redis, the job and a restart."""

import base64
from signal import SIGCONT, SIGSTOP
from typing import Any

import pytest

from lingua_scheduler.setting_sections.jobs import JobSettings
from tests.support.fleet import ledger
from tests.support.peers import FakeNode, Field, field, result_of
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until


async def failures_of(peers: Field, query: str = "") -> list[dict[str, Any]]:
    status, told = await peers.get(f"/v1/failures{query}")
    assert status == 200, told
    return list(told["failures"])


async def test_a_failure_is_the_same_on_all_instances_and_after_a_restart(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (here, store):
        async with scheduler_on(server.url) as (there, _), field(here.port) as peers, field(there.port) as others:
            client = await peers.client()
            await client.utterance(7)
            assert (await client.outcome())["reason"] == "job_failed"
            (failure,) = await until(lambda: failures_of(peers))
            assert await failures_of(others) == [failure]
            assert (failure["src"], failure["tgt"], failure["utterance_index"]) == ("en", "zh", 7)
            assert failure["code"] == "NO_CAPABLE_NODE"
            assert failure["reason"]
            assert client.session_id.startswith(failure["session_id"].rstrip("…"))
            assert failure["instance_id"] == here.instance
            # It outlives the job, which can be looked up for an hour.
            assert await store.line.call("PTTL", store.keys.failures) > 24 * JobSettings().keep_ms
    async with scheduler_on(server.url) as (later, _), field(later.port) as peers:
        assert await failures_of(peers) == [failure]
        assert await failures_of(peers, "?since_s=3600&pair=en:zh&code=NO_CAPABLE_NODE") == [failure]
        assert await failures_of(peers, "?pair=zh:en") == []
        assert await failures_of(peers, f"?session_id={client.session_id}") == [failure]
        _, picture = await peers.get("/v1/picture")
        assert [job["job_id"] for job in picture["failures"]] == [failure["job_id"]]


@pytest.mark.parametrize("query", ["?since_s=0", "?pair=en", "?limit=0", "?who=me"])
async def test_a_query_that_makes_no_sense_is_refused(server: RedisProcess, query: str) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        status, told = await peers.get(f"/v1/failures{query}")
        assert (status, told["error"]) == (400, "INVALID_MESSAGE")


async def test_what_failed_while_redis_was_away_is_in_the_history_when_it_is_back(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, redis__timeout_ms=300, job__deadline_ms=200) as (scheduler, store),
        field(scheduler.port) as peers,
    ):
        client = await peers.client()
        server.signal(SIGSTOP)
        try:
            await until(lambda: not store.is_ready)
            await client.utterance(0)
            assert (await client.outcome())["reason"] == "job_failed"
        finally:
            server.signal(SIGCONT)
        await until(lambda: store.is_ready)
        (failure,) = await until(lambda: failures_of(peers))
        assert (failure["code"], failure["utterance_index"]) == ("SCHEDULER_DEPENDENCY_DOWN", 0)


async def test_a_job_that_failed_while_redis_stood_still_is_closed_when_it_goes_on(server: RedisProcess) -> None:
    """Redis reads the question for a slot when it goes on: it leases one for a caller that was told of the failure."""
    changes = {"redis__timeout_ms": 300, "job__deadline_ms": 600}
    async with scheduler_on(server.url, **changes) as (scheduler, store), field(scheduler.port) as peers:
        node = await peers.node(max_concurrent_jobs=2)
        client = await peers.client()
        server.signal(SIGSTOP)
        try:
            await client.utterance(0)
            assert (await client.outcome())["reason"] == "job_failed"
        finally:
            server.signal(SIGCONT)
        await until(lambda: store.is_ready)
        (failure,) = await until(lambda: failures_of(peers))

        async def closed() -> bool:
            return [(one.job_id, one.state) for one in await store.jobs.latest()] == [(failure["job_id"], "FAILED")]

        async def is_free() -> bool:
            return await ledger(store, node.node_id) == (0, 2, 0)

        await until(closed)
        await until(is_free)
        assert failure["code"] == "SCHEDULER_DEPENDENCY_DOWN"


async def test_events_curves_and_alarms_are_the_fleets_and_survive_a_restart(server: RedisProcess) -> None:
    changes = {"watch__interval_ms": 200, "watch__watched_interval_ms": 200}

    async def joined(peers: Field) -> list[dict[str, Any]]:
        _, told = await peers.get("/v1/events")
        return [event for event in told["events"] if event["kind"] == "node.joined"]

    async def alarms(peers: Field) -> dict[str, int]:
        _, picture = await peers.get("/v1/picture")
        return {alarm["code"]: alarm["since_ms"] for alarm in picture["alarms"]}

    async with scheduler_on(server.url, **changes) as (here, _):
        async with (
            scheduler_on(server.url, **changes) as (there, _),
            field(here.port) as peers,
            field(there.port) as far,
        ):
            await until(lambda: here.snapshots.latest)
            await until(lambda: there.snapshots.latest)
            raised = await until(lambda: alarms(peers))
            assert "nodes.none" in raised
            node = await far.node()
            (event,) = await until(lambda: joined(peers))
            assert await until(lambda: joined(far)) == [event]
            await node.stop()

            async def is_raised_everywhere() -> bool:
                told = [await alarms(peers), await alarms(far)]
                return all("nodes.none" in one for one in told) and told[0] == told[1]

            await until(is_raised_everywhere)
            raised = await alarms(peers)
    async with scheduler_on(server.url, **changes) as (later, _), field(later.port) as peers:
        await until(lambda: later.snapshots.latest)
        assert await joined(peers) == [event]
        _, told = await peers.get("/v1/history")
        assert any(one["at_ms"] <= event["at_ms"] for one in told["moments"])
        assert (await alarms(peers))["nodes.none"] == raised["nodes.none"]
        _, told = await peers.get("/v1/events")
        known = [
            one for one in told["events"] if one["kind"] == "alarm.raised" and one["values"]["code"] == "nodes.none"
        ]
        # Once at the very start and once when the node left: not again by the one that came later.
        assert len(known) == 2


async def test_a_node_tells_how_it_did_and_can_be_released(server: RedisProcess) -> None:
    async def refuse(node: FakeNode, job: dict[str, Any]) -> None:
        error = {"code": "PROCESSING_ERROR", "message": "what the person said"}
        await node.socket.send(result_of(job, node.node_id, success=False, error=error, text_asr=None))

    async with scheduler_on(server.url, nodes__quarantine_consecutive=1, job__max_retries=0) as (scheduler, _):
        async with field(scheduler.port) as peers:
            node = await peers.node(refuse)
            client = await peers.client()
            await client.utterance(0)
            assert (await client.outcome())["reason"] == "job_failed"
            path = f"/v1/nodes/{node.node_id}"

            async def lately() -> dict[str, Any] | None:
                _, told = await peers.get(path)
                return told["lately"] if told["lately"]["failed"] else None

            told = await until(lately)
            assert (told["done"], told["failed"], told["failed_percent"]) == (0, 1, 100.0)
            (error,) = told["errors"]
            assert (error["reason"], error["job_id"]) == ("PROCESSING_ERROR", node.jobs[0]["job_id"])
            (failure,) = await until(lambda: failures_of(peers, f"?node_id={node.node_id}"))
            assert failure["job_id"] == node.jobs[0]["job_id"]
            assert "said" not in str((told, failure))
            _, about = await peers.get(path)
            assert about["quarantined_for_ms"] > 0
            assert await peers.post(f"{path}/release") == (200, {"node_id": node.node_id, "outcome": "released"})
            _, about = await peers.get(path)
            assert about["quarantined_for_ms"] is None
            assert (await peers.post("/v1/nodes/node-NONE/release"))[0] == 404


async def test_failures_are_found_by_the_tenant_that_a_client_or_a_caller_named(server: RedisProcess) -> None:
    audio = base64.b64encode(bytes(640)).decode()
    call = {"session_id": "c", "src_lang": "en", "tgt_lang": "zh", "audio": audio, "tenant_id": "zoo"}
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        for tenant, index in (("acme", 3), (None, 5)):
            client = await peers.client(tenant_id=tenant)
            await client.utterance(index)
            assert (await client.outcome())["reason"] == "job_failed"
        await peers.post("/v1/dispatch/f2f", call)

        async def all_three() -> bool:
            return len(await failures_of(peers)) == 3

        await until(all_three)
        (of_client,) = await failures_of(peers, "?tenant_id=acme")
        assert (of_client["utterance_index"], of_client["tenant_id"]) == (3, "acme")
        (of_caller,) = await failures_of(peers, "?tenant_id=zoo")
        assert of_caller["code"] == "NO_CAPABLE_NODE"
        assert await failures_of(peers, "?tenant_id=other") == []
