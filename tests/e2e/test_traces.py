"""One utterance is one tree of spans: on one instance, across two, through retries; and nobody's words are in it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import StatusCode

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.job_ids import JobHandle
from lingua_scheduler.protocol.bus import Assign
from tests.support.callers import SPEECH, caller_of
from tests.support.peers import FakeNode, Field, Frame, answer, field, result_of, stay_silent
from tests.support.room_talk import Talker, translate
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET
from tests.support.traces import Collected, are_one_tree, said
from tests.support.waiting import until

OPUS = PACKET * 20
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
SECRET = "the secret of the sea"
STAGES = {"asr_ms": 10**300, "nmt_ms": 1.5, "tts_ms": SECRET}


@pytest.fixture
def collected() -> Collected:
    return Collected()


@asynccontextmanager
async def traced(server: RedisProcess, collected: Collected, **changes: int) -> AsyncIterator[Field]:
    async with scheduler_on(server.url, collected.traces, **changes) as (scheduler, _), field(scheduler.port) as peers:
        yield peers


async def finished(collected: Collected, root: str = "utterance", count: int = 1) -> list[ReadableSpan]:
    await until(lambda: len(collected.named(root)) >= count)
    return collected.named(root)


def is_sampled(job: Frame) -> bool:
    """The lowest of the flags; the others are about other things."""
    return bool(int(job["traceparent"].rsplit("-", 1)[1], 16) & 1)


def took_ms(span: ReadableSpan) -> float:
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.end_time - span.start_time) / 1e6


async def test_an_utterance_is_one_tree(server: RedisProcess, collected: Collected) -> None:
    async with traced(server, collected) as peers:
        node = await peers.node()
        client = await peers.client()
        await client.chunk(OPUS)
        await client.chunk(OPUS, is_final=True)
        outcome = await client.outcome()
        (root,) = await finished(collected)
    assert collected.tree() == [
        ("", "utterance"),
        ("utterance", "attempt"),
        ("utterance", "cut"),
        ("utterance", "delivery"),
        ("utterance", "dispatch"),
        ("utterance", "queue"),
    ]
    assert are_one_tree(collected.spans)
    attempt = said(collected.one("attempt"))
    assert (attempt["lingua.node_id"], attempt["lingua.attempt"]) == (node.node_id, 1)
    assert (attempt["lingua.outcome"], attempt["lingua.node.total_ms"]) == ("DONE", 5)
    assert said(root)["lingua.session_id"] == client.session_id
    assert said(root)["lingua.job_id"] == outcome["job_id"]
    assert said(root)["lingua.delivery"] == "sent"
    assert {span.status.status_code for span in collected.spans} == {StatusCode.UNSET}


async def test_its_parts_follow_each_other(server: RedisProcess, collected: Collected) -> None:
    async with traced(server, collected, sessions__hangover_manual_ms=80) as peers:
        await peers.node()
        client = await peers.client()
        await client.chunk(OPUS, is_final=True)
        await client.outcome()
        (root,) = await finished(collected)
    cut, queue, dispatch, attempt, delivery = (
        collected.one(name) for name in ("cut", "queue", "dispatch", "attempt", "delivery")
    )
    assert took_ms(cut) >= 75
    assert root.start_time == cut.start_time
    assert (cut.end_time or 0) <= (queue.start_time or 0)
    assert queue.end_time == dispatch.start_time
    assert (dispatch.start_time or 0) <= (attempt.start_time or 0) <= (dispatch.end_time or 0)
    assert (attempt.end_time or 0) <= (delivery.start_time or 0)
    assert delivery.end_time == root.end_time


async def test_what_is_given_whole_was_not_listened_to(server: RedisProcess, collected: Collected) -> None:
    async with traced(server, collected) as peers:
        await peers.node()
        client = await peers.client()
        await client.utterance(0)
        await client.outcome()
        await finished(collected)
    assert collected.named("cut") == []


async def test_every_utterance_is_a_trace_of_its_own(server: RedisProcess, collected: Collected) -> None:
    async with traced(server, collected) as peers:
        await peers.node()
        client = await peers.client()
        for index in range(3):
            await client.utterance(index)
        results = [await client.outcome() for _ in range(3)]
        await finished(collected, count=3)
    roots = collected.named("utterance")
    assert {result["trace_id"] for result in results} == {f"{root.context.trace_id:032x}" for root in roots}
    assert len({root.context.trace_id for root in roots}) == 3


async def test_the_node_gets_the_context_of_its_attempt(server: RedisProcess, collected: Collected) -> None:
    async with traced(server, collected) as peers:
        node = await peers.node()
        client = await peers.client()
        await client.utterance(0)
        await client.outcome()
        await finished(collected)
    attempt = collected.one("attempt")
    context = f"00-{attempt.context.trace_id:032x}-{attempt.context.span_id:016x}-"
    assert node.jobs[0]["traceparent"].startswith(context)
    assert is_sampled(node.jobs[0])
    assert node.jobs[0]["trace_id"] == f"{attempt.context.trace_id:032x}"


async def test_a_client_that_names_its_trace_keeps_that_name(server: RedisProcess, collected: Collected) -> None:
    async with traced(server, collected) as peers:
        node = await peers.node()
        client = await peers.client(trace_id="tr-session")
        await client.utterance(0)
        await client.utterance(1, trace_id="tr-own")
        heard = [(await client.outcome())["trace_id"] for _ in range(2)]
        await finished(collected, count=2)
    assert heard == ["tr-session", "tr-own"]
    # Its node gets that of the trace, by which it cannot tell whose speech it is.
    roots = {f"{root.context.trace_id:032x}" for root in collected.named("utterance")}
    assert {job["trace_id"] for job in node.jobs} == roots
    assert len(roots) == 2


async def test_a_retry_is_a_second_attempt_of_the_same_utterance(server: RedisProcess, collected: Collected) -> None:
    async def refuse_once(node: FakeNode, job: Frame) -> None:
        if job["attempt_id"] > 1:
            return await answer(node, job)
        error = {"code": "NODE_OVERLOADED", "message": SECRET}
        return await node.socket.send(result_of(job, node.node_id, success=False, error=error))

    async with traced(server, collected) as peers:
        nodes = [await peers.node(refuse_once) for _ in range(2)]
        client = await peers.client()
        await client.utterance(0)
        assert (await client.outcome())["type"] == "translation_result"
        await finished(collected)
    refusing, willing = sorted(nodes, key=lambda node: int(node.jobs[0]["attempt_id"]))
    first, second = collected.named("attempt")
    assert are_one_tree(collected.spans)
    assert [said(attempt)["lingua.attempt"] for attempt in (first, second)] == [1, 2]
    assert [said(attempt)["lingua.node_id"] for attempt in (first, second)] == [refusing.node_id, willing.node_id]
    assert (said(first)["lingua.error"], first.status.status_code) == ("NODE_OVERLOADED", StatusCode.ERROR)
    assert len(collected.named("queue")) == len(collected.named("dispatch")) == 2
    assert (first.end_time or 0) <= (collected.named("queue")[1].start_time or 0)


async def test_a_wait_for_a_slot_is_seen_as_one(server: RedisProcess, collected: Collected) -> None:
    async with traced(server, collected) as peers:
        node = await peers.node(stay_silent, max_concurrent_jobs=1)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: node.jobs)
        await client.utterance(1)
        await until(lambda: somebody_waits(peers))
        await answer(node, node.jobs[0])
        await until(lambda: len(node.jobs) == 2)
        await answer(node, node.jobs[1])
        await finished(collected, count=2)
    (first, second) = collected.named("utterance")
    queues = {queue.parent.span_id: queue for queue in collected.named("queue") if queue.parent}
    attempts = {attempt.parent.span_id: attempt for attempt in collected.named("attempt") if attempt.parent}
    waited = queues[second.context.span_id]
    assert took_ms(waited) > took_ms(queues[first.context.span_id])
    # The slot is free before the attempt that had it is noted as ended.
    assert (waited.end_time or 0) >= (attempts[first.context.span_id].end_time or 0) - 500_000_000


async def test_a_wait_in_vain_is_all_queue(server: RedisProcess, collected: Collected) -> None:
    async with traced(server, collected, dispatch__queue_wait_ms=150) as peers:
        node = await peers.node(stay_silent, max_concurrent_jobs=1)
        first, second = await peers.client(), await peers.client()
        await first.utterance(0)
        await until(lambda: node.jobs)
        await second.utterance(0)
        assert (await second.outcome())["type"] == "missing_result"
        (root,) = await finished(collected)
        # Before everything stops, and the first utterance with it.
        queue, dispatches = collected.one("queue"), collected.named("dispatch")
    assert said(root)["lingua.error"] == "ALL_CANDIDATES_FULL_OR_FAILED"
    assert took_ms(queue) >= 140
    assert dispatches == []


async def somebody_waits(peers: Field) -> bool:
    text = (await peers.get("/metrics"))[1]
    return "lingua_jobs_waiting 1.0" in text


async def test_an_utterance_that_nobody_can_translate_says_why(server: RedisProcess, collected: Collected) -> None:
    async with traced(server, collected) as peers:
        client = await peers.client()
        await client.utterance(0)
        await client.outcome()
        (root,) = await finished(collected)
    assert (said(root)["lingua.outcome"], said(root)["lingua.error"]) == ("FAILED", "NO_CAPABLE_NODE")
    assert root.status.status_code is StatusCode.ERROR
    assert collected.named("attempt") == []


async def test_an_answer_that_was_overtaken_is_told_apart(server: RedisProcess, collected: Collected) -> None:
    async with traced(server, collected, delivery__hold_ms=100) as peers:
        node = await peers.node(stay_silent)
        client = await peers.client()
        await client.utterance(0)
        await client.utterance(1)
        await until(lambda: len(node.jobs) == 2)
        late, early = sorted(node.jobs, key=lambda job: int(job["utterance_index"]))
        await answer(node, early)
        assert (await client.outcome())["utterance_index"] == 1
        await answer(node, late)
        assert (await client.outcome())["late"] is True
        await finished(collected, count=2)
    assert [said(root)["lingua.delivery"] for root in collected.named("utterance")] == ["late", "sent"]


async def test_what_is_under_way_when_everything_stops_is_told(server: RedisProcess, collected: Collected) -> None:
    async with traced(server, collected, server__stop_timeout_ms=50) as peers:
        node = await peers.node(stay_silent)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: node.jobs)
    (root,) = await finished(collected)
    assert said(root)["lingua.outcome"] == "abandoned"
    assert are_one_tree(collected.spans)


async def test_an_utterance_across_two_instances_is_one_tree(server: RedisProcess) -> None:
    async with two(server) as (at_a, at_b, collected, schedulers):
        node = await at_b.node()
        for scheduler in schedulers:
            await until(partial(knows, scheduler))
        client = await at_a.client()
        await client.chunk(OPUS, is_final=True)
        assert (await client.outcome())["type"] == "translation_result"
        await finished(collected)
        await finished(collected, "relay")
    assert are_one_tree(collected.spans)
    assert collected.tree() == [
        ("", "utterance"),
        ("attempt", "relay"),
        ("relay", "relay.node"),
        ("relay", "relay.reply"),
        ("utterance", "attempt"),
        ("utterance", "cut"),
        ("utterance", "delivery"),
        ("utterance", "dispatch"),
        ("utterance", "queue"),
    ]
    relay, root = said(collected.one("relay")), said(collected.one("utterance"))
    assert (relay["lingua.sender"], root["lingua.instance"]) == (schedulers[0].instance, schedulers[0].instance)
    assert (relay["lingua.instance"], relay["lingua.node_id"]) == (schedulers[1].instance, node.node_id)
    assert (relay["lingua.outcome"], relay["lingua.attempt"]) == ("result", 1)


async def test_a_node_there_that_dies_leaves_its_part_in_the_tree(server: RedisProcess) -> None:
    async with two(server) as (at_a, at_b, collected, schedulers):
        dying = await at_b.node(stay_silent)
        for scheduler in schedulers:
            await until(partial(knows, scheduler))
        client = await at_a.client()
        await client.utterance(0)
        await until(lambda: dying.jobs)
        await at_a.node()
        dying.socket.cut()
        assert (await client.outcome())["type"] == "translation_result"
        await finished(collected)
        (relay,) = await finished(collected, "relay")
    first, second = collected.named("attempt")
    assert are_one_tree(collected.spans)
    assert relay.parent is not None
    assert relay.parent.span_id == first.context.span_id
    assert relay.status.status_code is StatusCode.ERROR
    assert said(relay)["lingua.outcome"] == said(first)["lingua.outcome"]
    assert said(second)["lingua.outcome"] == "DONE"


async def test_a_letter_that_comes_too_late_leaves_its_part_in_the_tree(server: RedisProcess) -> None:
    async with two(server) as (_, _, collected, (a, b)):
        letter = Assign(Attempt("job-0-1", 1, "node-GONE", 0), "c1", b"{}", f"00-{TRACE_ID}-{CALLER}-01")
        await a.mailroom.post(b.instance, letter)
        (relay,) = await finished(collected, "relay")
    assert relay.parent is not None
    assert (f"{relay.context.trace_id:032x}", f"{relay.parent.span_id:016x}") == (TRACE_ID, CALLER)
    assert (said(relay)["lingua.outcome"], said(relay)["lingua.instance"]) == ("node_gone", b.instance)


async def test_an_instance_that_stops_leaves_the_rest_of_the_tree_to_the_next(server: RedisProcess) -> None:
    both = Collected()
    async with scheduler_on(server.url, both.traces) as (a, _), field(a.port) as at_a:
        client = await at_a.client()
        leaving = Collected(memory=both.memory)
        async with (
            scheduler_on(server.url, leaving.traces, server__stop_timeout_ms=50) as (b, _),
            field(b.port) as at_b,
        ):
            hanging = await at_b.node(stay_silent)
            await until(partial(knows, a))
            await client.utterance(0)
            await until(lambda: hanging.jobs)
            await at_a.node()
        assert (await client.outcome())["type"] == "translation_result"
        await finished(both)
    assert are_one_tree(both.spans)
    assert [said(attempt)["lingua.attempt"] for attempt in both.named("attempt")] == [1, 2]
    assert [said(relay)["lingua.instance"] for relay in both.named("relay")] == [b.instance]


async def test_an_instance_that_is_not_traced_passes_the_context_on(server: RedisProcess, collected: Collected) -> None:
    async with traced(server, collected) as at_a, scheduler_on(server.url) as (b, _), field(b.port) as at_b:
        node = await at_b.node()
        await until(partial(knows, b))
        client = await at_a.client()
        await client.utterance(0)
        assert (await client.outcome())["type"] == "translation_result"
        await finished(collected)
    assert node.jobs[0]["traceparent"].split("-")[2] == f"{collected.one('attempt').context.span_id:016x}"


async def test_a_call_goes_on_with_its_callers_trace(server: RedisProcess, collected: Collected) -> None:
    async with traced(server, collected) as peers:
        node = await peers.node()
        body = {"session_id": "caller", "src_lang": "en", "tgt_lang": "zh", "audio_ref": "s3://bucket/one"}
        headers = {"traceparent": f"00-{TRACE_ID}-{CALLER}-01"}
        status, placed = await peers.ask("POST", "/v1/dispatch/f2f", json=body, headers=headers)
        assert status == 200
        (root,) = await finished(collected, "call")
    assert f"{root.context.trace_id:032x}" == TRACE_ID
    assert root.parent is not None
    assert f"{root.parent.span_id:016x}" == CALLER
    assert collected.tree() == [("?", "call"), ("call", "attempt"), ("call", "dispatch"), ("call", "queue")]
    assert said(root)["lingua.job_id"] == JobHandle.parse(placed["job_id"]).job_id
    assert node.jobs[0]["trace_id"] == TRACE_ID


@pytest.mark.parametrize("header", ["", "nonsense", f"00-{'0' * 32}-{CALLER}-01", "x" * 5000])
async def test_a_context_that_cannot_be_read_begins_a_trace(
    server: RedisProcess, collected: Collected, header: str
) -> None:
    async with traced(server, collected) as peers:
        await peers.node()
        body = {"session_id": "caller", "src_lang": "en", "tgt_lang": "zh", "audio_ref": "s3://bucket/one"}
        assert (await peers.ask("POST", "/v1/dispatch/f2f", json=body, headers={"traceparent": header}))[0] == 200
        (root,) = await finished(collected, "call")
    assert root.parent is None


async def test_a_caller_that_is_not_sampled_leaves_nothing(server: RedisProcess, collected: Collected) -> None:
    async with traced(server, collected) as peers:
        node = await peers.node()
        body = {"session_id": "caller", "src_lang": "en", "tgt_lang": "zh", "audio_ref": "s3://bucket/one"}
        headers = {"traceparent": f"00-{TRACE_ID}-{CALLER}-00"}
        placed = (await peers.ask("POST", "/v1/dispatch/f2f", json=body, headers=headers))[1]
        await peers.get(f"/v1/jobs/{placed['job_id']}/result?wait_ms=5000")
    assert collected.spans == []
    assert node.jobs[0]["traceparent"].startswith(f"00-{TRACE_ID}-")
    assert not is_sampled(node.jobs[0])


async def test_what_is_not_sampled_is_not_sampled_anywhere(server: RedisProcess) -> None:
    never = Collected(ParentBased(ALWAYS_OFF))
    always = Collected()
    async with (
        scheduler_on(server.url, never.traces) as (a, _),
        scheduler_on(server.url, always.traces) as (b, _),
        field(a.port) as at_a,
        field(b.port) as at_b,
    ):
        node = await at_b.node()
        await until(partial(knows, a))
        client = await at_a.client()
        await client.utterance(0)
        assert (await client.outcome())["type"] == "translation_result"
    assert never.spans == always.spans == []
    assert not is_sampled(node.jobs[0])


async def test_nobodys_words_are_in_a_span(server: RedisProcess) -> None:
    async def talk(node: FakeNode, job: Frame) -> None:
        words = {"text_asr": SECRET, "text_translated": SECRET, "tts_audio": "c2VjcmV0", "tts_format": SECRET}
        extra = {"service_timings": {**STAGES, "note": SECRET}, "reason": SECRET}
        await node.socket.send(result_of(job, node.node_id, extra=extra, **words))

    async def complain(node: FakeNode, job: Frame) -> None:
        error = {"code": SECRET, "message": SECRET, "details": {"said": SECRET}}
        await node.socket.send(result_of(job, node.node_id, success=False, error=error, extra={"reason": SECRET}))

    async with two(server) as (at_a, at_b, collected, schedulers):
        talking = await at_b.node(talk)
        for scheduler in schedulers:
            await until(partial(knows, scheduler))
        client = await at_a.client()
        await client.chunk(SECRET.encode(), is_final=True)
        assert (await client.outcome())["text_asr"] == SECRET
        talking.work = complain
        await client.utterance(1, audio=SECRET.encode())
        assert (await client.outcome())["type"] == "missing_result"
        async with caller_of(at_a.port) as caller:
            await caller.dispatch(SPEECH, audio_ref=None)
        await finished(collected, count=2)
        await finished(collected, "call")
    exported = "".join(span.to_json() for span in collected.spans)
    assert "secret" not in exported.lower()
    assert "c2VjcmV0" not in exported
    failed = next(span for span in collected.named("attempt") if "lingua.error" in said(span))
    assert said(failed)["lingua.error"] == "other"
    done = next(span for span in collected.named("attempt") if said(span)["lingua.outcome"] == "DONE")
    assert (said(done)["lingua.node.asr_ms"], said(done)["lingua.node.nmt_ms"]) == (1e9, 1.5)
    assert "lingua.node.tts_ms" not in said(done)
    for span in collected.spans:
        assert json.loads(span.to_json())["attributes"].keys() <= KNOWN


def _documented() -> set[str]:
    """The attributes that docs/traces.md names."""
    page = (Path(__file__).parents[2] / "docs" / "traces.md").read_text()
    return {line.split("`")[1] for line in page.splitlines() if line.startswith("| `lingua.")}


KNOWN = _documented()


@asynccontextmanager
async def two(
    server: RedisProcess,
) -> AsyncIterator[tuple[Field, Field, Collected, tuple[Scheduler, Scheduler]]]:
    """Two instances with tracing of their own, whose spans end up in one place."""
    both = Collected()
    other = Collected(memory=both.memory)
    async with (
        scheduler_on(server.url, both.traces) as (a, _),
        scheduler_on(server.url, other.traces) as (b, _),
        field(a.port) as at_a,
        field(b.port) as at_b,
    ):
        yield at_a, at_b, both, (a, b)


def knows(scheduler: Scheduler) -> bool:
    return "en:zh:speech" in scheduler._pool_map.map


async def test_an_utterance_in_a_room_is_one_tree_with_a_branch_for_each_language(
    server: RedisProcess, collected: Collected
) -> None:
    async with traced(server, collected) as peers, aiohttp.ClientSession() as http:
        await peers.node(translate, languages=("en", "zh", "pt"))
        ann, bob, cho = [Talker(http, peers.port) for _ in range(3)]
        code = await (await ann.ready(src_lang="en")).create(preferred_lang="en")
        for one, language in ((bob, "zh"), (cho, "pt")):
            await (await one.ready(src_lang=language)).enter(code, preferred_lang=language)
        await ann.say("one")
        await until(lambda: bob.texts() == ["zh:one"] and cho.texts() == ["pt:one"])
        await finished(collected)
        for one in (ann, bob, cho):
            await one.close()
    assert are_one_tree(collected.spans)
    jobs = collected.named("job")
    assert sorted(str(said(span)["lingua.tgt_lang"]) for span in jobs) == ["pt", "zh"]
    tree = collected.tree()
    assert (tree.count(("utterance", "job")), tree.count(("job", "attempt"))) == (2, 2)
