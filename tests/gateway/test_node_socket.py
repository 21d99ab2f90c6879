"""A node's frames are put to Redis when they are parsed; their order, and all that follows from it, stays."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.jobs.attempts import ADOPTED, Attempt
from lingua_scheduler.protocol import node_dialogue
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.nodes import pacing
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.jobs import Jobs
from lingua_scheduler.store.scripts import load, read_library
from lingua_scheduler.store.store import Store
from tests.support.bare import Bare, frame, handshake
from tests.support.fleet import history
from tests.support.peers import FakeClient, Frame, field, heartbeat, registration, result_of
from tests.support.schedulers import scheduler_on
from tests.support.scripts import Call, around_scripts
from tests.support.servers import RedisProcess
from tests.support.waiting import until

JOBS = 5
GOODBYE = frame(struct.pack("!H", 1000), opcode=8)


class Node(Bare):
    """Registered; says whatever it likes, in segments of its choice."""

    node_id = ""

    async def join(self, **more: Any) -> None:
        self.writer.write(handshake("/ws/node") + frame(registration(max_concurrent_jobs=JOBS, **more)))
        await self.head()
        self.node_id = (await self.next_of("node_register_ack"))["node_id"]

    async def next_of(self, *types: str) -> Frame:
        async with asyncio.timeout(90):
            while True:
                opcode, payload = await self.next()
                if opcode == 1 and (read := self.read(payload))["type"] in types:
                    return read

    def results(self, jobs: list[Frame]) -> bytes:
        return b"".join(frame(result_of(job, self.node_id)) for job in jobs)

    def about(self, kind: str, job: Frame, **more: Any) -> bytes:
        named = {name: job[name] for name in ("job_id", "attempt_id", "session_id", "trace_id")}
        return frame({"type": kind, "node_id": self.node_id, "timestamp": 1} | named | more)


class Scene:
    def __init__(self, scheduler: Scheduler, store: Store, node: Node, client: FakeClient) -> None:
        self.scheduler = scheduler
        self.store = store
        self.node = node
        self.client = client

    async def jobs(self, count: int = JOBS) -> list[Frame]:
        for index in range(count):
            await self.client.utterance(index)
        return [await self.node.next_of("job_assign") for _ in range(count)]

    async def outcomes(self, count: int = JOBS) -> list[str]:
        return [(await self.client.outcome())["type"] for _ in range(count)]


@asynccontextmanager
async def scene(server: RedisProcess, acknowledges: bool = False, **more: Any) -> AsyncIterator[Scene]:
    """A scheduler, a client, and a node that has not been given anything yet."""
    features = {"advanced_features": ["job_ack"]} if acknowledges else {}
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        node = Node(*await asyncio.open_connection("127.0.0.1", scheduler.port))
        try:
            await node.join(**features, **more)
            yield Scene(scheduler, store, node, await peers.client())
        finally:
            node.writer.transport.abort()


class Calls:
    """How many results Redis had been asked to judge at once, at most."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most = self.now = 0
        ask = Jobs.end

        def counted(*given: Any, **named: Any) -> Any:
            self.now += 1
            self.most = max(self.most, self.now)
            answer = ask(*given, **named)
            answer.add_done_callback(self._answered)
            return answer

        monkeypatch.setattr(Jobs, "end", counted)

    def _answered(self, _answer: Any) -> None:
        self.now -= 1


