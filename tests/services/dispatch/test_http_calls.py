"""Calls over HTTP: what work they become, and what their callers are told of its end."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.jobs.requests import Request
from lingua_scheduler.domain.sessions.utterances import PADDING_MANUAL_MS, CutReason
from lingua_scheduler.protocol.http_dispatch import DispatchOptions, F2fDispatch, FetchedResult
from lingua_scheduler.services.attempts.work import Outcome, Refusal, Wish, Work
from lingua_scheduler.services.dispatch.audio_budget import AudioBudget
from lingua_scheduler.services.dispatch.http_calls import Calls, _Answering, _Call
from lingua_scheduler.services.dispatch.idempotency import Placement
from lingua_scheduler.store.connection import RedisAway
from lingua_sdk.domain.errors import ErrorCode
from tests.support.schedulers import settings_with
from tests.support.speech import work

AUDIO = b"\0\1" * 320
ATTEMPT = Attempt("job-0-1", 1, "n1", 0)
ASKED = F2fDispatch(session_id="caller", src_lang="en", tgt_lang="zh", audio=AUDIO)


class Ready:
    """A store whose Redis may be away, and which knows of no job."""

    is_ready = True

    def __init__(self) -> None:
        self.jobs = self

    async def find(self, _job_id: str) -> None:
        return None


class Translator:
    """What becomes of the work: `placed` first, if there is a slot for it, then the end."""

    def __init__(self, ends: Any, is_placed: bool = True) -> None:
        self.ends = ends
        self.is_placed = is_placed
        self.work: list[Work] = []
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def translate(self, work: Work, answering: Any) -> Any:
        self.work.append(work)
        if self.is_placed:
            assert answering.is_waiting
            assert answering.placed(ATTEMPT)
        await self.go_on.wait()
        if isinstance(self.ends, Exception):
            raise self.ends
        return self.ends


class AsAsked:
    """Every language is served under its own tag."""

    async def matched(self, work: Work) -> Work:
        return work


class Books:
    def __init__(self) -> None:
        self.ended: Callable[..., None] = lambda *_: None


def calls_with(translator: Translator, budget: AudioBudget | None = None, **changes: Any) -> Calls:
    return Calls(
        "i-here",
        cast("Any", Ready()),
        cast("Any", translator),
        cast("Any", Books()),
        budget or AudioBudget(10_000, 10_000),
        cast("Any", AsAsked()),
        settings_with(**changes),
    )


def calls_of(ends: Any, is_placed: bool = True) -> tuple[Calls, Translator]:
    translator = Translator(ends, is_placed)
    return calls_with(translator), translator


async def fetched(calls: Calls, asked: F2fDispatch = ASKED) -> FetchedResult:
    placement = await calls.dispatch(asked)
    assert isinstance(placement, Placement)
    result = await calls.result(placement.handle, 10_000)
    assert isinstance(result, FetchedResult)
    return result


async def test_a_call_becomes_work_with_all_that_was_asked_for() -> None:
    translator = Translator(Outcome(JobState.NO_TEXT, "job-0-1"))
    options = DispatchOptions(
        require_tts=False, timeout_ms=60_000, preferred_node_id="n1", strict=True, affinity_key="key"
    )
    asked = F2fDispatch(
        session_id="caller",
        src_lang="en",
        tgt_lang="zh",
        audio=AUDIO,
        sample_rate=8_000,
        tenant_id="tenant",
        request_id="r",
        options=options,
    )
    calls = calls_with(translator)
    await fetched(calls, asked)
    await fetched(calls)
    work, plain = translator.work
    assert (work.wait_s, work.session_id, work.utterance_index, plain.utterance_index) == (60.0, "caller", 0, 1)
    assert (work.is_call, work.audio, work.sample_rate, work.duration_ms) == (True, AUDIO, 8_000, 40)
    assert (work.audio_format, work.reason, work.padding_ms) == ("pcm16", CutReason.IS_FINAL, PADDING_MANUAL_MS)
    assert (work.wish, work.request) == (Wish("n1", True, "key"), Request("tenant", "caller", "r"))
    assert (work.trace_id, work.turn_id) == ("trace-i-here-0", "turn-i-here-0")
    assert not work.terms.pipeline.use_tts
    assert work.pools == work.terms.pools()
    assert work.said_at_s > 0
    assert work.node_session_id.startswith("call-")
    # And what is assumed of one who asks for nothing.
    assert plain.terms.pipeline.use_tts
    assert (plain.wait_s, plain.sample_rate, plain.duration_ms, plain.request) == (None, 16_000, 20, None)
    assert plain.wish == Wish("", False, "")
    assert len({work.secret, plain.secret, ""}) == len({work.node_session_id, plain.node_session_id, ""}) == 3


async def test_audio_elsewhere_gets_the_time_of_the_longest_utterance() -> None:
    translator = Translator(Outcome(JobState.NO_TEXT, "job-0-1"))
    asked = F2fDispatch(session_id="caller", src_lang="en", tgt_lang="zh", audio_ref="s3://a", audio_format="opus")
    calls = calls_with(translator, sessions__max_duration_ms=7_000)
    await fetched(calls, asked)
    (work,) = translator.work
    assert (work.audio, work.audio_ref, work.audio_format, work.duration_ms) == (b"", "s3://a", "opus", 7_000)


async def test_while_the_job_runs_its_caller_is_told_so_and_its_audio_counts() -> None:
    budget, translator = AudioBudget(10_000, 10_000), Translator(Outcome(JobState.NO_TEXT, "job-0-1"))
    translator.go_on.clear()
    calls = calls_with(translator, budget)
    placement = await calls.dispatch(ASKED)
    assert isinstance(placement, Placement)
    assert (placement.job_id, placement.node_id, placement.attempt_id) == ("job-0-1", "n1", 1)
    assert await calls.result(placement.handle, 0) == FetchedResult(job_id=placement.handle, state="DISPATCHED")
    assert await calls.result(placement.job_id, 0) is None  # without the secret
    assert (budget.held_bytes, len(calls.jobs)) == (len(AUDIO), 1)
    translator.go_on.set()
    result = await calls.result(placement.handle, 10_000)
    assert isinstance(result, FetchedResult)
    assert result.state == "NO_TEXT"
    await calls.jobs.settle(10)
    assert (budget.held_bytes, calls._placed, calls._waiters) == (0, {}, 0)


@pytest.mark.parametrize(
    ("ends", "state", "code"),
    [
        pytest.param(Outcome(JobState.NO_TEXT, "job-0-1"), "NO_TEXT", None, id="nothing said"),
        pytest.param(Placement("job-0-9", "n9", 1), "CANCELLED", "JOB_CANCELLED", id="a repeat took over"),
        pytest.param(RedisAway("gone"), "FAILED", "SCHEDULER_DEPENDENCY_DOWN", id="Redis away"),
        pytest.param(
            Outcome(JobState.FAILED, "job-0-1", error=ErrorCode.JOB_TIMEOUT, detail="too slow"),
            "FAILED",
            "JOB_TIMEOUT",
            id="failed",
        ),
    ],
)
async def test_the_end_of_a_job_is_kept_for_its_caller(ends: Any, state: str, code: str | None) -> None:
    result = await fetched(calls_with(Translator(ends)))
    assert (result.state, result.error.code if result.error else None) == (state, code)


async def test_a_result_that_is_not_fetched_is_kept_for_a_while() -> None:
    calls, _ = calls_of(Outcome(JobState.NO_TEXT, "job-0-1"))
    await fetched(calls)
    await calls.forget_old()
    assert len(calls._results._kept) == 1
    now_s = calls._clock()
    calls._clock = lambda: now_s + 1_000_000
    await calls.forget_old()
    assert (len(calls._results._kept), calls._results._held_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("ends", "code", "message"),
    [
        (Outcome(JobState.FAILED, "", error=ErrorCode.NO_CAPABLE_NODE, detail="nobody"), "NO_CAPABLE_NODE", "nobody"),
        (Outcome(JobState.FAILED, "", detail="full"), "ALL_CANDIDATES_FULL_OR_FAILED", "full"),
        (Refusal(ErrorCode.REQUEST_CONFLICT, "used"), "REQUEST_CONFLICT", "used"),
        (RedisAway("gone"), "SCHEDULER_DEPENDENCY_DOWN", "Redis is unavailable: gone"),
    ],
)
async def test_who_gets_no_slot_is_told_why(ends: Any, code: str, message: str) -> None:
    found = await calls_with(Translator(ends, is_placed=False)).dispatch(ASKED)
    assert found == Refusal(ErrorCode(code), message)


async def test_a_repeat_is_told_which_job_there_is() -> None:
    theirs = Placement("job-0-9", "n9", 1)
    assert await calls_with(Translator(theirs, is_placed=False)).dispatch(ASKED) == theirs._replace(
        src_lang="en", tgt_lang="zh"
    )


async def test_more_calls_than_allowed_and_too_much_audio_are_refused() -> None:
    translator = Translator(Outcome(JobState.NO_TEXT, "job-0-1"))
    translator.go_on.clear()
    calls = calls_with(translator, calls__max_jobs=1)
    assert isinstance(await calls.dispatch(ASKED), Placement)
    for found in (await calls.dispatch(ASKED), await calls_with(translator, AudioBudget(1, 1)).dispatch(ASKED)):
        assert isinstance(found, Refusal)
        assert found.code is ErrorCode.NODE_OVERLOADED
    translator.go_on.set()
    await calls.jobs.settle(10)


async def test_one_who_still_waits_when_all_is_stopped_is_told_to_go_elsewhere() -> None:
    translator = Translator(Outcome(JobState.NO_TEXT, "job-0-1"), is_placed=False)
    translator.go_on.clear()
    calls = calls_with(translator)
    asking = asyncio.create_task(calls.dispatch(ASKED))
    while not translator.work:
        await asyncio.sleep(0)
    calls.stop_taking_work()
    await calls.jobs.close()
    for found in (await asking, await calls.dispatch(ASKED)):
        assert isinstance(found, Refusal)
        assert found.message == "the scheduler is stopping; ask another instance"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (F2fDispatch(session_id="c", src_lang="en", tgt_lang="zh"), "either audio or audio_ref"),
        (F2fDispatch(session_id="c", src_lang="en", tgt_lang="zh", audio=AUDIO, audio_ref="x"), "either audio"),
        (F2fDispatch(session_id="c", src_lang="en", tgt_lang="zh", audio=b""), "audio is empty"),
        (
            F2fDispatch(
                session_id="c", src_lang="en", tgt_lang="zh", audio=AUDIO, options=DispatchOptions(strict=True)
            ),
            "preferred_node_id",
        ),
        (F2fDispatch(session_id="c", src_lang="en", tgt_lang="", audio=AUDIO), ""),
        (F2fDispatch(session_id="c", src_lang="auto", tgt_lang="zh", audio=AUDIO), "for sessions only"),
    ],
)
async def test_a_call_that_makes_no_sense_is_refused(asked: F2fDispatch, words: str) -> None:
    calls, translator = calls_of(Outcome(JobState.NO_TEXT, "job-0-1"))
    refusal = await calls.dispatch(asked)
    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.INVALID_MESSAGE
    assert words in refusal.message
    assert translator.work == []


async def test_a_strict_call_that_names_its_node_is_taken() -> None:
    calls, translator = calls_of(Outcome(JobState.NO_TEXT, "job-0-1"))
    options = DispatchOptions(strict=True, preferred_node_id="n1")
    asked = F2fDispatch(session_id="c", src_lang="en", tgt_lang="zh", audio=AUDIO, options=options)
    assert isinstance(await calls.dispatch(asked), Placement)
    assert translator.work[0].wish == Wish("n1", is_strict=True)


async def test_without_redis_and_while_it_stops_no_call_is_taken() -> None:
    calls, translator = calls_of(Outcome(JobState.NO_TEXT, "job-0-1"))
    store = cast("Any", calls._store)
    store.is_ready = False
    refusal = await calls.dispatch(ASKED)
    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.SCHEDULER_DEPENDENCY_DOWN
    store.is_ready = True
    calls.stop_taking_work()
    refusal = await calls.dispatch(ASKED)
    assert isinstance(refusal, Refusal)
    assert "stopping" in refusal.message
    assert translator.work == []


async def test_a_caller_that_waited_long_enough_is_told_so_and_its_job_does_not_run() -> None:
    calls, translator = calls_of(Outcome(JobState.NO_TEXT, "job-0-1"), is_placed=False)
    translator.go_on.clear()
    options = DispatchOptions(timeout_ms=1)
    refusal = await calls.dispatch(
        F2fDispatch(session_id="c", src_lang="en", tgt_lang="zh", audio=AUDIO, options=options)
    )
    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED
    assert "en→zh was free within 1 ms" in refusal.message
    assert translator.work[0].wait_s == 0.001
    call = _Call(work(secret="secret"))
    placed: dict[str, _Call] = {}
    call.is_abandoned = True
    assert not _Answering(call, placed).is_waiting
    assert not _Answering(call, placed).placed(ATTEMPT)
    assert placed == {}
    translator.go_on.set()
    await calls.jobs.settle(10)


async def test_a_caller_that_knows_its_job_is_given_no_other() -> None:
    call = _Call(work(secret="secret"))
    placed: dict[str, _Call] = {}
    answering = _Answering(call, placed)
    assert answering.placed(ATTEMPT)
    assert answering.placed(ATTEMPT._replace(number=2, node_id="n2"))
    assert not answering.placed(ATTEMPT._replace(job_id="job-0-2"))
    assert call.placement == Placement("job-0-1", "n2", 2, "secret")
    assert call.answer.result() == Placement("job-0-1", "n1", 1, "secret")
    assert list(placed.values()) == [call]


class Known:
    """Of one job it knows the owner."""

    is_ready = True

    def __init__(self) -> None:
        self.jobs = self

    async def find(self, job_id: str) -> Any:
        if job_id != "job-0-7":
            return None
        return SimpleNamespace(owner="i-there", is_for=lambda visible: visible.shows("", "default"))


async def test_who_asks_for_a_job_of_another_instance_is_told_which() -> None:
    calls, _ = calls_of(Outcome(JobState.NO_TEXT, "job-0-1"))
    calls._store = cast("Any", Known())
    assert await calls.elsewhere("job-0-7.secret") == "i-there"
    for unknown in ("job-0-8.secret", "nonsense", "job-0-7" + "7" * 200):
        assert await calls.elsewhere(unknown) == ""
    assert await calls.elsewhere("job-0-7.secret", "of another") == ""


async def test_a_job_that_is_known_here_is_not_looked_for_elsewhere() -> None:
    calls, _ = calls_of(Outcome(JobState.NO_TEXT, "job-0-7"))
    calls._store = cast("Any", Known())
    calls._instance = "i-here"
    calls._placed["job-0-7.secret"] = cast("Any", None)
    assert await calls.elsewhere("job-0-7.secret") == ""
    del calls._placed["job-0-7.secret"]
    kept = FetchedResult(job_id="job-0-7.kept", state=JobState.DONE)
    calls._results.keep(kept, calls._clock())
    assert await calls.elsewhere("job-0-7.kept") == ""
    calls._instance = "i-there"
    assert await calls.elsewhere("job-0-7.secret") == ""


@pytest.mark.expects_surprise("call.surprised")
async def test_a_call_has_an_end_also_after_a_surprise() -> None:
    result = await fetched(calls_with(Translator(ValueError("as the test asks"))))
    assert result.error is not None
    assert (result.state, result.error.code) == ("FAILED", "INTERNAL_ERROR")
    refused = await calls_with(Translator(ValueError("as the test asks"), is_placed=False)).dispatch(ASKED)
    assert refused == Refusal(ErrorCode.INTERNAL_ERROR, "the scheduler failed")


@pytest.mark.parametrize("timeout_ms", [1, None])
async def test_the_job_of_a_caller_that_does_not_wait_for_a_slot_is_not_wanted(timeout_ms: int | None) -> None:
    heard: list[Any] = []

    class Slow(Translator):
        async def translate(self, work: Work, answering: Any) -> Any:
            heard.append(answering)
            assert answering.is_waiting
            return await super().translate(work, answering)

    translator = Slow(Outcome(JobState.CANCELLED, "job-0-1"), is_placed=False)
    translator.go_on.clear()
    calls = calls_with(translator)
    asked = msgspec.structs.replace(ASKED, options=DispatchOptions(timeout_ms=timeout_ms))
    asking = asyncio.create_task(calls.dispatch(asked))
    while not heard:
        await asyncio.sleep(0)
    if timeout_ms is None:
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    else:
        assert isinstance(await asking, Refusal)
    assert not heard[0].is_waiting
    assert not heard[0].placed(ATTEMPT)
    translator.go_on.set()
    assert await calls.jobs.settle(10) == 0
    assert calls.budget.held_bytes == 0


class Trail:
    """What is told of one call."""

    trace_id = "trace-of-it"

    def __init__(self) -> None:
        self.told: list[Any] = []

    def call(self, carrier: Any, attributes: Any) -> "Trail":
        self.told.append(("call", dict(carrier), attributes["lingua.session_id"]))
        return self

    def settled(self, *end: Any) -> None:
        self.told.append("settled")

    def finish(self) -> None:
        self.told.append("finished")


@pytest.mark.parametrize(("room", "told"), [(10_000, ["settled", "finished"]), (1, ["finished"])])
async def test_a_call_is_followed_in_the_trace_of_its_caller_until_its_end(room: int, told: list[str]) -> None:
    translator, trail = Translator(Outcome(JobState.NO_TEXT, "job-0-1")), Trail()
    calls = calls_with(translator, AudioBudget(room, room))
    calls._trails = cast("Any", trail)
    await calls.dispatch(ASKED, {"traceparent": "00-x"})
    assert await calls.jobs.settle(10) == 0
    assert trail.told[0] == ("call", {"traceparent": "00-x"}, "caller")
    assert trail.told[1:] == told
    assert all(work.trail is calls._trails and work.trace_id == "trace-of-it" for work in translator.work)
    assert len(translator.work) == len(told) - 1


async def test_redis_is_asked_only_for_what_can_be_the_id_of_a_job() -> None:
    calls, _ = calls_of(Outcome(JobState.NO_TEXT, "job-0-1"))
    asked: list[str] = []

    class Asked(Ready):
        async def find(self, job_id: str) -> None:
            asked.append(job_id)

    calls._store = cast("Any", Asked())
    longest = "job-0-" + "7" * 100
    for job_id in ("nonsense", longest + "7", longest):
        assert await calls.elsewhere(job_id) == ""
    assert asked == [longest]
