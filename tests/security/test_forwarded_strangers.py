"""Calls about a node or a job of another instance: what cannot be the node's is not sent there, and a flood of the rest
takes no more of the owner than a flood of its own requests."""

import asyncio
from time import monotonic
from typing import Any

import pytest

from lingua_scheduler.console.forwarded import LETTERS_S, Forwarder
from lingua_scheduler.domain.jobs.job_ids import JobHandle
from lingua_scheduler.gateway.fair_queue import BURST_S
from lingua_scheduler.protocol.bus import ForwardedAnswer, ForwardedRequest
from lingua_scheduler.services.cluster.forwarding import Forwarding
from tests.support.http_nodes import http_node
from tests.support.peers import field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess

DONE = {"job_id": "job-0-1a2b3c4d-1", "attempt_id": 1, "status": "ok", "tts_audio": "A" * 400_000}
CALL = {"session_id": "s", "src_lang": "zh", "tgt_lang": "en", "audio": "AAAA" * 100}
GUESSERS, UTTERANCES, PERCENT = 20, 20, 1


async def test_only_calls_that_may_be_of_the_node_are_forwarded(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    forwarded: list[str] = []
    ask = Forwarding.ask

    async def counted(self: Forwarding, request: object, *more: object) -> object:
        forwarded.append(str(request))
        return await ask(self, request, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Forwarding, "ask", counted)
    async with scheduler_on(server.url) as (first, _), scheduler_on(server.url) as (second, _):
        async with field(first.port) as here, field(second.port) as there:
            on_socket = await here.node()
            by_http = await http_node(here, node_id="node-h", boot_id="b1")
            for node_id, boot_id in ((on_socket.node_id, None), (on_socket.node_id, "b1"), (by_http.node_id, "b2")):
                status, body = await there.post("/v1/job/done", DONE | {"node_id": node_id, "boot_id": boot_id})
                assert (status, body["error"]) == (409, "NODE_ID_CONFLICT")
            assert forwarded == []
            # The node itself is heard: the job is not one of its own.
            status, body = await there.post("/v1/job/done", DONE | {"node_id": by_http.node_id, "boot_id": "b1"})
            assert (status, len(forwarded)) == (409, 1)
            assert body["error"] != "NODE_ID_CONFLICT"


async def test_a_flood_through_another_instance_has_the_share_that_requests_have_at_the_owner(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong secrets for the result of a job: only its owner knows that they are wrong."""
    answered: list[str] = []
    answer = Forwarder.answer

    async def counted(self: Forwarder, request: ForwardedRequest, *more: Any) -> ForwardedAnswer:
        answer_of_owner = await answer(self, request, *more)
        answered.append(request.operation)
        return answer_of_owner

    monkeypatch.setattr(Forwarder, "answer", counted)
    # So little that a busy machine leaves more to a flood that is not held back.
    share = {"server__max_shared_loop_percent": PERCENT}
    free = {"server__max_shared_loop_percent": 100, "server__max_connection_cpu_percent": 100}
    async with (
        scheduler_on(server.url, **share) as (owner, _),
        scheduler_on(server.url, **free) as (other, _),
        field(owner.port) as here,
        field(other.port) as there,
    ):
        await here.node()
        client = await here.client()
        _, job = await here.post("/v1/dispatch/f2f", CALL)
        wrong = f"/v1/jobs/{JobHandle.parse(job['job_id']).job_id}.{'0' * 24}/result"

        async def guess() -> None:
            while True:
                assert (await there.get(wrong))[0] in (404, 503)

        began_s = monotonic()
        guessing = [asyncio.create_task(guess()) for _ in range(GUESSERS)]
        try:
            for index in range(UTTERANCES):
                await client.utterance(index)
                assert (await client.outcome(within_s=30))["type"] == "translation_result"
                await asyncio.sleep(0.1)
            took_s, count = monotonic() - began_s, len(answered)
        finally:
            for task in guessing:
                task.cancel()
            await asyncio.gather(*guessing, return_exceptions=True)
    print(f"{count} guesses reached the owner in {took_s:.1f} s")
    assert count <= (BURST_S + PERCENT / 100 * took_s) / LETTERS_S + GUESSERS