async def test_results_that_come_together_are_put_to_redis_together(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(server, acknowledges=True) as on:
        jobs, calls = await on.jobs(), Calls(monkeypatch)
        on.node.writer.write(on.node.results(jobs))
        confirmed = [(await on.node.next_of("result_ack"))["job_id"] for _ in jobs]
        assert confirmed == [job["job_id"] for job in jobs]
        assert await on.outcomes() == ["translation_result"] * JOBS
        assert calls.most == JOBS


async def test_a_result_is_taken_though_the_answer_of_redis_got_lost(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[str] = []

    async def losing(name: str, call: Call) -> Any:
        reply = await call()
        if name == "attempt_end" and not lost:
            lost.append(name)
            raise RedisAway("the connection broke")
        return reply

    async with scene(server, acknowledges=True) as on:
        jobs = await on.jobs()
        around_scripts(monkeypatch, losing)
        on.node.writer.write(on.node.results(jobs))
        heard = [await on.node.next_of("job_grant", "result_ack") for _ in jobs]
        assert [one["type"] for one in heard] == ["result_ack"] * JOBS
        assert await on.outcomes() == ["translation_result"] * JOBS
        # Whoever says it once more, and nobody waits for it, is too late as ever.
        on.node.writer.write(on.node.results(jobs[:1]))
        assert (await on.node.next_of("job_grant", "result_ack")).get("verdict") == "stale"


async def test_an_acknowledgement_that_redis_did_not_get_is_put_to_it_again(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[str] = []

    async def losing(name: str, call: Call) -> Any:
        if name == "attempt_advance" and not lost:
            lost.append(name)
            raise RedisAway("the connection broke")
        return await call()

    async with scene(server, acknowledges=True) as on:
        (job,) = await on.jobs(1)
        around_scripts(monkeypatch, losing)
        on.node.writer.write(on.node.about("job_ack", job) + on.node.results([job]))
        heard = [await on.node.next_of("job_grant", "result_ack", "error") for _ in range(2)]
        assert [(one["type"], one.get("verdict")) for one in heard] == [("job_grant", "granted"), ("result_ack", None)]
        assert lost
        assert await on.outcomes(1) == ["translation_result"]


async def test_of_more_than_may_be_under_way_the_rest_waits_in_line(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_dialogue, "MAX_UNDER_WAY", 2)
    async with scene(server) as on:
        jobs, calls = await on.jobs(), Calls(monkeypatch)
        on.node.writer.write(on.node.results(jobs))
        assert await on.outcomes() == ["translation_result"] * JOBS
        assert calls.most == 2


@pytest.mark.parametrize("is_forgetful", [False, True], ids=["as usual", "and Redis has forgotten a script"])
async def test_what_a_node_says_of_one_job_in_one_breath_counts_in_its_order(
    server: RedisProcess, is_forgetful: bool
) -> None:
    async with scene(server, acknowledges=True) as on:
        (job,) = await on.jobs(1)
        if is_forgetful:
            # The acknowledgement has to be put to Redis once more; what follows it must not get there first.
            server.command("SCRIPT", "FLUSH")
            library = read_library()
            del library["attempt_advance"]
            await load(on.store.line.servers()[0], list(library.values()))
        said = (on.node.about("job_ack", job), on.node.about("job_started", job), on.node.results([job]))
        on.node.writer.write(b"".join(said))
        heard = [await on.node.next_of("job_grant", "result_ack") for _ in range(2)]
        assert [(one["type"], one.get("verdict")) for one in heard] == [("job_grant", "granted"), ("result_ack", None)]
        assert await on.outcomes(1) == ["translation_result"]
        states = [step.state for step in await history(on.store, job["job_id"])]
        assert states[-4:] == ["DISPATCHED", "ACCEPTED", "RUNNING", "DONE"]


async def test_acknowledgements_of_different_jobs_are_answered_in_their_order(server: RedisProcess) -> None:
    async with scene(server, acknowledges=True) as on:
        jobs = await on.jobs()
        on.node.writer.write(b"".join(on.node.about("job_ack", job) for job in jobs))
        grants = [await on.node.next_of("job_grant") for _ in jobs]
        assert [(grant["job_id"], grant["verdict"]) for grant in grants] == [(job["job_id"], "granted") for job in jobs]
        on.node.writer.write(on.node.results(jobs))
        assert await on.outcomes() == ["translation_result"] * JOBS


async def test_a_heartbeat_behind_a_result_does_not_disown_it(server: RedisProcess) -> None:
    async with scene(server, running_job_ids=[]) as on:
        jobs = await on.jobs()
        link = on.scheduler._connected.links.find(on.node.node_id)
        assert link is not None
        # They were sent long ago, so a heartbeat that does not name them would be believed.
        link.sent = {job_id: (attempt, float("-inf")) for job_id, (attempt, _) in link.sent.items()}
        assert len(link.sent) == JOBS
        with capture_logs() as logged:
            on.node.writer.write(on.node.results(jobs) + frame(heartbeat(on.node.node_id, running_job_ids=[])))
            assert await on.outcomes() == ["translation_result"] * JOBS
            on.node.writer.write(frame(registration()))
            await on.node.next_of("node_register_ack")
        assert not [event for event in logged if event["event"] == "attempts.disowned"]


async def test_what_had_to_wait_behind_a_heartbeat_is_put_to_redis_together_too(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(server) as on:
        jobs, calls = await on.jobs(), Calls(monkeypatch)
        on.node.writer.write(frame(heartbeat(on.node.node_id)) + on.node.results(jobs))
        assert await on.outcomes() == ["translation_result"] * JOBS
        assert calls.most == JOBS


async def test_the_last_words_of_a_node_that_leaves_count(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(server) as on:
        jobs, may_answer = await on.jobs(), asyncio.Event()
        ask = Jobs.end

        async def slow(*given: Any, **named: Any) -> Any:
            await may_answer.wait()
            return await ask(*given, **named)

        monkeypatch.setattr(Jobs, "end", lambda *given, **named: asyncio.ensure_future(slow(*given, **named)))
        on.node.writer.write(on.node.results(jobs) + GOODBYE)
        await on.node.until_hung_up()
        # Its work goes elsewhere only when it is known what became of it.
        assert on.scheduler._connected.links.find(on.node.node_id) is not None
        may_answer.set()
        assert await on.outcomes() == ["translation_result"] * JOBS
        await until(lambda: on.scheduler._connected.links.find(on.node.node_id) is None)


async def test_results_that_were_under_way_when_redis_hung_up_still_count(server: RedisProcess) -> None:
    async with scene(server) as on:
        jobs = await on.jobs()
        # Taken, not carried out, and then lost with the connection.
        server.command("CLIENT", "PAUSE", "20000", "WRITE")
        before = on.store.line.pending  # type: ignore[attr-defined]
        on.node.writer.write(on.node.results(jobs))
        # All of them in one command.
        await until(lambda: on.store.line.pending > before)  # type: ignore[attr-defined]
        server.command("CLIENT", "KILL", "TYPE", "normal")
        server.command("CLIENT", "UNPAUSE")
        assert await on.outcomes() == ["translation_result"] * JOBS
        on.node.writer.write(frame(heartbeat(on.node.node_id)))
        await until(lambda: on.store.is_ready)
        for index in range(JOBS, 2 * JOBS):
            await on.client.utterance(index)
        on.node.writer.write(on.node.results([await on.node.next_of("job_assign") for _ in range(JOBS)]))
        assert await on.outcomes() == ["translation_result"] * JOBS


@pytest.mark.parametrize("acknowledges", [False, True], ids=["results", "acknowledgements and results"])
async def test_what_there_is_no_room_for_while_redis_hangs_waits_and_counts(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch, acknowledges: bool
) -> None:
    async with scene(server, acknowledges=acknowledges) as on:
        together = on.store.jobs._batches
        monkeypatch.setattr(together, "_max_pending", 2)
        # More jobs at once than may ask for a slot: each gets one.
        jobs = await on.jobs()
        server.command("CLIENT", "PAUSE", "20000", "WRITE")
        try:
            said = [on.node.about("job_ack", job) for job in jobs if acknowledges]
            on.node.writer.write(b"".join(said) + on.node.results(jobs))
            await until(lambda: together.pending == 2)
        finally:
            server.command("CLIENT", "UNPAUSE")
        assert await on.outcomes() == ["translation_result"] * JOBS
        await until(lambda: together.pending == 0)


async def test_a_result_reaches_its_client_though_redis_goes_before_its_adopted_lease_ends(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[str] = []

    async def losing(name: str, call: Call) -> Any:
        if name == "attempt_end":
            ends.append(name)
            if len(ends) == 2:
                raise RedisAway("the connection broke")
        return await call()

    async with scene(server) as on:
        (job,) = await on.jobs(1)
        link = on.scheduler._connected.links.find(on.node.node_id)
        assert link is not None
        link.sent[job["job_id"]] = (Attempt(job["job_id"], ADOPTED, link.node_id, link.shard), float("-inf"))
        around_scripts(monkeypatch, losing)
        on.node.writer.write(on.node.results([job]))
        assert await on.outcomes(1) == ["translation_result"]
        # The slot is freed after the result is told.
        await until(lambda: len(ends) == 3)


async def test_an_acknowledgement_that_redis_never_answered_is_granted_when_it_is_back(
    server: RedisProcess,
) -> None:
    async with scene(server, acknowledges=True) as on:
        (job,) = await on.jobs(1)
        server.command("CLIENT", "PAUSE", "20000", "WRITE")
        before = on.store.line.pending  # type: ignore[attr-defined]
        on.node.writer.write(on.node.about("job_ack", job) + on.node.results([job]))
        await until(lambda: on.store.line.pending > before)  # type: ignore[attr-defined]
        server.command("CLIENT", "KILL", "TYPE", "normal")
        server.command("CLIENT", "UNPAUSE")
        heard = [await on.node.next_of("error", "job_grant", "result_ack") for _ in range(2)]
        assert [(one["type"], one.get("verdict")) for one in heard] == [("job_grant", "granted"), ("result_ack", None)]
        assert await on.outcomes(1) == ["translation_result"]


@pytest.mark.expects_surprise("frame.surprised")
async def test_a_surprise_in_what_follows_is_told_and_closes_the_socket_alone(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def surprise(*_: object) -> None:
        raise LookupError("a fault of ours")

    async with scene(server) as on:
        jobs = await on.jobs(1)
        monkeypatch.setattr(Assignments, "settle", surprise)
        with capture_logs() as logged:
            on.node.writer.write(on.node.results(jobs))
            opcode, _ = await on.node.next()
            assert opcode == 8
            on.node.writer.write(GOODBYE)
            await on.node.until_hung_up()
        assert [event["side"] for event in logged if event["event"] == "frame.surprised"] == ["node"]
        monkeypatch.undo()
        await on.client.socket.send({"type": "client_heartbeat", "session_id": on.client.session_id, "timestamp": 1})
        await on.client.socket.next("server_heartbeat")


async def test_a_result_whose_answer_is_called_off_holds_nothing_up_and_is_not_shown(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def called_off(*_: object, **__: object) -> asyncio.Future[None]:
        answer = asyncio.get_running_loop().create_future()
        answer.cancel()
        return answer

    async with scene(server, acknowledges=True) as on:
        jobs = await on.jobs(1)
        with monkeypatch.context() as patched:
            patched.setattr(Jobs, "end", called_off)
            on.node.writer.write(on.node.results(jobs) + frame(heartbeat(on.node.node_id)))
            await on.node.next_of("node_heartbeat_ack")
        assert "heard" not in caplog.text
        on.node.writer.write(on.node.results(jobs))
        assert await on.outcomes(1) == ["translation_result"]


@pytest.mark.parametrize("kind", ["job_started", "job_ack", "job_result", "repeated", "extended"])
async def test_a_node_that_goes_on_with_reports_that_change_nothing_is_closed(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(pacing, "STRAYS", 4)
    monkeypatch.setattr(pacing, "STRAYS_PER_S", 100)
    monkeypatch.setattr(pacing, "STRAYS_PATIENCE", 10)
    async with scene(server) as on:
        (job,) = await on.jobs(1)
        stale = job | {"job_id": "job-0-1a2b3c4d-99"}
        said = {
            "job_result": on.node.results([stale]),
            "repeated": on.node.about("job_started", job),
            "extended": on.node.about("job_started", job, extend_ms=1000),
        }.get(kind) or on.node.about(kind, stale)

        async def go_on() -> None:
            while True:
                on.node.writer.write(said * 10)
                await asyncio.sleep(0.01)

        going_on = asyncio.create_task(go_on())
        try:
            async with asyncio.timeout(90):
                await on.node.until_hung_up()
        finally:
            going_on.cancel()
            await asyncio.gather(going_on, return_exceptions=True)


async def test_a_few_reports_that_change_nothing_are_forgiven(server: RedisProcess) -> None:
    async with scene(server, acknowledges=True) as on:
        (job,) = await on.jobs(1)
        stale = on.node.about("job_started", job | {"job_id": "job-0-1a2b3c4d-99"})
        on.node.writer.write(stale * pacing.STRAYS + on.node.results([job]))
        await on.node.next_of("result_ack")
        assert await on.outcomes(1) == ["translation_result"]
