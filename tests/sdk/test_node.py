"""The node others build on: serves, guards itself, survives its engine and its scheduler, leaves in peace."""

import asyncio
import contextlib
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lingua_sdk.address import BadAddress
from lingua_sdk.domain.backoff import Backoff
from lingua_sdk.failures import at_stage
from lingua_sdk.node import (
    MAX_KEPT_RESULTS,
    RECONNECTS,
    Abilities,
    JobOutput,
    ModelNotAvailable,
    Node,
    Pipeline,
    Unsupported,
    why_away,
)
from lingua_sdk.protocol.node import JobAssign
from lingua_sdk.trouble import NotTheProtocol, UnwantedStatus
from tests.support.fake_scheduler import Call, FakeScheduler, fake_scheduler
from tests.support.peers import Field, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.toys import Ears, Mending, Mind, Voice
from tests.support.waiting import until

BOTH = ("en", "zh")
ABLE = Abilities(recognises=BOTH, repairs=BOTH, speaks=BOTH, slots=2)

Work = Callable[[JobAssign, Callable[[str], None]], Awaitable[JobOutput]]


async def at_once(job: JobAssign, partial: Callable[[str], None]) -> JobOutput:
    return JobOutput(f"heard {job.utterance_index}", f"said {job.utterance_index}", b"\x01\x02")


class Engine:
    """Does what the test says, and remembers who came."""

    name = "scripted"

    def __init__(self, work: Work = at_once) -> None:
        self.work = work
        self.jobs: list[JobAssign] = []
        self.cancelled: list[str] = []

    async def translate(self, job: JobAssign, partial: Callable[[str], None]) -> JobOutput:
        self.jobs.append(job)
        try:
            return await self.work(job, partial)
        except asyncio.CancelledError:
            self.cancelled.append(job.job_id)
            raise


