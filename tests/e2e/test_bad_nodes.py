"""A node that keeps failing, or lacks a service, stops drawing work; and retries never get out of hand."""

import asyncio
from collections import Counter
from time import monotonic
from typing import Any

import pytest

from tests.support.peers import (
    FakeNode,
    Field,
    Frame,
    acknowledgement,
    answer,
    field,
    heartbeat,
    result_of,
    stay_silent,
)
from tests.support.schedulers import scheduler_on
from tests.support.scripts import Call, around_scripts
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET
from tests.support.waiting import until

PIPER = {"service_id": "piper", "type": "tts", "device": "gpu", "status": "running"}
STORM = 10_000


def failing_with(code: str, details: Any = None) -> Any:
    async def fail(node: FakeNode, job: Frame) -> None:
        error = {"code": code, "message": "no", "details": details}
        await node.socket.send(result_of(job, node.node_id, success=False, error=error))

    return fail


async def shown(peers: Field, node: FakeNode) -> Frame:
    _, body = await peers.get("/v1/nodes")
    found: Frame = next(view for view in body["nodes"] if view["node_id"] == node.node_id)
    return found


async def counted(peers: Field, sample: str) -> float:
    _, page = await peers.get("/metrics")
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(f"{sample} "))


async def outcomes(peers: Field, count: int, **more: Any) -> Counter[str]:
    """Utterances of a session of their own, one after the other."""
    client = await peers.client()
    found: Counter[str] = Counter()
    for index in range(count):
        await client.utterance(index, **more)
        found[(await client.outcome())["type"]] += 1
    return found


# Codes that a node made up


async def test_a_job_that_fails_with_a_code_nobody_knows_is_done_by_another_node(peers: Field) -> None:
    """The code is not repeated anywhere: nodes have been seen to put speech into their errors."""
    lost = await counted(peers, 'lingua_attempts_lost_total{reason="other"}')
    bad = await peers.node(failing_with("what Anna said: buy milk"))
    await outcomes(peers, 1)
    good = await peers.node()
    assert await outcomes(peers, 10) == {"translation_result": 10}
    assert good.jobs
    # It is blamed as for any failure: three of them, and it is left alone.
    assert len(bad.jobs) <= 3
    assert await counted(peers, 'lingua_attempts_lost_total{reason="other"}') == lost + len(bad.jobs)
    told = [await peers.get(path) for path in ("/metrics", "/v1/jobs", f"/v1/nodes/{bad.node_id}")]
    assert "buy milk" not in str(told)


async def test_a_failed_job_says_where_the_node_failed_and_whose_log_to_read(peers: Field) -> None:
    node = await peers.node(failing_with("PROCESSING_ERROR", {"stage": "translate", "exception": "ValueError"}))
    await outcomes(peers, 1)
    _, found = await peers.get("/v1/jobs?state=FAILED")
    job_id = found["jobs"][0]["job_id"]
    _, explained = await peers.get(f"/v1/jobs/{job_id}/explain")
    assert explained["headline"] == (
        "the only attempt failed: PROCESSING_ERROR (ValueError in translate); "
        f"see the log of node {node.node_id} for {job_id}"
    )


# Quarantine


async def test_a_node_that_keeps_failing_is_quarantined_and_shown_so(peers: Field) -> None:
    begun = await counted(peers, 'lingua_node_quarantines_total{outcome="begun"}')
    bad = await peers.node(failing_with("PROCESSING_ERROR"))
    assert (await shown(peers, bad))["quarantined_for_ms"] is None
    assert await outcomes(peers, 3) == {"missing_result": 3}
    assert 50_000 < (await shown(peers, bad))["quarantined_for_ms"] <= 60_000
    assert await counted(peers, 'lingua_node_quarantines_total{outcome="begun"}') == begun + 1
    good = await peers.node()
    assert await outcomes(peers, 10) == {"translation_result": 10}
    assert (len(bad.jobs), len(good.jobs)) == (3, 10)


