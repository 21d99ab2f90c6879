"""A node that dies, hangs, refuses or lies costs nobody a sentence."""

from collections.abc import AsyncIterator
from functools import partial

import pytest

from tests.support.fleet import history
from tests.support.peers import FakeNode, Field, Frame, answer, field, heartbeat, registration, result_of, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET
from tests.support.waiting import until


async def first_to_get_it(nodes: list[FakeNode]) -> FakeNode:
    found: FakeNode = await until(lambda: next((node for node in nodes if node.jobs), None))
    return found


async def test_a_node_that_dies_in_a_job_is_replaced(peers: Field) -> None:
    nodes = [await peers.node(stay_silent) for _ in range(2)]
    client = await peers.client()
    await client.utterance(0)
    victim = await first_to_get_it(nodes)
    survivor = next(node for node in nodes if node is not victim)
    survivor.work = answer
    await victim.socket.close()
    result = await client.outcome()
    assert result["type"] == "translation_result"
    assert survivor.jobs[0]["attempt_id"] == 2
    assert survivor.jobs[0]["job_id"] == victim.jobs[0]["job_id"]


@pytest.mark.parametrize("code", ["NODE_OVERLOADED", "MODEL_NOT_AVAILABLE", "PROCESSING_ERROR"])
async def test_a_node_that_cannot_is_not_asked_again_for_the_same_job(peers: Field, code: str) -> None:
    async def refuse(node: FakeNode, job: Frame) -> None:
        error = {"code": code, "message": "no"}
        await node.socket.send(result_of(job, node.node_id, success=False, error=error))

    bad, good = await peers.node(refuse), await peers.node()
    client = await peers.client()
    for index in range(10):
        await client.utterance(index)
        assert (await client.outcome())["type"] == "translation_result"
    assert len(good.jobs) == 10
    assert len({job["job_id"] for job in bad.jobs}) == len(bad.jobs)


async def test_a_job_that_every_node_fails_ends_with_one_clear_outcome(peers: Field) -> None:
    async def refuse(node: FakeNode, job: Frame) -> None:
        await node.socket.send(
            result_of(job, node.node_id, success=False, error={"code": "NODE_OVERLOADED", "message": ""})
        )

    nodes = [await peers.node(refuse) for _ in range(5)]
    client = await peers.client()
    await client.utterance(0)
    event = await client.failure()
    assert event["error_code"] == "ALL_CANDIDATES_FULL_OR_FAILED"
    assert (await client.outcome())["type"] == "missing_result"
    assert sum(len(node.jobs) for node in nodes) == 3  # the first try and two retries


async def test_a_node_that_never_acknowledges_loses_the_job(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, job__reservation_ttl_ms=200) as (scheduler, store),
        field(scheduler.port) as peers,
    ):
        silent = await peers.node(stay_silent, advanced_features=["job_ack"])
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: silent.jobs)
        good = await peers.node()
        assert (await client.outcome())["type"] == "translation_result"
        assert good.jobs[0]["attempt_id"] == 2
        cancels = await until(lambda: silent.socket.of_type("job_cancel"))
        assert cancels[0]["reason"] == "ack_timeout"
        # Its late acknowledgement and result are told to be stale and change nothing.
        about = {key: silent.jobs[0][key] for key in ("job_id", "attempt_id", "session_id", "trace_id")}
        await silent.socket.send({"type": "job_ack", "node_id": silent.node_id} | about)
        grants = await until(lambda: silent.socket.of_type("job_grant"))
        assert grants[0]["verdict"] == "stale"
        views = {view.node_id: (view.held, view.free) for view in await store.node_views.all()}
        assert views == {silent.node_id: (0, 4), good.node_id: (0, 4)}