class Gate:
    """An engine's work that waits until it is let through."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def __call__(self, job: JobAssign, partial: Callable[[str], None]) -> JobOutput:
        await self.open.wait()
        return await at_once(job, partial)


@asynccontextmanager
async def running(
    port: int, engine: Engine | Pipeline, abilities: Abilities | None = ABLE, **more: Any
) -> AsyncIterator[Node]:
    node = Node(f"127.0.0.1:{port}", engine, abilities, **more)
    task = asyncio.create_task(node.run())
    try:
        yield node
    finally:
        await node.stop(finish_within_s=0)
        done, _ = await asyncio.wait((task,), timeout=60)
        if not done:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert done, "the node did not leave"


async def ready(peers: Field, count: int = 1) -> list[dict[str, Any]]:
    _, found = await peers.get("/v1/nodes")
    nodes: list[dict[str, Any]] = [node for node in found["nodes"] if node["state"] == "ready"]
    return nodes if len(nodes) == count else []


@pytest.fixture
async def scheduler() -> AsyncIterator[FakeScheduler]:
    async with fake_scheduler() as found:
        yield found


# With a real scheduler


async def test_it_registers_and_says_what_it_can_do(peers: Field) -> None:
    events: list[tuple[str, str]] = []
    async with running(peers.port, Engine(), on_event=lambda *event: events.append(event)) as node:
        found = (await until(lambda: ready(peers)))[0]
        assert events == [("registered", found["node_id"])]
        assert node.node_id == found["node_id"]
        assert found["max_jobs"] == 2
        assert found["pairs"] == ["en:en", "en:zh", "zh:en", "zh:zh"]
        assert "scripted-asr" in found["services"]


async def test_it_keeps_the_id_it_was_given(peers: Field) -> None:
    async with running(peers.port, Engine(), node_id="node-of-mine"):
        assert (await until(lambda: ready(peers)))[0]["node_id"] == "node-of-mine"


async def test_declared_translations_are_the_only_ones(peers: Field) -> None:
    async with running(peers.port, Engine(), ABLE._replace(translates=[("en", "zh")])):
        assert (await until(lambda: ready(peers)))[0]["pairs"] == ["en:en", "en:zh", "zh:zh"]


async def test_no_translations_are_not_all_translations(peers: Field) -> None:
    async with running(peers.port, Engine(), ABLE._replace(translates=[])):
        assert (await until(lambda: ready(peers)))[0]["pairs"] == ["en:en", "zh:zh"]


async def test_it_serves_a_job(peers: Field) -> None:
    engine = Engine()
    async with running(peers.port, engine) as node:
        await until(lambda: ready(peers))
        client = await peers.client()
        await client.utterance(0, b"\x07\x00" * 100)
        result = await client.outcome()
        assert (result["text_asr"], result["text_translated"]) == ("heard 0", "said 0")
        assert (result["tts_audio"], result["tts_format"]) == ("AQI=", "pcm16")
        assert engine.jobs[0].audio == b"\x07\x00" * 100
        assert (engine.jobs[0].src_lang, engine.jobs[0].tgt_lang) == ("en", "zh")
        assert node.jobs_done == 1


async def test_many_jobs_share_its_slots(peers: Field) -> None:
    now, most = 0, 0

    async def count(job: JobAssign, partial: Callable[[str], None]) -> JobOutput:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return await at_once(job, partial)

    async with running(peers.port, Engine(count)) as node:
        await until(lambda: ready(peers))
        client = await peers.client()
        for index in range(20):
            await client.utterance(index)
        assert [(await client.outcome())["text_asr"] for _ in range(20)] == [f"heard {i}" for i in range(20)]
        assert node.jobs_done == 20
        assert most <= 2


async def test_what_it_understands_so_far_is_shown(peers: Field) -> None:
    shown = asyncio.Event()

    async def show(job: JobAssign, partial: Callable[[str], None]) -> JobOutput:
        partial("hea")
        await shown.wait()
        return await at_once(job, partial)

    async with running(peers.port, Engine(show)):
        await until(lambda: ready(peers))
        client = await peers.client()
        await client.utterance(0)
        partial = await client.socket.next("asr_partial")
        assert (partial["text"], partial["is_final"], partial["utterance_index"]) == ("hea", False, 0)
        shown.set()
        assert (await client.outcome())["type"] == "translation_result"


async def test_an_engine_that_hears_nothing_says_so(peers: Field) -> None:
    async def nothing(job: JobAssign, partial: Callable[[str], None]) -> JobOutput:
        return JobOutput("")

    async with running(peers.port, Engine(nothing)):
        await until(lambda: ready(peers))
        client = await peers.client()
        await client.utterance(0)
        outcome = await client.outcome()
        assert (outcome["type"], outcome["reason"]) == ("missing_result", "no_text")


async def test_a_crashing_engine_fails_one_job_and_not_the_node(server: RedisProcess) -> None:
    async def crash(job: JobAssign, partial: Callable[[str], None]) -> JobOutput:
        if job.utterance_index == 0:
            raise ZeroDivisionError("the words nobody must see")
        return await at_once(job, partial)

    events: list[tuple[str, str]] = []
    async with (
        scheduler_on(server.url, dispatch__queue_wait_ms=20) as (scheduler, _),
        field(scheduler.port) as peers,
        running(peers.port, Engine(crash), on_event=lambda *event: events.append(event)),
    ):
        await until(lambda: ready(peers))
        client = await peers.client()
        await client.utterance(0)
        assert (await client.outcome())["reason"] == "job_failed"
        await client.utterance(1)
        assert (await client.outcome())["text_asr"] == "heard 1"
        assert [event for event, _ in events] == ["registered", "engine failed"]
        assert re.match(r"job-\S+: ZeroDivisionError: .*\n  File ", events[1][1])
        assert "the words nobody must see" not in str(client.socket.heard)


class Speechless(Mind):
    async def translate(self, text: str, source: str, target: str) -> Any:
        if text == "hello":
            return None
        raise LookupError(f"no way to say {text} in {target}")


@pytest.mark.parametrize(
    ("heard", "told"),
    [
        ("hello", "translate: BrokenContract: translate() must return str, got None"),
        ("the safe is open", "translate: LookupError: no way to say … in …"),
    ],
)
async def test_a_failing_engine_is_told_to_its_owner_with_job_stage_and_message_and_without_speech(
    server: RedisProcess, caplog: pytest.LogCaptureFixture, heard: str, told: str
) -> None:
    pipeline = Pipeline(Ears(heard=heard), translator=Speechless(), speaker=Voice())
    async with (
        scheduler_on(server.url, dispatch__queue_wait_ms=20) as (scheduler, _),
        field(scheduler.port) as peers,
        running(peers.port, pipeline, None),
    ):
        await until(lambda: ready(peers))
        client = await peers.client()
        await client.utterance(0)
        assert (await client.outcome())["reason"] == "job_failed"
    # Nobody asked for events, so they are in Python's own log.
    (logged,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert re.match(rf"engine failed: job-\S+ {re.escape(told)}(\n  File |$)", logged.getMessage())
    assert "safe" not in caplog.text


async def test_a_node_registers_when_its_models_are_loaded(server: RedisProcess) -> None:
    loading, events = threading.Event(), list[str]()

    class Slow(Ears):
        def load(self) -> None:
            loading.wait(20)

    pipeline = Pipeline(Slow(), translator=Mind(), speaker=Voice())
    async with (
        scheduler_on(server.url) as (scheduler, _),
        field(scheduler.port) as peers,
        running(peers.port, pipeline, None, on_event=lambda event, _: events.append(event)),
    ):
        await until(lambda: events == ["loading"])
        assert (await peers.get("/v1/nodes"))[1]["nodes"] == []
        loading.set()
        await until(lambda: events == ["loading", "loaded", "registered"])
        await until(lambda: ready(peers))


async def test_a_model_that_cannot_be_loaded_ends_the_node_and_says_why() -> None:
    class Broken(Ears):
        def load(self) -> None:
            raise OSError("weights are cut short")

    events: list[tuple[str, str]] = []
    node = Node("127.0.0.1:1", Pipeline(Broken()), on_event=lambda *event: events.append(event))
    with pytest.raises(OSError, match="cut short"):
        await node.run()
    assert events[-1][0] == "engine failed"
    assert events[-1][1].startswith("load: OSError: weights are cut short\n")


async def test_it_comes_back_when_another_scheduler_takes_the_place_of_the_first(server: RedisProcess) -> None:
    events: list[str] = []
    engine = Engine()
    async with scheduler_on(server.url) as (first, _):
        port = first.port
        node = Node(f"127.0.0.1:{port}", engine, ABLE, on_event=lambda event, _: events.append(event))
        task = asyncio.create_task(node.run())
        await until(lambda: events == ["registered"])
        node_id = node.node_id
    await until(lambda: "away" in events)
    async with scheduler_on(server.url, server__port=port) as (second, _), field(second.port) as peers:
        assert (await until(lambda: ready(peers)))[0]["node_id"] == node_id
        client = await peers.client()
        await client.utterance(0)
        assert (await client.outcome())["text_asr"] == "heard 0"
        await node.stop()
        await task


async def test_when_its_scheduler_is_gone_it_works_at_the_next_address(server: RedisProcess) -> None:
    events: list[str] = []
    async with scheduler_on(server.url) as (second, _), field(second.port) as peers:
        async with scheduler_on(server.url) as (first, _):
            addresses = [f"127.0.0.1:{first.port}", f"127.0.0.1:{second.port}"]
            node = Node(addresses, Engine(), ABLE, on_event=lambda event, _: events.append(event))
            task = asyncio.create_task(node.run())
            await until(lambda: events == ["registered"])
            _, status = await peers.get("/v1/status")
            assert status["nodes_connected"] == 0
        await until(lambda: events[-1] == "registered" and len(events) > 1)
        client = await peers.client()
        await client.utterance(0)
        assert (await client.outcome())["text_asr"] == "heard 0"
        await node.stop()
        await task


async def test_stopping_lets_running_jobs_finish_and_takes_no_more(peers: Field) -> None:
    gate = Gate()
    engine = Engine(gate)
    async with running(peers.port, engine) as node:
        await until(lambda: ready(peers))
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: engine.jobs)
        stopping = asyncio.create_task(node.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        gate.open.set()
        await stopping
        assert (await client.outcome())["text_asr"] == "heard 0"
        await until(lambda: no_nodes(peers))


async def no_nodes(peers: Field) -> bool:
    _, found = await peers.get("/v1/nodes")
    return not found["nodes"]


async def test_stopping_does_not_wait_for_ever(server: RedisProcess) -> None:
    engine = Engine(Gate())
    async with (
        scheduler_on(server.url, dispatch__queue_wait_ms=20) as (scheduler, _),
        field(scheduler.port) as peers,
        running(scheduler.port, engine) as node,
    ):
        await until(lambda: ready(peers))
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: engine.jobs)
        await node.stop(finish_within_s=0.01)
        await until(lambda: engine.cancelled == [engine.jobs[0].job_id])
        # The scheduler has noticed, and found nobody else.
        assert (await client.outcome())["reason"] == "job_failed"


async def test_no_client_can_send_a_node_a_number_it_cannot_read(peers: Field) -> None:
    async with running(peers.port, Engine()):
        await until(lambda: ready(peers))
        client = await peers.client()
        await client.utterance(2**53 - 1)
        assert (await client.outcome())["type"] == "error"
        await client.chunk(b"\x00\x01" * 320, is_final=True)
        assert (await client.outcome())["text_asr"] == "heard 0"


# With a scheduler that does what it is told


async def test_it_introduces_itself_as_existing_schedulers_expect(scheduler: FakeScheduler) -> None:
    async with running(scheduler.port, Engine(), node_id="node-1", heartbeat_interval_s=7):
        said = await (await scheduler.call()).register()
        assert said["node_id"] == "node-1"
        assert said["advanced_features"] == [
            *("job_ack", "binary_audio", "drain"),
            *("lid", "context_text", "semantic", "turns", "quarantine"),
        ]
        assert said["accept_public_jobs"] is True
        assert said["max_concurrent_jobs"] == 2
        assert said["heartbeat_interval_ms"] == 7000
        assert said["boot_id"]
        assert said["language_capabilities"] == {
            "asr_languages": ["en", "zh"],
            "semantic_languages": ["en", "zh"],
            "tts_languages": ["en", "zh"],
            "semantic_core_ready": True,
        }


async def test_it_beats_at_once_and_then_again_and_again(scheduler: FakeScheduler) -> None:
    engine = Engine(Gate())
    async with running(scheduler.port, engine, heartbeat_interval_s=0.005):
        call = await scheduler.call()
        await call.register("node-X")
        beat = await call.next("node_heartbeat")
        assert (beat["node_id"], beat["running_job_ids"]) == ("node-X", [])
        await call.assign(1)
        await call.grant()
        await until(lambda: [beat for beat in call.of("node_heartbeat") if beat["running_job_ids"] == ["job-0-1"]])
        assert call.of("node_heartbeat")[-1]["resource_usage"]["running_jobs"] == 1


async def test_a_job_whose_result_has_left_is_not_running_any_more(scheduler: FakeScheduler) -> None:
    gate = Gate()
    async with running(scheduler.port, Engine(gate), ABLE._replace(slots=100), heartbeat_interval_s=0) as node:
        call = await scheduler.call()
        await call.register()
        for serial in range(100):
            await call.assign(serial)
            await call.grant()
        gate.open.set()
        await until(lambda: len(call.of("job_result")) == 100)
        assert node.jobs_done == 100
        finished = set()
        for frame in call.of("job_result", "node_heartbeat"):
            if frame["type"] == "job_result":
                finished.add(frame["job_id"])
            else:
                # The scheduler would keep a slot for it, and nobody would give that back.
                assert not finished.intersection(frame["running_job_ids"])


async def test_it_asks_before_it_starts(scheduler: FakeScheduler) -> None:
    engine = Engine()
    async with running(scheduler.port, engine):
        call = await scheduler.call()
        await call.register()
        await call.assign(1)
        ack = await call.next("job_ack")
        assert (ack["job_id"], ack["attempt_id"], ack["node_id"]) == ("job-0-1", 1, "node-1")
        assert engine.jobs == []
        await call.send({"type": "job_grant", "job_id": "job-0-1", "attempt_id": 1, "verdict": "granted"})
        assert (await call.next("job_started"))["job_id"] == "job-0-1"
        assert (await call.next("job_result"))["success"] is True


async def test_what_is_not_granted_is_not_started(scheduler: FakeScheduler) -> None:
    engine = Engine()
    async with running(scheduler.port, engine):
        call = await scheduler.call()
        await call.register()
        await call.assign(1)
        await call.grant("stale")
        assert (await finished_job(scheduler, call, 2))["job_id"] == "job-0-2"
        assert [job.job_id for job in engine.jobs] == ["job-0-2"]


async def test_what_is_not_granted_in_time_is_not_started_and_takes_no_slot(scheduler: FakeScheduler) -> None:
    engine = Engine()
    async with running(scheduler.port, engine, ABLE._replace(slots=1), heartbeat_interval_s=0.005):
        call = await scheduler.call()
        await call.register()
        await call.assign(1, start_within_ms=30)
        await call.next("job_ack")
        while (await call.next("node_heartbeat"))["running_job_ids"] == ["job-0-1"]:
            pass
        await finished_job(scheduler, call, 2)
        assert [job.job_id for job in engine.jobs] == ["job-0-2"]


async def test_a_job_cancelled_before_it_began_takes_no_slot(scheduler: FakeScheduler) -> None:
    async with running(scheduler.port, Engine(), ABLE._replace(slots=1)):
        call = await scheduler.call()
        await call.register()
        # In one write, so that both are read before the work begins.
        await asyncio.gather(call.assign(1), call.send({"type": "job_cancel", "job_id": "job-0-1"}))
        assert (await finished_job(scheduler, call, 2))["success"] is True


async def test_its_own_cap_holds_whatever_the_scheduler_believes(scheduler: FakeScheduler) -> None:
    gate = Gate()
    engine = Engine(gate)
    async with running(scheduler.port, engine):
        call = await scheduler.call()
        await call.register()
        for serial in (1, 2):
            await call.assign(serial)
            await call.grant()
        await call.assign(3)
        refusal = await call.next("job_result")
        assert (refusal["job_id"], refusal["success"], refusal["error"]["code"]) == (
            "job-0-3",
            False,
            "NODE_OVERLOADED",
        )
        gate.open.set()
        assert {(await call.next("job_result"))["job_id"] for _ in range(2)} == {"job-0-1", "job-0-2"}
        assert [job.job_id for job in engine.jobs] == ["job-0-1", "job-0-2"]


async def test_a_job_that_is_assigned_twice_runs_once(scheduler: FakeScheduler) -> None:
    gate = Gate()
    engine = Engine(gate)
    async with running(scheduler.port, engine):
        call = await scheduler.call()
        await call.register()
        await call.assign(1)
        await call.grant()
        await call.assign(1)
        await call.assign(2)
        await call.grant()
        await until(lambda: len(engine.jobs) == 2)
        assert [job.job_id for job in engine.jobs] == ["job-0-1", "job-0-2"]
        assert len(call.of("job_ack")) == 2


async def test_a_cancelled_job_stops_and_frees_its_slot(scheduler: FakeScheduler) -> None:
    engine = Engine(Gate())
    async with running(scheduler.port, engine, ABLE._replace(slots=1)):
        call = await scheduler.call()
        await call.register()
        await call.assign(1)
        await call.grant()
        await until(lambda: engine.jobs)
        await call.send({"type": "job_cancel", "job_id": "job-0-1"})
        await until(lambda: engine.cancelled == ["job-0-1"])
        await call.assign(2)
        assert (await call.next("job_ack", "job_result"))["type"] == "job_ack"
        assert call.of("job_result") == []


async def test_it_takes_no_job_while_it_is_stopping(scheduler: FakeScheduler) -> None:
    gate = Gate()
    engine = Engine(gate)
    async with running(scheduler.port, engine) as node:
        call = await scheduler.call()
        await call.register()
        await call.assign(1)
        await call.grant()
        await until(lambda: engine.jobs)
        stopping = asyncio.create_task(node.stop())
        await asyncio.sleep(0)
        await call.assign(2)
        assert (await call.next("job_result"))["error"]["code"] == "NODE_OVERLOADED"
        gate.open.set()
        assert (await call.next("job_result"))["job_id"] == "job-0-1"
        await stopping


# Results and reconnects


async def finished_job(scheduler: FakeScheduler, call: Call, serial: int = 1) -> dict[str, Any]:
    await call.assign(serial)
    await call.grant()
    return await call.next("job_result")


async def test_a_result_is_kept_until_it_is_acknowledged_and_sent_again_after_a_reconnect(
    scheduler: FakeScheduler,
) -> None:
    async with running(scheduler.port, Engine()):
        call = await scheduler.call()
        await call.register()
        result = await finished_job(scheduler, call)
        call.drop()

        call = await scheduler.call()
        assert (await call.register())["node_id"] == "node-1"
        assert await call.next("job_result") == result
        await call.send({"type": "result_ack", "job_id": "job-0-1", "attempt_id": 1})
        await finished_job(scheduler, call, 2)  # it has read the acknowledgement by now
        call.drop()

        call = await scheduler.call()
        await call.register()
        assert (await call.next("job_result"))["job_id"] == "job-0-2"
        assert [frame["job_id"] for frame in call.of("job_result")] == ["job-0-2"]


async def test_a_job_that_ends_while_nobody_listens_is_reported_afterwards(scheduler: FakeScheduler) -> None:
    gate = Gate()
    async with running(scheduler.port, Engine(gate)) as node:
        call = await scheduler.call()
        await call.register()
        await call.assign(1)
        await call.grant()
        await call.next("job_started")
        call.drop()
        call = await scheduler.call()
        said = await call.next("node_register")
        gate.open.set()
        await until(lambda: node.jobs_done == 1)
        await call.send({"type": "node_register_ack", "node_id": "node-1", "message": "", "status": "registering"})
        assert said["running_job_ids"] == ["job-0-1"]
        assert (await call.next("job_result"))["job_id"] == "job-0-1"


async def test_results_nobody_acknowledges_do_not_pile_up(scheduler: FakeScheduler) -> None:
    async with running(scheduler.port, Engine()):
        call = await scheduler.call()
        await call.register()
        for serial in range(MAX_KEPT_RESULTS + 2):
            await finished_job(scheduler, call, serial)
        call.drop()
        call = await scheduler.call()
        await call.register()
        kept = [(await call.next("job_result"))["utterance_index"] for _ in range(MAX_KEPT_RESULTS)]
        assert kept == list(range(2, MAX_KEPT_RESULTS + 2))


async def test_it_is_the_same_node_after_a_reconnect_and_another_after_a_restart(scheduler: FakeScheduler) -> None:
    boots = []
    for _ in range(2):
        async with running(scheduler.port, Engine()):
            call = await scheduler.call()
            boots.append((await call.register())["boot_id"])
            call.drop()
            call = await scheduler.call()
            boots.append((await call.register())["boot_id"])
    first, again, restarted, restarted_again = boots
    assert first == again != restarted == restarted_again


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The longest each pause before a reconnect might be; the pauses themselves take no time."""
    longest: list[float] = []

    class Recorded(Backoff):
        def pause_s(self, failures: int, dice: float = 1.0) -> float:
            longest.append(super().pause_s(failures))
            return super().pause_s(failures, 0.0)

    monkeypatch.setattr("lingua_sdk.node.RECONNECTS", Recorded(*RECONNECTS))
    return longest


