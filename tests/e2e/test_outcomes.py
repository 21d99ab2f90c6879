"""Truth about outcomes: what was not said, what was not answered, what was cancelled and what nobody serves differ."""

from collections.abc import AsyncIterator

import pytest

from lingua_sdk.client import Client, Failed
from tests.support.callers import caller_of
from tests.support.peers import Field, field, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET
from tests.support.waiting import until

IMPATIENT = {"job__timeout_base_ms": 200, "job__timeout_factor": 0.0, "job__max_retries": 0}


@pytest.fixture
async def peers(server: RedisProcess) -> AsyncIterator[Field]:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as found:
        yield found


async def test_a_timeout_is_not_silence(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **IMPATIENT) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node(stay_silent)
        client = await peers.client()
        await client.utterance(0)
        outcome = await client.outcome()
        assert (outcome["type"], outcome["reason"]) == ("missing_result", "job_failed")
        assert (outcome["code"], outcome["detail"]) == ("JOB_TIMEOUT", "no node answered in time")
        event = client.socket.of_type("ui_event")[-1]
        assert (event["status"], event["error_code"]) == ("error", "JOB_TIMEOUT")
        assert client.socket.of_type("error") == []


async def test_the_sdk_tells_a_timeout_from_silence(server: RedisProcess) -> None:
    async with scheduler_on(server.url, **IMPATIENT) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node(stay_silent)
        async with Client(f"ws://127.0.0.1:{scheduler.port}", "en", "zh") as client:
            await client.utterance(PACKET * 50, audio_format="opus")
            await client.finish()
            assert [result async for result in client.results()] == [
                Failed(0, "JOB_TIMEOUT", "no node answered in time")
            ]


async def test_a_cancelled_job_says_so_on_every_way(peers: Field) -> None:
    node = await peers.node(stay_silent)
    async with (
        Client(f"ws://127.0.0.1:{peers.port}", "en", "zh") as client,
        caller_of(peers.port) as caller,
    ):
        await client.utterance(PACKET * 50, audio_format="opus")
        await client.finish()
        handle = (await caller.dispatch()).body["job_id"]
        await until(lambda: len(node.jobs) == 2)
        for job in node.jobs:
            assert (await peers.post(f"/v1/jobs/{job['job_id']}/cancel"))[0] == 200
        (result,) = [result async for result in client.results()]
        assert isinstance(result, Failed)
        assert (result.code, result.is_cancelled) == ("JOB_CANCELLED", True)
        fetched = (await caller.result(handle, 5_000)).body
        assert fetched["state"] == "CANCELLED"
        assert fetched["error"]["code"] == "JOB_CANCELLED"
        assert "cancelled" in fetched["error"]["detail"]


async def test_a_session_hears_at_once_that_nobody_serves_its_pair(peers: Field) -> None:
    await peers.node(languages=("en", "zh"))
    client = await peers.client(src_lang="ko", tgt_lang="en")
    step = "start one with: lingua node --languages ko,en"
    assert client.ack["unserved"] == f"no node understands Korean or repairs Korean text; {step}"
    served = await peers.client(src_lang="en", tgt_lang="zh")
    assert "unserved" not in served.ack


async def test_what_was_unserved_is_served_as_soon_as_a_node_is_there(peers: Field) -> None:
    async with Client(f"ws://127.0.0.1:{peers.port}", "en", "zh") as client:
        assert client.unserved
    await peers.node()
    async with Client(f"ws://127.0.0.1:{peers.port}", "en", "zh") as client:
        assert client.unserved == ""
