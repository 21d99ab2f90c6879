"""A file as jobs: it waits for busy nodes as long as its caller does, and leaves nothing behind."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.principals import LOCAL
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.protocol.http_dispatch import FetchedResult
from lingua_scheduler.protocol.uploads import Decoded, Flaw, NotDecoded, Piece, SoundFormat, wav_of
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.dispatch import translating
from lingua_scheduler.services.dispatch.idempotency import Placement
from lingua_scheduler.services.dispatch.translating import NOT_IN_TIME, FileOutcome, FileTranslations, Upload
from lingua_scheduler.store.connection import RedisAway
from lingua_sdk.domain.errors import ErrorCode
from tests.support.peers import FakeNode, Field, Frame, answer, field, result_of, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.sounds import a_minute, sample_pcm16
from tests.support.waiting import until

# As plain values: a limit that changes is noticed.
AT_ONCE = 3


def upload(pcm16: bytes, timeout_s: float = 60.0, **changes: Any) -> Upload:
    return Upload(wav_of(pcm16), SoundFormat.WAV, "en", "zh", True, timeout_s, {}, "192.0.2.1")._replace(**changes)


@asynccontextmanager
async def place(server: RedisProcess, **changes: Any) -> AsyncIterator[tuple[Scheduler, Field]]:
    async with scheduler_on(server.url, **changes) as (scheduler, _), field(scheduler.port) as peers:
        yield scheduler, peers


def jobs_begun(scheduler: Scheduler) -> int:
    return int(repr(scheduler._dispatcher._serials).strip("count()"))


async def translated(scheduler: Scheduler, file: Upload) -> Any:
    return await scheduler._translations.translate(file, lambda: True)


async def test_a_file_that_finds_no_place_in_the_queue_tries_again(server: RedisProcess) -> None:
    busy = asyncio.Event()

    async def work(node: FakeNode, job: Frame) -> None:
        await busy.wait()
        await answer(node, job)

    patient = {"dispatch__queue_wait_ms": 300_000, "job__timeout_base_ms": 300_000}
    async with place(server, dispatch__queue_max=1, **patient) as (scheduler, peers):
        node = await peers.node(work, max_concurrent_jobs=1)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: node.jobs)
        await client.utterance(1)
        await until(lambda: len(scheduler._waiting))
        running = asyncio.create_task(translated(scheduler, upload(sample_pcm16(), timeout_s=300.0)))
        await until(lambda: jobs_begun(scheduler) > 4, what="a second try")
        busy.set()
        outcome = await running
        assert isinstance(outcome, FileOutcome)
        assert [piece.result.state for piece in outcome.pieces] == ["DONE"]


async def test_results_are_not_kept_after_they_were_read(server: RedisProcess) -> None:
    async with place(server) as (scheduler, peers):
        await peers.node()
        await translated(scheduler, upload(sample_pcm16()))
        assert len(scheduler._calls._results) == 0
        assert scheduler._calls.budget.held_bytes == 0


async def test_a_stopping_scheduler_and_bad_languages_decode_nothing(server: RedisProcess) -> None:
    async with place(server) as (scheduler, peers):
        await peers.node(stay_silent)
        refused = await translated(scheduler, upload(b"", tgt_lang="!"))
        assert isinstance(refused, Refusal)
        assert refused.code is ErrorCode.INVALID_MESSAGE
        scheduler._calls.stop_taking_work()
        refused = await translated(scheduler, upload(b""))
        assert isinstance(refused, Refusal)
        assert refused.code is ErrorCode.NODE_OVERLOADED


async def test_a_dropped_result_is_told_as_lost(server: RedisProcess) -> None:
    async with place(server, calls__max_result_bytes=1_024) as (scheduler, peers):
        await peers.node()
        scheduler._calls._results._settings = msgspec.structs.replace(
            scheduler._calls._results._settings, max_result_bytes=1
        )
        outcome = await translated(scheduler, upload(sample_pcm16()))
        assert isinstance(outcome, FileOutcome)
        (piece,) = outcome.pieces
        assert piece.result.error is not None
        assert piece.result.error.code == ErrorCode.RESULT_LOST


def speaking(chars: int) -> Any:
    async def work(node: FakeNode, job: Frame) -> None:
        await node.socket.send(result_of(job, node.node_id, tts_audio="A" * chars, tts_format="pcm16"))

    return work


async def test_speech_of_a_file_counts_as_waiting_audio(server: RedisProcess) -> None:
    async with place(server, server__max_audio_bytes=8_000_000) as (scheduler, peers):
        # Of the 4 MB that callers may hold, the file itself has almost 2.
        await peers.node(speaking(800_000))
        outcome = await translated(scheduler, upload(a_minute()))
        assert isinstance(outcome, FileOutcome)
        errors = [piece.result.error for piece in outcome.pieces if piece.result.error]
        assert len(outcome.pieces) - len(errors) == 2
        assert {error.code for error in errors} == {ErrorCode.NODE_OVERLOADED}
        assert scheduler._calls.budget.held_bytes == 0


async def test_one_file_has_only_so_much_speech(server: RedisProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translating, "MAX_SPEECH_CHARS", 1_000)
    async with place(server) as (scheduler, peers):
        await peers.node(speaking(400))
        outcome = await translated(scheduler, upload(a_minute()))
        assert isinstance(outcome, FileOutcome)
        assert sum(piece.result.tts_audio is not None for piece in outcome.pieces) == 2
        assert scheduler._calls.budget.held_bytes == 0


# By itself


class Studio:
    """Decoder, calls and cancelling in one; each piece ends as the test says."""

    def __init__(self) -> None:
        self.budget = self
        self.now_s = 100.0
        self.held = 0
        self.has_room = True
        self.refuses: Refusal | None = None
        self.pieces = [Piece(0, b"\0" * 32_000), Piece(2_000, b"\0" * 16_000)]
        self.decoded: Any = None
        self.asked: list[Any] = []
        self.placed: list[Any] = []
        self.results: dict[str, FetchedResult | None] = {}
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.cancelled: list[str] = []
        self.is_away = False
        self.joined: list[Any] = []
        # For whom room was taken and given back, and a decoder was asked for.
        self.callers: list[str] = []
        me: Any = self
        self.files = FileTranslations(me, me, me, lambda: self.now_s)

    def refusal(self) -> Refusal | None:
        return self.refuses

    def take_of_caller(self, size: int, caller: str = "") -> bool:
        self.callers += [caller] * bool(caller)
        self.held += size if self.has_room else 0
        return self.has_room

    def give_back_of_caller(self, size: int, caller: str = "") -> None:
        self.callers += [caller] * bool(caller)
        self.held -= size

    async def decode(self, sound: bytes, format: SoundFormat, caller: str) -> Any:  # noqa: A002 - as it is called
        self.callers.append(caller)
        self.now_s += 0.25
        return self.decoded or Decoded(3_000, self.pieces)

    async def dispatch(self, asked: Any, carrier: Any, principal: Any) -> Any:
        assert principal is LOCAL
        self.asked.append((asked, carrier))
        if self.placed:
            return self.placed.pop(0)
        return Placement(f"job-{len(self.asked)}", "n1", 1, "secret")

    async def take_result(self, handle: str) -> FetchedResult | None:
        await self.may_end.wait()
        self.now_s += 1
        return self.results.get(handle, FetchedResult(job_id=handle, state=JobState.DONE))

    async def cancel(self, job_id: str) -> None:
        self.cancelled.append(job_id)
        if self.is_away:
            raise RedisAway("nobody there")

    async def join(self, sounds: Any, caller: str) -> bytes:
        self.callers.append(caller)
        self.joined.append(sounds)
        return b"joined"

    async def translate(self, is_connected: Any = lambda: True, **changes: Any) -> Any:
        return await self.files.translate(upload(b"\0" * 100, **changes), is_connected)


@pytest.fixture
def studio() -> Studio:
    return Studio()


def spoken(handle: str, name: str | None, sound: bytes) -> FetchedResult:
    return FetchedResult(job_id=handle, state=JobState.DONE, tts_format=name, tts_audio=b64encode(sound).decode())


async def test_each_piece_is_a_job_and_the_outcome_tells_where_it_was(studio: Studio) -> None:
    outcome = await studio.translate(carrier={"traceparent": "t"}, wants_speech=False)
    assert isinstance(outcome, FileOutcome)
    assert (outcome.audio_ms, outcome.decoding_ms, outcome.total_ms, outcome.speech) == (3_000, 250, 2_250, b"")
    assert [(piece.begins_ms, piece.duration_ms) for piece in outcome.pieces] == [(0, 1_000), (2_000, 500)]
    assert [piece.result.job_id for piece in outcome.pieces] == ["job-1.secret", "job-2.secret"]
    asked, carrier = studio.asked[0]
    assert (asked.src_lang, asked.tgt_lang, asked.audio, carrier) == ("en", "zh", b"\0" * 32_000, {"traceparent": "t"})
    assert (asked.options.require_tts, asked.options.timeout_ms) == (False, 59_750)
    assert studio.held == 0


async def test_speech_of_the_pieces_is_joined_in_their_order(studio: Studio) -> None:
    studio.results = {"job-1.secret": spoken("1", "pcm16", b"ab"), "job-2.secret": spoken("2", None, b"cd")}
    assert (await studio.translate()).speech == wav_of(b"abcd")
    studio.asked.clear()
    studio.results["job-2.secret"] = spoken("2", "opus", b"cd")
    assert (await studio.translate()).speech == b"joined"
    assert studio.joined == [[("pcm16", b"ab"), ("opus", b"cd")]]
    # Of two files: room is taken and given back, both are decoded, and the speech of one is joined.
    assert studio.callers == ["192.0.2.1"] * 7
    studio.asked.clear()
    studio.results = {}
    assert (await studio.translate()).speech == b""


async def test_what_cannot_be_begun_is_refused_and_takes_no_room(studio: Studio) -> None:
    refused = Refusal(ErrorCode.NODE_OVERLOADED, "busy")
    studio.refuses = refused
    assert await studio.translate() is refused
    studio.refuses, studio.has_room = None, False
    refusal = await studio.translate()
    assert (refusal.code, "too much audio" in refusal.message) == (ErrorCode.NODE_OVERLOADED, True)
    bad = await studio.translate(src_lang="no such language")
    assert bad.code is ErrorCode.INVALID_MESSAGE
    auto = await studio.translate(src_lang="auto")
    assert (auto.code, "for sessions only" in auto.message) == (ErrorCode.INVALID_MESSAGE, True)
    assert (studio.held, studio.asked) == (0, [])


async def test_a_sound_that_cannot_be_decoded_is_told(studio: Studio) -> None:
    studio.decoded = NotDecoded(next(iter(Flaw)), "broken")
    assert await studio.translate() is studio.decoded
    assert studio.held == 0


async def test_a_decoder_that_takes_too_long_is_a_timeout(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(studio, "decode", never)
    refusal = await studio.translate(timeout_s=0.01)
    assert (refusal.code, refusal.message) == (ErrorCode.JOB_TIMEOUT, NOT_IN_TIME)


async def test_a_piece_that_is_refused_is_tried_again_only_if_all_nodes_were_busy(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translating, "TRY_AGAIN_S", 0.0)
    studio.pieces = studio.pieces[:1]
    busy = Refusal(ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED, "busy")
    studio.placed = [busy, busy, Placement("job-9", "n1", 1, "secret")]
    outcome = await studio.translate()
    assert [piece.result.job_id for piece in outcome.pieces] == ["job-9.secret"]
    studio.placed = [Refusal(ErrorCode.NO_CAPABLE_NODE, "nobody speaks it")]
    (piece,) = (await studio.translate()).pieces
    assert piece.result.error is not None
    assert (piece.result.state, piece.result.error.code) == (JobState.FAILED, ErrorCode.NO_CAPABLE_NODE)
    assert piece.result.error.detail == "nobody speaks it"


async def test_a_result_that_was_dropped_is_lost(studio: Studio) -> None:
    studio.pieces = studio.pieces[:1]
    studio.results = {"job-1.secret": None}
    (piece,) = (await studio.translate()).pieces
    assert piece.result.error is not None
    assert piece.result.error.code is ErrorCode.RESULT_LOST


@pytest.mark.parametrize("is_away", [False, True])
async def test_who_leaves_has_the_jobs_cancelled(
    studio: Studio, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    monkeypatch.setattr(translating, "LOOK_EVERY_S", 0.01)
    studio.may_end.clear()
    studio.is_away = is_away
    assert await studio.translate(lambda: not studio.asked) is None
    await until(lambda: len(studio.cancelled) == 2)
    assert sorted(studio.cancelled) == ["job-1", "job-2"]
    assert studio.held == 0
    await studio.files.close()


async def test_few_pieces_are_translated_at_once(studio: Studio) -> None:
    studio.pieces = [Piece(0, b"\0" * 32)] * (AT_ONCE + 2)
    studio.may_end.clear()
    translating_it = asyncio.create_task(studio.translate())
    await until(lambda: len(studio.asked) >= AT_ONCE)
    await asyncio.sleep(0.02)
    assert len(studio.asked) == AT_ONCE
    studio.may_end.set()
    assert len((await translating_it).pieces) == AT_ONCE + 2


async def test_what_was_done_in_time_is_kept_and_the_rest_is_a_timeout(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    studio.pieces = [Piece(0, b"\0" * 32)] * (AT_ONCE + 2)

    async def first_alone(handle: str) -> FetchedResult:
        if handle != "job-1.secret":
            await asyncio.Event().wait()
        return FetchedResult(job_id=handle, state=JobState.DONE)

    monkeypatch.setattr(studio, "take_result", first_alone)
    outcome = await studio.translate(timeout_s=0.2)
    assert isinstance(outcome, FileOutcome)
    states = [piece.result.state for piece in outcome.pieces]
    assert states == [JobState.DONE, *[JobState.FAILED] * (AT_ONCE + 1)]
    assert {piece.result.error.code for piece in outcome.pieces if piece.result.error} == {ErrorCode.JOB_TIMEOUT}
    assert len(studio.asked) == AT_ONCE + 1
    await until(lambda: len(studio.cancelled) == AT_ONCE)