async def test_while_nobody_listens_it_asks_less_and_less_often(pauses: list[float]) -> None:
    events: list[tuple[str, str]] = []
    async with running(1, Engine(), on_event=lambda *event: events.append(event)):
        await until(lambda: len(pauses) >= 9)
    assert pauses[:9] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, 5.0]
    assert set(events) == {("away", "no scheduler answers at 127.0.0.1:1 (Connection refused)")}


def test_what_keeps_a_node_away_is_told_in_words() -> None:
    assert why_away(UnwantedStatus(503), "h:1") == "h:1 answered HTTP 503 and opened no WebSocket"
    assert why_away(TimeoutError(), "h:1") == "no scheduler answers at h:1 (it is silent)"
    assert why_away(NotTheProtocol("it hung up"), "h:1").startswith("h:1 cannot be used: ")


async def test_after_it_was_taken_in_it_comes_back_at_once(scheduler: FakeScheduler, pauses: list[float]) -> None:
    async with running(scheduler.port, Engine()):
        for _ in range(3):
            call = await scheduler.call()
            await call.register()
            await call.next("node_heartbeat")
            call.drop()
        await (await scheduler.call()).next("node_register")
    assert set(pauses) == {0.2}


async def test_a_scheduler_that_turns_everybody_away_is_asked_less_and_less_often(
    scheduler: FakeScheduler, pauses: list[float]
) -> None:
    async with running(scheduler.port, Engine()):
        for _ in range(5):
            call = await scheduler.call()
            await call.next("node_register")
            await call.socket.close(code=1013)
        await (await scheduler.call()).next("node_register")
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2]