async def test_a_quarantined_node_that_connects_again_is_still_in_quarantine(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, nodes__quarantine_ms=1_000_000) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        bad = await peers.node(failing_with("PROCESSING_ERROR"), node_id="node-BAD00001")
        assert await outcomes(peers, 3) == {"missing_result": 3}
        await bad.stop()
        good = await peers.node()
        again = await peers.node(failing_with("PROCESSING_ERROR"), node_id="node-BAD00001", boot_id="another")
        # A new process gets its probe sooner, and not at once.
        assert 0 < (await shown(peers, again))["quarantined_for_ms"] <= 250_000
        assert await outcomes(peers, 10) == {"translation_result": 10}
        assert (len(again.jobs), len(good.jobs)) == (0, 10)


async def test_a_node_that_asked_for_it_is_told_of_its_quarantine(peers: Field) -> None:
    about: dict[str, Any] = {"node_id": "node-BAD00001", "advanced_features": ["quarantine"]}
    bad = await peers.node(failing_with("PROCESSING_ERROR"), **about)
    assert await outcomes(peers, 3) == {"missing_result": 3}
    await until(lambda: bad.socket.of_type("node_control"))
    (told,) = bad.socket.of_type("node_control")
    assert told["command"] == "quarantined"
    assert "PROCESSING_ERROR" in told["reason"]
    await bad.stop()
    # Alone it works on: the first job that succeeds ends the quarantine.
    mended = await peers.node(boot_id="another", **about)
    assert await outcomes(peers, 1) == {"translation_result": 1}
    await until(lambda: len(mended.socket.of_type("node_control")) >= 2)
    assert [told["command"] for told in mended.socket.of_type("node_control")] == ["quarantined", "recovered"]


async def test_a_lone_node_works_on_in_quarantine_and_ends_it_with_a_success(peers: Field) -> None:
    ended = await counted(peers, 'lingua_node_quarantines_total{outcome="ended"}')
    node = await peers.node(failing_with("PROCESSING_ERROR"))
    assert await outcomes(peers, 4) == {"missing_result": 4}
    node.work = answer
    assert await outcomes(peers, 1) == {"translation_result": 1}
    assert (await shown(peers, node))["quarantined_for_ms"] is None
    assert await counted(peers, 'lingua_node_quarantines_total{outcome="ended"}') == ended + 1


async def test_a_node_whose_quarantine_ran_out_proves_itself(server: RedisProcess) -> None:
    async with scheduler_on(server.url, nodes__quarantine_ms=300) as (scheduler, _), field(scheduler.port) as peers:
        bad = await peers.node(failing_with("PROCESSING_ERROR"))
        await outcomes(peers, 3)
        await peers.node()
        await until(lambda: _is_on_probation(peers, bad))
        bad.work = answer

        async def is_back() -> bool:
            assert await outcomes(peers, 1) == {"translation_result": 1}
            return (await shown(peers, bad))["quarantined_for_ms"] is None

        await until(is_back)
        assert len(bad.jobs) >= 4


async def _is_on_probation(peers: Field, node: FakeNode) -> bool:
    return bool((await shown(peers, node))["quarantined_for_ms"] == 0)


@pytest.mark.parametrize("code", ["NODE_OVERLOADED", "INVALID_MESSAGE"])
async def test_a_node_is_not_blamed_for_refusing_or_for_what_it_was_given(peers: Field, code: str) -> None:
    node = await peers.node(failing_with(code))
    await outcomes(peers, 6)
    assert (await shown(peers, node))["quarantined_for_ms"] is None


async def test_silence_of_a_node_that_may_say_nothing_is_no_fault(server: RedisProcess) -> None:
    changes = {"job__timeout_base_ms": 100, "job__timeout_factor": 0.0, "sessions__max_duration_ms": 200}
    async with scheduler_on(server.url, **changes) as (scheduler, _), field(scheduler.port) as peers:
        node = await peers.node(stay_silent)
        client = await peers.client()
        await client.chunk(PACKET * 15)
        for _ in range(4):
            await client.chunk(PACKET * 15)  # 300 ms, so what came before is cut while the person speaks on
            outcome = await client.outcome()
            assert (outcome["type"], outcome["code"]) == ("missing_result", "JOB_TIMEOUT")
        assert (await shown(peers, node))["quarantined_for_ms"] is None
        assert await outcomes(peers, 6) == {"missing_result": 6}
        assert (await shown(peers, node))["quarantined_for_ms"] is None