async def test_a_node_that_acknowledges_and_hangs_loses_the_job(server: RedisProcess) -> None:
    async def hang(node: FakeNode, job: Frame) -> None:
        about = {key: job[key] for key in ("job_id", "attempt_id", "session_id", "trace_id")}
        await node.socket.send({"type": "job_ack", "node_id": node.node_id} | about)

    changes = {"job__timeout_base_ms": 300, "job__timeout_factor": 0.0}
    async with scheduler_on(server.url, **changes) as (scheduler, store), field(scheduler.port) as peers:
        hanging = await peers.node(hang, advanced_features=["job_ack"])
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: hanging.socket.of_type("job_grant"))
        good = await peers.node()
        assert (await client.outcome())["type"] == "translation_result"
        assert good.jobs[0]["attempt_id"] == 2
        cancels = await until(lambda: hanging.socket.of_type("job_cancel"))
        assert cancels[0]["reason"] == "job_timeout"
        steps = await history(store, good.jobs[0]["job_id"])
        assert [(step.state, step.attempt, step.node_id, step.reason) for step in steps] == [
            ("DISPATCHED", 1, hanging.node_id, ""),
            ("ACCEPTED", 1, hanging.node_id, ""),
            ("RETRYING", 1, hanging.node_id, "job_timeout"),
            ("DISPATCHED", 2, good.node_id, ""),
            ("DONE", 2, good.node_id, ""),
        ]
        # What it says at last changes nothing.
        await answer(hanging, hanging.jobs[0])
        await until(lambda: len(hanging.socket.of_type("job_grant")) == 2)
        views = {view.node_id: (view.held, view.free) for view in await store.node_views.all()}
        assert views == {hanging.node_id: (0, 4), good.node_id: (0, 4)}


async def test_a_deadline_and_a_failure_at_once_make_one_retry(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, job__reservation_ttl_ms=200) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        silent = await peers.node(stay_silent, advanced_features=["job_ack"])
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: silent.jobs)
        goods = [await peers.node(stay_silent) for _ in range(3)]
        await until(lambda: silent.socket.of_type("job_cancel"))
        error = {"code": "PROCESSING_ERROR", "message": ""}
        await silent.socket.send(result_of(silent.jobs[0], silent.node_id, success=False, error=error))
        grants = await until(lambda: silent.socket.of_type("job_grant"))
        assert grants[0]["verdict"] == "stale"
        second = await first_to_get_it(goods)
        await answer(second, second.jobs[0])
        assert (await client.outcome())["type"] == "translation_result"
        assert [job["attempt_id"] for node in goods for job in node.jobs] == [2]


async def test_a_node_that_refuses_half_of_its_jobs_costs_nobody_a_sentence(peers: Field) -> None:
    async def refuse_half(node: FakeNode, job: Frame) -> None:
        if len(node.jobs) % 2:
            error = {"code": "NODE_OVERLOADED", "message": "no room"}
            await node.socket.send(result_of(job, node.node_id, success=False, error=error))
        else:
            await answer(node, job)

    half = await peers.node(refuse_half)
    await peers.node()
    client = await peers.client()
    for index in range(30):
        await client.utterance(index)
    outcomes = [await client.outcome() for _ in range(30)]
    assert [outcome["type"] for outcome in outcomes] == ["translation_result"] * 30
    assert [outcome["utterance_index"] for outcome in outcomes] == list(range(30))
    _, status = await peers.get("/v1/status")
    assert status["slots"]["taken"] == 0
    (view,) = [node for node in status["nodes"] if node["node_id"] == half.node_id]
    assert view["quarantined_for_ms"] is None  # to refuse is no fault


async def test_an_acknowledging_node_is_granted_its_job_and_told_when_the_result_is_safe(peers: Field) -> None:
    async def ask_first(node: FakeNode, job: Frame) -> None:
        about = {key: job[key] for key in ("job_id", "attempt_id", "session_id", "trace_id")}
        await node.socket.send({"type": "job_ack", "node_id": node.node_id} | about)
        await node.socket.send({"type": "job_started", "node_id": node.node_id} | about)
        await answer(node, job)

    node = await peers.node(ask_first, advanced_features=["job_ack"])
    client = await peers.client()
    await client.utterance(0)
    assert (await client.outcome())["type"] == "translation_result"
    await until(lambda: node.socket.of_type("result_ack"))
    assert [grant["verdict"] for grant in node.socket.of_type("job_grant")] == ["granted"]