async def test_whoever_runs_it_is_told_that_the_scheduler_hung_up_but_not_that_it_left_itself(
    scheduler: FakeScheduler,
) -> None:
    events: list[tuple[str, str]] = []
    async with running(scheduler.port, Engine(), on_event=lambda *event: events.append(event)):
        call = await scheduler.call()
        await call.register()
        await call.next("node_heartbeat")
        await call.socket.close(code=1012)
        await (await scheduler.call()).register()
        await until(lambda: len(events) == 3)
    hung_up = ("away", "the scheduler closed the connection (1012)")
    assert events == [("registered", "node-1"), hung_up, ("registered", "node-1")]


async def test_nothing_of_it_goes_on_after_a_connection_has_ended(scheduler: FakeScheduler) -> None:
    def beating() -> int:
        return sum("_keep_beating" in repr(task.get_coro()) for task in asyncio.all_tasks())

    async with running(scheduler.port, Engine()):
        for _ in range(3):
            call = await scheduler.call()
            await call.register()
            await call.next("node_heartbeat")
            await until(lambda: beating() == 1)
            call.drop()
        call = await scheduler.call()
        await call.register()
        await call.next("node_heartbeat")
    await until(lambda: beating() == 0)


# What must not end it


async def test_a_message_it_does_not_know_is_passed_over(scheduler: FakeScheduler) -> None:
    async with running(scheduler.port, Engine()):
        call = await scheduler.call()
        await call.register()
        await call.send({"type": "invented_later", "x": 1})
        assert (await finished_job(scheduler, call))["success"] is True