async def test_silence_of_a_node_that_acknowledges_is_a_fault(server: RedisProcess) -> None:
    async def accept_and_say_nothing(node: FakeNode, job: Frame) -> None:
        await node.socket.send(acknowledgement(job, node.node_id))

    changes = {"job__timeout_base_ms": 100, "job__timeout_factor": 0.0}
    async with scheduler_on(server.url, **changes) as (scheduler, _), field(scheduler.port) as peers:
        node = await peers.node(accept_and_say_nothing, advanced_features=["job_ack"])
        assert await outcomes(peers, 3) == {"missing_result": 3}
        assert (await shown(peers, node))["quarantined_for_ms"] > 0


# Services a node lacks


async def test_a_node_without_a_voice_gets_text_to_translate_and_nothing_to_speak(peers: Field) -> None:
    lacking = failing_with("MODEL_NOT_AVAILABLE", {"service_id": "piper", "service_version": "1", "reason": "gone"})
    mute = await peers.node(lacking, installed_services=[PIPER], max_concurrent_jobs=100)
    await mute.socket.send(heartbeat(mute.node_id, installed_services=[PIPER]))
    assert await outcomes(peers, 1) == {"missing_result": 1}
    view = await until(lambda: _unavailable(peers, mute))
    assert list(view) == ["tts"]
    assert 50_000 < view["tts"] <= 60_000
    mute.work = answer
    other = await peers.node(max_concurrent_jobs=1)
    assert await outcomes(peers, 5) == {"translation_result": 5}
    assert (len(mute.jobs), len(other.jobs)) == (1, 5)
    text = {"use_asr": True, "use_nmt": True, "use_tts": False}
    other.work = stay_silent
    await (await peers.client()).utterance(0)
    await until(lambda: len(other.jobs) == 6)
    assert await outcomes(peers, 5, pipeline=text) == {"translation_result": 5}
    assert len(mute.jobs) == 6
    assert (await shown(peers, mute))["quarantined_for_ms"] is None


async def _unavailable(peers: Field, node: FakeNode) -> Any:
    return (await shown(peers, node))["unavailable_for_ms"]


async def test_a_service_nobody_knows_is_taken_as_needed_by_every_job(peers: Field) -> None:
    node = await peers.node()
    await node.socket.send(complaint(node, "stranger"))
    view = await until(lambda: _unavailable(peers, node))
    assert sorted(view) == ["asr", "nmt", "semantic", "tone", "tts"]


def complaint(node: FakeNode, service_id: str) -> Frame:
    details = {"service_id": service_id, "service_version": "1.0", "reason": "not loaded"}
    about = {"type": "node_error", "node_id": node.node_id, "code": "MODEL_NOT_AVAILABLE", "message": "no"}
    return about | {"details": details}