async def test_a_node_that_answers_nothing_is_a_timeout_and_no_error_of_the_session(server: RedisProcess) -> None:
    changes = {"job__timeout_base_ms": 200, "job__timeout_factor": 0.0, "job__max_retries": 0}
    async with scheduler_on(server.url, **changes) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node(stay_silent)
        client = await peers.client()
        await client.utterance(0)
        outcome = await client.outcome()
        assert (outcome["type"], outcome["reason"], outcome["code"]) == ("missing_result", "job_failed", "JOB_TIMEOUT")
        assert client.socket.of_type("error") == []


async def test_a_result_for_another_nodes_job_changes_nothing(peers: Field) -> None:
    worker = await peers.node(stay_silent)
    client = await peers.client()
    await client.utterance(0)
    await until(lambda: worker.jobs)
    liar = await peers.node()
    await liar.socket.send(result_of(worker.jobs[0], worker.node_id, text_translated="lie"))
    await liar.socket.send(heartbeat(liar.node_id))
    await answer(worker, worker.jobs[0])
    assert (await client.outcome())["text_translated"] == f"said {client.known_as(worker.node_id)} 0"


async def test_a_result_sent_twice_is_delivered_once(peers: Field) -> None:
    async def twice(node: FakeNode, job: Frame) -> None:
        await answer(node, job)
        await answer(node, job)

    await peers.node(twice)
    client = await peers.client()
    for index in range(5):
        await client.utterance(index)
    assert [(await client.outcome())["utterance_index"] for _ in range(5)] == [0, 1, 2, 3, 4]
    await client.socket.send({"type": "client_heartbeat", "session_id": client.session_id, "timestamp": 1})
    await client.socket.next("server_heartbeat")
    assert len(client.socket.of_type("translation_result")) == 5


async def test_the_same_process_connecting_again_replaces_its_old_socket(peers: Field) -> None:
    old = await peers.node(stay_silent, node_id="node-TEST0001", boot_id="b1")
    client = await peers.client()
    await client.utterance(0)
    await until(lambda: old.jobs)
    new = await peers.node(node_id="node-TEST0001", boot_id="b1")
    assert await old.socket.closed() == 4001
    # It is the same process, so it still has the job and may answer on its new socket.
    await answer(new, old.jobs[0])
    assert (await client.outcome())["type"] == "translation_result"
    _, status = await peers.get("/v1/status")
    assert status["slots"] == {"total": 4, "taken": 0}


async def test_another_node_with_the_same_id_is_refused_while_the_first_answers(peers: Field) -> None:
    first = await peers.node(node_id="node-TEST0001")
    second = await peers.socket("/ws/node")
    await second.send(registration(node_id="node-TEST0001", boot_id="other"))
    assert (await second.next("error"))["code"] == "NODE_ID_CONFLICT"
    client = await peers.client()
    await client.utterance(0)
    assert (await client.outcome())["type"] == "translation_result"
    assert len(first.jobs) == 1


async def test_a_node_whose_old_socket_leads_nowhere_takes_its_id_back(peers: Field) -> None:
    old = await peers.node(stay_silent, node_id="node-TEST0001")
    client = await peers.client()
    await client.utterance(0)
    await until(lambda: old.jobs)
    other = await peers.node()
    old.socket.fall_silent()
    await peers.node(node_id="node-TEST0001")
    # Its former life's job goes to another node: it would refuse a job id it has seen.
    assert (await client.outcome())["type"] == "translation_result"
    assert len(other.jobs) == 1


