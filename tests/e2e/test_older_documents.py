"""The examples of the older documents, word for word: what was written after them still works."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.callers import Caller, caller_of
from tests.support.http_nodes import HttpNode, said_of
from tests.support.peers import Field, Frame, answer, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

REGISTER = {
    "node_id": "node-123",
    "health": "ready",
    "semantic_langs": ["en", "zh"],
    "nmt_pairs": [["en", "zh"], ["zh", "en"]],
    "tts_langs": ["en", "zh"],
    "max_concurrent_jobs": 2,
}
HEARTBEAT = REGISTER | {"current_load": {"gpu": 0.52, "cpu": 0.33}}
DISPATCH = {
    "session_id": "room-888",
    "src_lang": "en",
    "tgt_lang": "zh",
    "audio_ref": "blob://...",
    "options": {"require_tts": False, "preferred_node_id": None},
}


async def registered(peers: Field, **more: Any) -> HttpNode:
    status, body = await peers.post("/v1/node/register", REGISTER | more)
    assert (status, body["ok"], body["node_id"]) == (200, True, "node-123")
    return HttpNode(peers, "node-123")


async def asked(caller: Caller) -> Frame:
    placed = await caller.post("/v1/dispatch/f2f", DISPATCH)
    assert placed.status == 200, placed.body
    assert set(placed.body) == {"job_id", "node_id", "attempt_id", "languages_used"}
    return placed.body


async def shown(peers: Field, node_id: str = "node-123") -> Frame:
    status, body = await peers.get(f"/v1/nodes/{node_id}")
    assert status == 200
    return body  # type: ignore[no-any-return]


async def test_a_node_registers_and_beats_as_the_documents_show(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        await registered(peers)
        found = await shown(peers)
        assert found["languages"]["translations"] == ["en:zh", "zh:en"]
        status, body = await peers.post("/v1/node/heartbeat", HEARTBEAT)
        assert (status, body["ok"], body["state"]) == (200, True, "ready")
        assert {"en:zh", "zh:en"} <= set((await shown(peers))["pairs"])

        await until(lambda: is_load_shown(peers), what="the load is shown")


async def is_load_shown(peers: Field) -> bool:
    looks = (await peers.get("/v1/picture"))[1]["nodes"]
    return [(look["cpu"], look["gpu"]) for look in looks] == [(33, 52)]


async def test_a_job_is_asked_for_accepted_and_done_as_the_documents_show(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url) as (scheduler, _),
        field(scheduler.port) as peers,
        caller_of(scheduler.port) as caller,
    ):
        node = await registered(peers)
        placed = await asked(caller)
        assert (placed["node_id"], placed["attempt_id"]) == ("node-123", 1)
        job = await node.fetch()
        assert job["audio_ref"] == "blob://..."
        assert await node.report("ack", job) == (200, {"ok": True})
        assert await node.report("done", job, status="ok") == (200, {"ok": True})
        assert (await caller.result(placed["job_id"], 5_000)).body["state"] in ("DONE", "NO_TEXT")


@pytest.mark.parametrize(
    ("verb", "said", "code"),
    [
        ("done", {"status": "error"}, "PROCESSING_ERROR"),
        ("done", {"status": "timeout", "reason": "NMT_TIMEOUT"}, "NMT_TIMEOUT"),
        ("fail", {"status": "error", "reason": "MODEL_LOAD_FAILED"}, "MODEL_LOAD_FAILED"),
        ("fail", {"status": "error", "reason": "the model would not load"}, "PROCESSING_ERROR"),
    ],
)
async def test_a_failure_is_a_failure_however_it_is_told_and_is_retried(
    server: RedisProcess, verb: str, said: Frame, code: str
) -> None:
    async with (
        scheduler_on(server.url) as (scheduler, _),
        field(scheduler.port) as peers,
        caller_of(scheduler.port) as caller,
    ):
        node = await registered(peers)
        placed = await asked(caller)
        job = await node.fetch()
        assert await node.report("ack", job) == (200, {"ok": True})
        other = await peers.node(answer)
        assert await node.report(verb, job, **said) == (200, {"ok": True})
        assert (await caller.result(placed["job_id"], 10_000)).body["state"] == "DONE"
        assert [again["attempt_id"] for again in other.jobs] == [2]
        _, told = await peers.get(f"/v1/jobs/{job['job_id']}")
        assert code in str(told["history"])


async def test_a_reason_that_ends_a_job_for_good_does(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url) as (scheduler, _),
        field(scheduler.port) as peers,
        caller_of(scheduler.port) as caller,
    ):
        node = await registered(peers)
        placed = await asked(caller)
        job = await node.fetch()
        assert (await node.report("fail", job, status="error", reason="UNSUPPORTED_FEATURE"))[0] == 200
        body = (await caller.result(placed["job_id"], 10_000)).body
        assert (body["state"], body["error"]["code"]) == ("FAILED", "UNSUPPORTED_FEATURE")


async def test_registering_again_without_a_boot_id_leaves_running_work_alone(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url) as (scheduler, _),
        field(scheduler.port) as peers,
        caller_of(scheduler.port) as caller,
    ):
        node = await registered(peers)
        running = await asked(caller)
        job = await node.fetch()
        assert await node.report("ack", job) == (200, {"ok": True})
        waiting = await asked(caller)
        again = await registered(peers)
        assert (await shown(peers))["held"] == 2
        assert (await again.report("done", job, **said_of(job)))[0] == 200
        assert (await caller.result(running["job_id"], 5_000)).body["state"] == "DONE"
        next_job = await again.fetch()
        assert next_job["attempt_id"] == 1
        await again.do(next_job)
        assert (await caller.result(waiting["job_id"], 5_000)).body["state"] == "DONE"


async def test_nobody_else_takes_the_id_of_a_node_without_a_boot_id(server: RedisProcess) -> None:
    """Not even by guessing what stands for the boot id it did not give."""
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        await registered(peers)
        for boot_id in ("boot-2", "address:127.0.0.1"):
            status, _body = await peers.post("/v1/node/register", REGISTER | {"boot_id": boot_id})
            assert status in (400, 409)


async def test_a_timeout_of_0_means_do_not_wait(server: RedisProcess) -> None:
    hurried = DISPATCH | {"options": {"timeout_ms": 0}}
    async with (
        scheduler_on(server.url) as (scheduler, _),
        field(scheduler.port) as peers,
        caller_of(scheduler.port) as caller,
    ):
        await registered(peers, max_concurrent_jobs=1)
        # A slot that is free now is given.
        assert (await caller.post("/v1/dispatch/f2f", hurried)).status == 200
        refused = await caller.post("/v1/dispatch/f2f", hurried)
        assert (refused.status, refused.body["error"]) == (503, "ALL_CANDIDATES_FULL_OR_FAILED")
        assert not len(scheduler._waiting)


async def test_a_configuration_in_the_working_directory_is_read_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[server]\nport = 5999\n[scheduler.phase2]\nowner_ttl_seconds = 45\n")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lingua_scheduler", "serve", "--print-config", "--json"),
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("LINGUA_")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert json.loads(out)["server.port"]["value"] == 5999
    first, second = err.decode().splitlines()
    assert f"settings are read from {tmp_path / 'config.toml'}" in first
    assert "scheduler.phase2.owner_ttl_seconds" in second
    assert "has no effect any more" in second