async def test_an_error_is_told_to_whoever_runs_it(scheduler: FakeScheduler) -> None:
    events: list[tuple[str, str]] = []
    async with running(scheduler.port, Engine(), on_event=lambda *event: events.append(event)):
        call = await scheduler.call()
        await call.next("node_register")
        await call.send({"type": "error", "code": "INVALID_MESSAGE", "message": "no such id"})
        await until(lambda: events)
        assert events == [("error", "INVALID_MESSAGE: no such id")]


@pytest.mark.parametrize("rubbish", ["{", '{"type": "job_assign"}', '{"type": "job_cancel", "job_id": 5}'])
async def test_a_frame_it_cannot_read_does_not_end_it(scheduler: FakeScheduler, rubbish: str) -> None:
    events: list[str] = []
    async with running(scheduler.port, Engine(), on_event=lambda event, _: events.append(event)):
        call = await scheduler.call()
        await call.register()
        await call.socket.send_str(rubbish)
        assert (await finished_job(scheduler, call))["success"] is True
        assert events == ["registered", "error"]


async def test_a_stop_while_it_connects_is_not_forgotten() -> None:
    knocked, answered = asyncio.Event(), asyncio.Event()

    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand everything on to a scheduler, but only when told to."""
        knocked.set()
        await answered.wait()
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", inside.port)
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    async with fake_scheduler() as inside:
        door = await asyncio.start_server(slowly, "127.0.0.1", 0)
        node = Node(f"127.0.0.1:{door.sockets[0].getsockname()[1]}", Engine(), ABLE)
        task = asyncio.create_task(node.run())
        await knocked.wait()
        await node.stop()
        answered.set()
        async with asyncio.timeout(60):
            await task
        assert [call.of("node_register") for call in inside.calls] == [[]]
        door.close()
        await door.wait_closed()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
    except ConnectionError:
        pass
    finally:
        writer.close()


def test_an_address_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(BadAddress):
        Node("ftp://host", Engine(), ABLE)


# Made of four kinds of engine


def made_of(ears: Ears, **more: Any) -> Pipeline:
    return Pipeline(ears, Mending("en", "zh"), Mind(("en", "zh"), ("zh", "en")), Voice("en", "zh"), **more)


async def test_a_pipeline_serves_a_job_and_its_stages_are_measured(peers: Field) -> None:
    events: list[tuple[str, str]] = []
    pipeline = made_of(Ears("en", "zh"))
    async with running(peers.port, pipeline, None, on_event=lambda *event: events.append(event)):
        found = (await until(lambda: ready(peers)))[0]
        assert found["pairs"] == ["en:en", "en:zh", "zh:en", "zh:zh"]
        assert found["services"] == ["ears-asr", "mending-semantic", "mind-nmt", "voice-tts"]
        client = await peers.client()
        await client.utterance(0)
        result = await client.outcome()
        assert (result["text_asr"], result["text_translated"]) == ("hello", "hello [en>zh]")
        assert {"asr_ms", "nmt_ms", "tts_ms", "total_ms"} <= set(result["service_timings"])
        event, detail = events[-1]
        assert event == "measured"
        assert re.fullmatch(r"job-\S+: asr \d+ ms, semantic \d+ ms, nmt \d+ ms, tts \d+ ms", detail)


async def test_what_its_engines_cannot_do_any_more_it_is_not_asked_for(peers: Field) -> None:
    ears = Ears("en", "zh")
    async with running(peers.port, made_of(ears), None, heartbeat_interval_s=0.02):
        await until(lambda: ready(peers))
        ears.languages = ("zh",)
        await until(lambda: serves(peers, ["zh:en", "zh:zh"]))
        ears.languages = ("zh", "en")
        await until(lambda: serves(peers, ["en:en", "en:zh", "zh:en", "zh:zh"]))


async def serves(peers: Field, pairs: list[str]) -> bool:
    _, found = await peers.get("/v1/nodes")
    return [node["pairs"] for node in found["nodes"]] == [pairs]


async def test_engines_that_cannot_even_say_what_they_can_do_get_no_work_until_they_can(peers: Field) -> None:
    class Broken(Ears):
        is_broken = False

        @property
        def languages(self) -> Any:
            if self.is_broken:
                raise OSError("the disk with the models is gone")
            return ("en", "zh")

        @languages.setter
        def languages(self, value: Any) -> None:
            pass

    ears = Broken()
    async with running(peers.port, made_of(ears), None, heartbeat_interval_s=0.02):
        await until(lambda: ready(peers))
        ears.is_broken = True
        await until(lambda: serves(peers, []))
        ears.is_broken = False
        await until(lambda: ready(peers))


async def test_a_model_that_is_missing_is_reported_and_another_node_does_the_job(peers: Field) -> None:
    def missing() -> None:
        raise ModelNotAvailable("the weights were removed")

    async with (
        running(peers.port, made_of(Ears("en", "zh", work=missing)), None) as without,
        running(peers.port, made_of(Ears("en", "zh")), None),
    ):
        await until(lambda: ready(peers, 2))
        client = await peers.client()
        index = 0
        while without.jobs_done == 0 or index < 20:
            await client.utterance(index)
            assert (await client.outcome())["text_asr"] == "hello"
            index += 1
        # Its recogniser is out for a while, so it was not asked again.
        assert without.jobs_done == 1


async def test_what_cannot_be_done_anywhere_fails_with_its_reason(scheduler: FakeScheduler) -> None:
    async with running(scheduler.port, made_of(Ears("en", "zh")), None):
        call = await scheduler.call()
        await call.register()
        await call.assign(1, audio_format="mp3")
        await call.grant()
        error = (await call.next("job_result"))["error"]
        assert error["code"] == "UNSUPPORTED_FEATURE"
        assert "'mp3'" in error["message"]


async def test_the_reason_of_a_refusal_is_in_the_log_of_the_node_and_clients_get_the_code(peers: Field) -> None:
    async def refuse(job: JobAssign, partial: Callable[[str], None]) -> JobOutput:
        raise Unsupported("no whispering")

    events: list[tuple[str, str]] = []
    async with running(peers.port, Engine(refuse), on_event=lambda *event: events.append(event)):
        await until(lambda: ready(peers))
        client = await peers.client()
        await client.utterance(0)
        assert (await client.outcome())["reason"] == "job_failed"
        assert events[-1][0] == "engine refused"
        assert events[-1][1].endswith(": UNSUPPORTED_FEATURE: no whispering")
        assert "UNSUPPORTED_FEATURE" in str(client.socket.heard)
        assert "whispering" not in str(client.socket.heard)


async def test_a_model_that_is_missing_is_named(scheduler: FakeScheduler) -> None:
    async with running(scheduler.port, made_of(Ears("en", "zh")), None):
        call = await scheduler.call()
        await call.register()
        await call.assign(1, src_lang="fr")
        await call.grant()
        error = (await call.next("job_result"))["error"]
        assert error["code"] == "MODEL_NOT_AVAILABLE"
        assert error["details"] == {"service_id": "ears-asr", "reason": "no asr for fr is available on this node"}


async def test_a_thread_that_is_cancelled_keeps_its_slot_until_it_returns_and_its_result_is_dropped(
    scheduler: FakeScheduler,
) -> None:
    may_go_on = threading.Event()
    ears = Ears("en", "zh", work=may_go_on.wait)
    async with running(scheduler.port, made_of(ears, slots=1), None, heartbeat_interval_s=0.01):
        call = await scheduler.call()
        await call.register()
        await call.assign(1)
        await call.grant()
        await until(lambda: ears.given)
        await call.send({"type": "job_cancel", "job_id": "job-0-1"})
        await call.assign(2)
        refusal = await call.next("job_result")
        assert (refusal["job_id"], refusal["error"]["code"]) == ("job-0-2", "NODE_OVERLOADED")
        assert (await call.next("node_heartbeat"))["running_job_ids"] == ["job-0-1"]
        may_go_on.set()
        while (await call.next("node_heartbeat"))["running_job_ids"]:
            pass
        await call.assign(3)
        await call.grant()
        assert (await call.next("job_result"))["job_id"] == "job-0-3"
        assert [frame["job_id"] for frame in call.of("job_result")] == ["job-0-2", "job-0-3"]


@pytest.mark.parametrize(
    ("reason", "event", "told"),
    [
        ("job_timeout", "job given up", r"job-0-1 recognise: job_timeout after \d+\.\d s; .*more_time"),
        ("node_silent", "job given up", r"job-0-1 recognise: node_silent after \d+\.\d s$"),
        ("cancelled", "job cancelled", r"job-0-1 recognise: cancelled after \d+\.\d s$"),
        ("made up", "job given up", r"job-0-1 recognise: other after \d+\.\d s$"),
        (None, "job cancelled", r"job-0-1 recognise: cancelled after \d+\.\d s$"),
    ],
)
@pytest.mark.parametrize(("raises", "ended"), [(False, "returned"), (True, "raised LookupError")])
async def test_its_log_says_that_a_job_was_given_up_and_that_a_late_result_is_dropped(
    scheduler: FakeScheduler, reason: str | None, event: str, told: str, raises: bool, ended: str
) -> None:
    may_go_on = threading.Event()
    events: list[tuple[str, str]] = []

    def work() -> None:
        may_go_on.wait(60)
        if raises:
            raise LookupError("the words nobody must see")

    ears = Ears("en", "zh", work=work)
    async with running(scheduler.port, made_of(ears, slots=1), None, on_event=lambda *event: events.append(event)):
        call = await scheduler.call()
        await call.register()
        await call.assign(1)
        await call.grant()
        await until(lambda: ears.given)
        for _ in range(2):
            await call.send({"type": "job_cancel", "job_id": "job-0-1", "reason": reason})
        await until(lambda: len(events) == 4)
        assert events[3][0] == event
        assert re.match(told, events[3][1])
        may_go_on.set()
        await until(lambda: len(events) == 5)
        assert events[4][0] == "result dropped"
        assert re.match(rf"job-0-1: the engine {ended} after \d+\.\d s, ", events[4][1])


async def test_its_log_says_that_an_async_engine_was_stopped_once(scheduler: FakeScheduler) -> None:
    events: list[tuple[str, str]] = []
    engine = Engine(Gate())
    async with running(scheduler.port, engine, on_event=lambda *event: events.append(event)):
        call = await scheduler.call()
        await call.register()
        await call.assign(1)
        await call.grant()
        await until(lambda: engine.jobs)
        await call.send({"type": "job_cancel", "job_id": "job-0-1", "reason": "job_timeout"})
        await until(lambda: engine.cancelled == ["job-0-1"])
        await call.assign(2)
        await call.send({"type": "job_cancel", "job_id": "job-0-2", "reason": "cancelled"})
        await until(lambda: len(events) == 3)
    assert [name for name, _ in events] == ["registered", "job given up", "job cancelled"]
    assert re.match(r"job-0-1: job_timeout after ", events[1][1])
    assert re.match(r"job-0-2: cancelled before it began$", events[2][1])


async def test_the_result_of_an_engine_that_cannot_be_cancelled_is_dropped(scheduler: FakeScheduler) -> None:
    async def stubborn(job: JobAssign, partial: Callable[[str], None]) -> JobOutput:
        if job.job_id == "job-0-1":
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        return await at_once(job, partial)

    events: list[tuple[str, str]] = []
    engine = Engine(stubborn)
    async with running(scheduler.port, engine, on_event=lambda *event: events.append(event)):
        call = await scheduler.call()
        await call.register()
        await call.assign(1)
        await call.grant()
        await until(lambda: engine.jobs)
        await call.send({"type": "job_cancel", "job_id": "job-0-1", "reason": "job_timeout"})
        assert (await finished_job(scheduler, call, 2))["job_id"] == "job-0-2"
    assert [name for name, _ in events] == ["registered", "job given up", "result dropped"]
    assert [frame["job_id"] for frame in call.of("job_result")] == ["job-0-2"]


async def test_what_runs_already_counts_for_a_later_attempt(scheduler: FakeScheduler) -> None:
    gate = Gate()
    engine = Engine(gate)
    async with running(scheduler.port, engine):
        call = await scheduler.call()
        await call.register()
        await call.assign(1)
        await call.grant()
        await call.next("job_started")
        call.drop()
        call = await scheduler.call()
        await call.register()
        await call.assign(1, attempt_id=2)
        assert (await call.grant())["attempt_id"] == 2
        assert (await call.next("job_started"))["attempt_id"] == 2
        gate.open.set()
        result = await call.next("job_result")
        assert (result["attempt_id"], result["success"], len(engine.jobs)) == (2, True, 1)


async def test_of_many_partials_the_latest_is_sent_and_the_last_comes_before_the_result(
    scheduler: FakeScheduler,
) -> None:
    async def chatter(job: JobAssign, partial: Callable[[str], None]) -> JobOutput:
        partial("first")
        await until(lambda: call.of("asr_partial"))
        for number in range(1000):
            partial(f"then {number}")
            await asyncio.sleep(0)
        return await at_once(job, partial)

    async with running(scheduler.port, Engine(chatter)):
        call = await scheduler.call()
        await call.register()
        await call.assign(1, partial_update_interval_ms=60_000)
        await call.grant()
        await call.next("job_result")
        told = [frame.get("text") for frame in call.of("asr_partial", "job_result")]
        assert told == ["first", "then 999", None]


async def test_its_load_is_that_of_the_machine(scheduler: FakeScheduler) -> None:
    async with running(scheduler.port, Engine()):
        call = await scheduler.call()
        await call.register()
        usage = (await call.next("node_heartbeat"))["resource_usage"]
        assert 0 <= usage["cpu_percent"] <= 100
        assert 0 < usage["mem_percent"] < 100


async def test_audio_may_come_in_a_frame_of_its_own(scheduler: FakeScheduler) -> None:
    engine = Engine()
    async with running(scheduler.port, engine):
        call = await scheduler.call()
        await call.register()
        await call.assign(1, audio="")
        await call.socket.send_bytes(b"\x05\x06")
        await call.grant()
        await call.next("job_result")
        assert engine.jobs[0].audio == b"\x05\x06"


async def test_a_job_without_audio_does_not_wait_for_it_for_ever(scheduler: FakeScheduler) -> None:
    engine = Engine()
    async with running(scheduler.port, engine):
        call = await scheduler.call()
        await call.register()
        await call.assign(1, audio="")
        await call.send({"type": "node_heartbeat_ack", "node_id": "node-1", "timestamp": 1})
        await call.grant()
        await call.next("job_result")
        await call.socket.send_bytes(b"nobody asked")
        assert (await finished_job(scheduler, call, 2))["success"] is True
        assert engine.jobs[0].audio == b""


async def test_it_takes_no_jobs_while_the_scheduler_drains_it(scheduler: FakeScheduler) -> None:
    async with running(scheduler.port, Engine()) as node:
        call = await scheduler.call()
        assert (await call.register())["accept_public_jobs"] is True
        await call.send({"type": "node_control", "command": "drain"})
        assert (await call.register())["accept_public_jobs"] is False
        assert node.is_draining
        await call.assign(1)
        assert (await call.next("job_result"))["error"]["code"] == "NODE_OVERLOADED"
        await call.send({"type": "node_control", "command": "resume"})
        assert (await call.register())["accept_public_jobs"] is True
        assert (await finished_job(scheduler, call, 2))["success"] is True


async def test_its_log_says_that_it_is_quarantined_and_that_it_has_recovered(scheduler: FakeScheduler) -> None:
    events: list[tuple[str, str]] = []
    node = Node(f"ws://127.0.0.1:{scheduler.port}", Engine(), ABLE, on_event=lambda *event: events.append(event))
    serving = asyncio.create_task(node.run())
    call = await scheduler.call()
    await call.register()
    await call.send({"type": "node_control", "command": "quarantined", "reason": "its jobs failed"})
    await call.send({"type": "node_control", "command": "recovered"})
    await until(lambda: len(events) >= 3)
    assert events[1:] == [("quarantined", "its jobs failed"), ("recovered", "")]
    await node.stop()
    await serving


async def test_a_node_that_leaves_waits_until_its_results_have_arrived(scheduler: FakeScheduler) -> None:
    gate = Gate()
    engine = Engine(gate)
    async with running(scheduler.port, engine) as node:
        call = await scheduler.call()
        await call.register()
        await call.assign(1)
        await call.grant()
        await until(lambda: engine.jobs)
        stopping = asyncio.create_task(node.stop())
        await call.register()
        call.drop()  # and with it the only way for the result
        gate.open.set()
        await until(lambda: node.jobs_done == 1)
        call = await scheduler.call()
        assert (await call.register())["accept_public_jobs"] is False
        result = await call.next("job_result")
        assert not stopping.done()
        await call.send({"type": "result_ack", "job_id": result["job_id"], "attempt_id": 1})
        await stopping


async def test_what_an_engine_makes_must_be_a_translation(scheduler: FakeScheduler) -> None:
    async def nonsense(job: JobAssign, partial: Callable[[str], None]) -> JobOutput:
        return JobOutput("\ud800")

    async with running(scheduler.port, Engine(nonsense)):
        call = await scheduler.call()
        await call.register()
        assert (await finished_job(scheduler, call))["error"]["code"] == "PROCESSING_ERROR"


async def test_of_an_exception_the_scheduler_is_told_the_stage_and_the_nearest_type_of_python(
    scheduler: FakeScheduler,
) -> None:
    class OwnError(LookupError):
        pass

    async def break_down(job: JobAssign, partial: Callable[[str], None]) -> JobOutput:
        with at_stage("translate", ["what was said"]):
            raise OwnError("what was said")

    async with running(scheduler.port, Engine(break_down)):
        call = await scheduler.call()
        await call.register()
        error = (await finished_job(scheduler, call))["error"]
        assert error["details"] == {"stage": "translate", "exception": "LookupError"}
        assert "what was said" not in str(error)


def test_who_does_not_say_what_it_can_do_is_told_how() -> None:
    with pytest.raises(TypeError, match="Abilities"):
        Node("127.0.0.1:1", Engine())