async def test_jobs_wait_for_a_slot_and_go_in_order(peers: Field) -> None:
    node = await peers.node(stay_silent, max_concurrent_jobs=1)
    clients = [await peers.client() for _ in range(5)]
    for position, client in enumerate(clients):
        await client.utterance(0)
        if position == 0:
            await until(lambda: node.jobs)
        else:
            await until(partial(_waiting, peers, position))
    for position in range(5):
        await until(partial(_has_jobs, node, position + 1))
        await answer(node, node.jobs[position])
    assert [job["session_id"] for job in node.jobs] == [client.known_as(node.node_id) for client in clients]


def _has_jobs(node: FakeNode, count: int) -> bool:
    return len(node.jobs) >= count


async def _waiting(peers: Field, count: int) -> bool:
    _, status = await peers.get("/v1/status")
    return bool(status["jobs_waiting"] == count)


async def test_languages_withdrawn_in_a_heartbeat_leave_the_pools_at_once(peers: Field) -> None:
    node = await peers.node()
    gone = {"asr_languages": ["zh"], "tts_languages": ["zh"], "semantic_languages": ["zh"]}
    await node.socket.send(heartbeat(node.node_id, language_capabilities=gone))

    async def pairs() -> list[str]:
        _, pools = await peers.get("/v1/pools")
        return list(pools["pairs"])

    await until(lambda: _equals(pairs, ["zh:zh"]))


async def _equals(look, wanted) -> bool:  # type: ignore[no-untyped-def]
    return bool(await look() == wanted)


async def test_a_node_without_languages_joins_with_the_first_heartbeat_that_names_some(peers: Field) -> None:
    socket = await peers.socket("/ws/node")
    await socket.send(registration(language_capabilities=None))
    ack = await socket.next("node_register_ack")
    assert ack["status"] == "registering"
    _, status = await peers.get("/v1/status")
    assert status["nodes"][0]["state"] == "registering"
    languages = {"asr_languages": ["en"], "tts_languages": ["zh"], "semantic_languages": ["en"]}
    await socket.send(heartbeat(ack["node_id"], language_capabilities=languages))
    client = await peers.client()
    await until(lambda: _is_ready(peers))
    await client.utterance(0)
    assert (await socket.next("job_assign"))["src_lang"] == "en"


async def _is_ready(peers: Field) -> bool:
    _, status = await peers.get("/v1/status")
    return bool(status["nodes"][0]["state"] == "ready")


async def test_an_overloaded_node_gets_no_work_until_it_has_recovered(peers: Field) -> None:
    node = await peers.node()
    usage = {"cpu_percent": 20.0, "mem_percent": 99.0, "running_jobs": 0}
    await node.socket.send(heartbeat(node.node_id, resource_usage=usage))
    await until(lambda: _has_state(peers, "degraded"))
    client = await peers.client()
    await client.utterance(0)
    await until(lambda: _waiting(peers, 1))
    await node.socket.send(heartbeat(node.node_id))
    assert (await client.outcome())["type"] == "translation_result"


async def _has_state(peers: Field, state: str) -> bool:
    _, status = await peers.get("/v1/status")
    return bool(status["nodes"][0]["state"] == state)


async def test_a_service_that_is_not_ready_takes_its_languages_out_of_the_pools(peers: Field) -> None:
    node = await peers.node()
    languages = registration()["language_capabilities"]
    broken = [{"type": "asr", "ready": False, "reason": "loading"}]
    await node.socket.send(heartbeat(node.node_id, capability_by_type=broken, language_capabilities=languages))
    await until(lambda: _has_state(peers, "registering"))
    await node.socket.send(heartbeat(node.node_id, language_capabilities=languages))
    await until(lambda: _has_state(peers, "ready"))