async def test_a_storm_of_complaints_neither_slows_dispatch_nor_grows_memory(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: Counter[str] = Counter()

    async def counting(name: str, call: Call) -> Any:
        called[name] += 1
        return await call()

    around_scripts(monkeypatch, counting)
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        loud, good = await peers.node(stay_silent), await peers.node()
        await loud.socket.send(complaint(loud, "stranger"))
        await until(lambda: _unavailable(peers, loud))
        waiting, slowest_s = 0, 0.0

        async def storm() -> None:
            # Every other one is about the same service, the others are each about another.
            for number in range(STORM):
                await loud.socket.socket.send_json(complaint(loud, f"s{number if number % 2 else 0}"))

        began_at = monotonic()
        raging = asyncio.create_task(storm())
        client = await peers.client()
        jobs = 0
        while not raging.done() or jobs < 50:
            asked_at = monotonic()
            await client.utterance(jobs)
            assert (await client.outcome())["type"] == "translation_result"
            slowest_s = max(slowest_s, monotonic() - asked_at)
            waiting = max(waiting, len(scheduler._complaints))
            jobs += 1
        lasted_s = monotonic() - began_at
        await raging
        # Frames of one node are handled in order, so everything before this beat was heard.
        beats = called["node_beat"]
        await loud.socket.send(heartbeat(loud.node_id))
        await until(lambda: called["node_beat"] > beats)
        await until(lambda: not len(scheduler._complaints))
        print(
            f"\n{STORM} complaints in {lasted_s:.1f} s: {called['service_suspend']} script calls, at most {waiting} "
            f"waiting, {jobs} jobs meanwhile, the slowest {slowest_s * 1000:.0f} ms"
        )
        assert called["service_suspend"] <= 30 * (1 + int((monotonic() - began_at) / 10))
        assert waiting <= 30
        link = scheduler._connected.links.find(loud.node_id)
        assert link is not None
        assert len(link.complaints) <= 30
        assert await store.line.call("ZCARD", store.keys.shard(0).complaints(loud.node_id)) <= 30
        assert await store.line.call("ZCARD", store.keys.shard(0).sick) == 5
        assert len(good.jobs) == jobs
        assert loud.jobs == []


# Retries


async def test_retries_stop_when_their_budget_is_spent(server: RedisProcess) -> None:
    changes = {"job__retry_percent": 1, "job__retry_burst": 1}
    async with scheduler_on(server.url, **changes) as (scheduler, _), field(scheduler.port) as peers:
        nodes = [await peers.node(failing_with("NODE_OVERLOADED")) for _ in range(3)]
        for tries in (2, 3, 4):
            client = await peers.client()
            await client.utterance(0)
            event = await client.failure()
            assert "NODE_OVERLOADED" in event["hint"]
            assert (await client.outcome())["type"] == "missing_result"
            assert sum(len(node.jobs) for node in nodes) == tries


async def test_no_attempt_begins_after_the_deadline(server: RedisProcess) -> None:
    changes = {"job__deadline_ms": 200, "job__timeout_base_ms": 400, "job__timeout_factor": 0.0}
    async with scheduler_on(server.url, **changes) as (scheduler, _), field(scheduler.port) as peers:
        nodes = [await peers.node(stay_silent) for _ in range(2)]
        client = await peers.client()
        await client.utterance(0)
        assert (await client.outcome())["type"] == "missing_result"
        assert sum(len(node.jobs) for node in nodes) == 1


async def test_nobody_waits_in_line_past_the_deadline(server: RedisProcess) -> None:
    # There is no other end to the waiting than the deadline.
    changes = {"job__deadline_ms": 200, "dispatch__queue_wait_ms": 3_600_000}
    async with scheduler_on(server.url, **changes) as (scheduler, _), field(scheduler.port) as peers:
        full = await peers.node(stay_silent, max_concurrent_jobs=1)
        busy, late = await peers.client(), await peers.client()
        await busy.utterance(0)
        await until(lambda: full.jobs)
        await late.utterance(0)
        assert (await late.outcome())["type"] == "missing_result"


async def test_an_error_is_followed_by_a_pause_and_a_refusal_is_not(peers: Field) -> None:
    pauses: dict[str, float] = {}
    for code in ("NODE_OVERLOADED", "NMT_TIMEOUT"):
        failed_at = 0.0

        async def fail_first(node: FakeNode, job: Frame, code: str = code) -> None:
            nonlocal failed_at
            if job["attempt_id"] == 1:
                failed_at = monotonic()
                await failing_with(code)(node, job)
            else:
                pauses[code] = monotonic() - failed_at
                await answer(node, job)

        nodes = [await peers.node(fail_first) for _ in range(2)]
        assert await outcomes(peers, 1) == {"translation_result": 1}
        for node in nodes:
            await node.stop()
    assert pauses["NMT_TIMEOUT"] >= 0.025
    print(f"\nuntil the next attempt: {pauses}")
