"""Attacks E66 and E67: what came of an HTTP call is for its caller alone, and touches nobody's session."""

import asyncio

from tests.support.callers import caller_of
from tests.support.peers import FakeNode, Frame, field, result_of
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess

SECRET = "the words of one caller"


async def tell(node: FakeNode, job: Frame) -> None:
    """A partial first, then the result."""
    about = {name: job[name] for name in ("job_id", "session_id", "utterance_index", "trace_id")}
    await node.socket.send({"type": "asr_partial", "node_id": node.node_id, "text": SECRET, "is_final": True} | about)
    await node.socket.send(result_of(job, node.node_id, text_asr=SECRET, text_translated=SECRET))


async def test_e66_e67_a_stranger_gets_no_result_by_counting_or_by_the_list_of_jobs(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node(tell)
        async with caller_of(scheduler.port) as caller, caller_of(scheduler.port) as stranger:
            mine = [(await caller.dispatch()).body["job_id"] for _ in range(4)]
            fetched = [await caller.result(job_id, 5_000) for job_id in mine]
            assert [found.body["text_asr"] for found in fetched] == [SECRET] * 4
            listed = [job["job_id"] for job in (await peers.get("/v1/jobs"))[1]["jobs"]]
            assert len(listed) == 4
            head, _, _ = listed[0].rpartition("-")
            counted = [f"{head}-{number:x}" for number in range(32)]
            guesses = [*listed, *counted, *(f"{job_id}.{number:024x}" for job_id in listed for number in range(4))]
            refusals = [await stranger.result(guess) for guess in guesses]
            assert {found.status for found in refusals} == {404}
            assert len({found.body["detail"] for found in refusals}) == 1
            # The control: nothing of this disturbed the caller, and the list leads to no result.
            assert [(await caller.result(job_id)).body for job_id in mine] == [found.body for found in fetched]
            assert not set(mine) & set(listed)


async def test_the_id_of_a_call_still_finds_its_job(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node(tell)
        async with caller_of(scheduler.port) as caller:
            job_id = (await caller.dispatch(request_id="r")).body["job_id"]
            assert (await caller.dispatch(request_id="r")).body["job_id"] == job_id
            assert (await caller.result(job_id, 5_000)).body["job_id"] == job_id
            status, shown = await peers.get(f"/v1/jobs/{job_id}")
            assert (status, shown["state"]) == (200, "DONE")
            assert job_id.startswith(shown["job_id"] + ".")
            assert (await peers.get(f"/v1/jobs/{job_id}/explain"))[0] == 200
            assert (await peers.post(f"/v1/jobs/{job_id}/cancel", {}))[0] == 409


async def test_a_call_writes_nothing_into_the_socket_of_the_session_it_names(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        node = await peers.node(tell)
        victim = await peers.client()
        await victim.utterance(0)
        await victim.outcome()
        before = len(victim.socket.heard)
        async with caller_of(scheduler.port) as caller:
            for _ in range(3):
                job_id = (await caller.dispatch(session_id=victim.session_id)).body["job_id"]
                assert (await caller.result(job_id, 5_000)).body["state"] == "DONE"
        await victim.socket.send({"type": "client_heartbeat", "session_id": victim.session_id, "timestamp": 1})
        await victim.socket.next("server_heartbeat")
        assert [frame["type"] for frame in victim.socket.heard[before:]] == ["server_heartbeat"]
        # Nor does its node take the calls for utterances of the session.
        assert [job["session_id"] for job in node.jobs].count(victim.known_as(node.node_id)) == 1
        assert victim.session_id not in str(node.jobs)


async def test_a_node_never_gets_the_same_session_and_index_from_two_calls(server: RedisProcess) -> None:
    """Existing nodes answer a pair they have had with an error; the scheduler was started anew in between."""
    pairs = []
    for _ in range(2):
        async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
            node = await peers.node(tell)
            async with caller_of(scheduler.port) as caller:
                placed = await asyncio.gather(*(caller.dispatch() for _ in range(4)))
                for found in placed:
                    await caller.result(found.body["job_id"], 5_000)
            pairs += [(job["session_id"], job["utterance_index"]) for job in node.jobs]
    assert len(pairs) == len(set(pairs)) == 8