async def test_a_job_the_node_does_not_know_of_is_tried_elsewhere(peers: Field) -> None:
    reporting = {"running_job_ids": [], "heartbeat_interval_ms": 1000}
    forgetful = await peers.node(stay_silent, **reporting)
    client = await peers.client()
    await client.utterance(0)
    await until(lambda: forgetful.jobs)
    good = await peers.node()

    async def disowned() -> bool:
        await forgetful.socket.send(heartbeat(forgetful.node_id, running_job_ids=[]))
        return bool(good.jobs)

    await until(disowned)
    assert (await client.outcome())["type"] == "translation_result"


async def test_a_job_the_node_runs_without_a_lease_takes_a_slot(peers: Field) -> None:
    node = await peers.node()
    await node.socket.send(heartbeat(node.node_id, running_job_ids=["job-0-unknown", "rubbish id"]))

    async def taken() -> int:
        _, status = await peers.get("/v1/status")
        return int(status["slots"]["taken"])

    assert await until(taken) == 1
    await node.socket.send(heartbeat(node.node_id, running_job_ids=[]))  # it lets go of it

    async def is_free() -> bool:
        return await taken() == 0

    await until(is_free)


async def test_the_parts_of_a_long_speech_all_reach_one_node(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, sessions__max_duration_ms=200, nodes__believed_slots=0) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        turns = ["turns"]
        nodes = [await peers.node(stay_silent, max_concurrent_jobs=20, advanced_features=turns) for _ in range(5)]
        client = await peers.client()
        packets = PACKET * 15  # 300 ms
        for part in range(6):
            await client.chunk(packets)  # the latest is kept until it is known whether the turn ends with it
            await until(partial(_jobs_in_all, nodes, part))
        await client.chunk(packets, is_final=True)
        await until(partial(_jobs_in_all, nodes, 6))
        (bound,) = [node for node in nodes if node.jobs]
        assert len({job["turn_id"] for job in bound.jobs}) == 1
        marks = [(job.get("is_max_duration_triggered"), job.get("is_manual_cut")) for job in bound.jobs]
        assert marks == [(True, None)] * 5 + [(None, True)]


def _jobs_in_all(nodes: list[FakeNode], count: int) -> bool:
    return sum(len(node.jobs) for node in nodes) == count


async def test_a_turn_whose_node_is_gone_finds_another_one(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, sessions__max_duration_ms=200) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        nodes = [await peers.node() for _ in range(2)]
        client = await peers.client()
        await client.chunk(PACKET * 15)
        await client.chunk(PACKET * 15)
        assert (await client.outcome())["type"] == "translation_result"
        bound = next(node for node in nodes if node.jobs)
        await bound.socket.close()
        await client.chunk(PACKET * 15, is_final=True)
        assert (await client.outcome())["type"] == "translation_result"


# A job that waits for a slot waits longer than a test: what has an outcome did not wait.
ENDLESS = {"dispatch__queue_wait_ms": 3_600_000, "job__deadline_ms": 7_200_000}


@pytest.fixture
async def patient(server: RedisProcess) -> AsyncIterator[Field]:
    async with scheduler_on(server.url, **ENDLESS) as (scheduler, _), field(scheduler.port) as found:
        yield found


async def test_a_job_that_failed_everywhere_ends_at_once_and_blocks_nobody(patient: Field) -> None:
    peers = patient

    async def fail_the_first(node: FakeNode, job: Frame) -> None:
        if len(node.jobs) == 1:
            error = {"code": "NMT_TIMEOUT", "message": ""}
            await node.socket.send(result_of(job, node.node_id, success=False, error=error))
        else:
            await answer(node, job)

    await peers.node(fail_the_first)
    unlucky, lucky = await peers.client(), await peers.client()
    await unlucky.utterance(0)
    assert (await unlucky.outcome())["type"] == "missing_result"
    await lucky.utterance(0)
    assert (await lucky.outcome())["type"] == "translation_result"


async def test_nobody_stands_behind_a_retry_that_may_not_use_the_free_node(patient: Field) -> None:
    peers = patient

    async def fail_the_first(node: FakeNode, job: Frame) -> None:
        if job["session_id"] == unlucky.known_as(node.node_id):
            error = {"code": "NMT_TIMEOUT", "message": ""}
            await node.socket.send(result_of(job, node.node_id, success=False, error=error))
        else:
            await answer(node, job)

    unlucky, busy, lucky = [await peers.client() for _ in range(3)]
    full = await peers.node(stay_silent, max_concurrent_jobs=1)
    await busy.utterance(0)
    await until(lambda: full.jobs)
    free = await peers.node(fail_the_first)
    await unlucky.utterance(0)
    await until(lambda: free.jobs)
    await until(lambda: _waiting(peers, 1))  # for the full one, because the free one has failed it
    await lucky.utterance(0)
    assert (await lucky.outcome())["type"] == "translation_result"
    await answer(full, full.jobs[0])
    await until(lambda: len(full.jobs) == 2)  # the retry gets the first slot it may use
    await answer(full, full.jobs[1])
    assert (await unlucky.outcome())["type"] == "translation_result"


async def test_a_stale_result_is_told_to_be_stale_not_safe(peers: Field) -> None:
    node = await peers.node(stay_silent, advanced_features=["job_ack"])
    client = await peers.client()
    await client.utterance(0)
    await until(lambda: node.jobs)
    await node.socket.send(result_of(node.jobs[0] | {"attempt_id": 7}, node.node_id))
    grants = await until(lambda: node.socket.of_type("job_grant"))
    assert (grants[0]["attempt_id"], grants[0]["verdict"]) == (7, "stale")
    assert node.socket.of_type("result_ack") == []


async def test_a_draining_node_is_named_as_the_reason(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        node = await peers.node()
        await store.nodes.drain(node.node_id)
        client = await peers.client()
        await client.utterance(0)
        event = await client.failure()
        assert event["error_code"] == "NO_CAPABLE_NODE"
        assert event["hint"] == "no node accepts jobs for en→zh: those that serve it are draining"


async def test_a_refused_registration_closes_the_socket_so_that_the_node_comes_back(peers: Field) -> None:
    await peers.node(node_id="node-TEST0001")
    second = await peers.socket("/ws/node")
    await second.send(registration(node_id="node-TEST0001"))
    assert (await second.next("error"))["code"] == "NODE_ID_CONFLICT"
    assert await second.closed() == 1013


async def test_an_utterance_without_audio_is_silence_and_needs_no_node(peers: Field) -> None:
    client = await peers.client()
    await client.utterance(0, b"")
    outcome = await client.outcome()
    assert (outcome["type"], outcome["reason"]) == ("missing_result", "silence_detected")


async def test_an_unknown_audio_format_is_refused(peers: Field) -> None:
    client = await peers.client()
    await client.utterance(0, audio_format="mp7")
    assert "unknown audio_format; send opus or pcm16" in (await client.socket.next("error"))["message"]


async def test_a_node_that_changes_too_often_ends_up_with_what_it_said_last(server: RedisProcess) -> None:
    changes = {"nodes__max_heartbeats_per_s": 5, "nodes__max_changes_per_min": 60}
    async with scheduler_on(server.url, **changes) as (scheduler, store), field(scheduler.port) as peers:
        node = await peers.node()
        for number in range(100):
            codes = ["en", "zh", "fr"] if number % 2 else ["en", "de"]
            lists = dict.fromkeys(("asr_languages", "semantic_languages", "tts_languages"), codes)
            await node.socket.send(heartbeat(node.node_id, language_capabilities=lists))
        await node.socket.send(heartbeat(node.node_id, language_capabilities=lists | {"tts_languages": ["fr"]}))

        async def speaks_french_alone() -> bool:
            (view,) = await store.node_views.all()
            return {pool for pool in view.pools if pool.endswith(":speech")} == {
                "en:fr:speech",
                "zh:fr:speech",
                "fr:fr:speech",
            }

        await until(speaks_french_alone)
        assert not node.socket.socket.closed
