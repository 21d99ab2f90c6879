"""Timers of sessions, and what is taken of what they say."""

import asyncio
import time
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any, cast

import msgspec
import pytest

from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.jobs.requests import Request
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.domain.sessions.utterances import PADDING_AUTO_MS, PADDING_MANUAL_MS, CutReason
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.attempts.work import Outcome, Refusal, Work
from lingua_scheduler.services.dispatch.idempotency import Placement
from lingua_scheduler.services.sessions import intake as intaking
from lingua_scheduler.services.sessions.intake import Intake
from lingua_scheduler.services.sessions.sessions import GATEWAY, Session
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.session import Backpressure, MissingResult, SessionCloseAck, UiEvent, Utterance
from lingua_sdk.protocol.shapes import ErrorMessage
from tests.services.sessions.test_sessions import INIT, Gateway
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET
from tests.support.waiting import until


async def test_a_timer_that_rings_a_little_early_need_not_ring_again(server: RedisProcess) -> None:
    """uvloop rounds to milliseconds; set again for the same moment it would ring at once, again and again."""
    async with scheduler_on(server.url) as (scheduler, _):
        intake = scheduler._intake
        for early_ms, jobs in ((5.0, 0), (0.6, 1)):
            session = intake.openings.sessions.make(INIT, Terms("en", "zh"), "i-here 1")
            intake.chunk(session, 0, PACKET, True)
            due_ms = session.conversation.wake_at_ms
            assert due_ms is not None
            intake._clock = lambda now_s=(due_ms - early_ms) / 1000: now_s  # type: ignore[misc]
            intake._ring(session)
            assert len(intake.jobs) == jobs
            assert jobs or session.timer is not None  # too early: it rings again
            intake._clock = monotonic
            if session.timer is not None:
                session.timer.cancel()


async def test_while_it_stops_no_more_speech_is_taken(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _):
        intake = scheduler._intake
        sessions = intake.openings.sessions
        for is_stopping in (False, True):
            session = sessions.make(INIT, Terms("en", "zh"), "i-here 1")
            if is_stopping:
                intake.stop_taking_work()
            intake.chunk(session, 0, PACKET, False)
            assert session.conversation.is_speaking is not is_stopping
            assert session.audio_bytes == (0 if is_stopping else len(PACKET))


# What becomes of speech: which work it is, and for which it is refused


class Desk:
    """An intake whose utterances are kept, and end when the test says so."""

    def __init__(self, intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
        self.intake = intake
        self.works: list[Work] = []
        self.end: Outcome | Placement | Refusal | Exception = Outcome(JobState.NO_TEXT, "job-0-1")
        self.go_on = asyncio.Event()
        self.notes: list[str] = []
        self.parked: list[int] = []
        monkeypatch.setattr(intake._requests, "translate", self._translate)
        monkeypatch.setattr(intake._records, "note", lambda session: self.notes.append(session.session_id))
        monkeypatch.setattr(
            intake._records,
            "park",
            lambda _session, left: self.parked.extend(answer.utterance_index for answer in left),
        )

    async def _translate(self, work: Work) -> Outcome | Placement | Refusal:
        self.works.append(work)
        await self.go_on.wait()
        if isinstance(self.end, Exception):
            raise self.end
        return self.end

    def open(self, platform: str = "web", **more: Any) -> tuple[Session, Gateway]:
        init = msgspec.structs.replace(INIT, platform=platform, **more)
        sessions = self.intake.openings.sessions
        session, socket = sessions.make(init, Terms("en", "zh"), "i-here 1"), Gateway()
        sessions.add(session)
        session.attach(socket)
        return session, socket

    async def settle(self) -> None:
        self.go_on.set()
        assert await self.intake.jobs.settle(10) == 0
        self.go_on.clear()

    async def begun(self, count: int) -> list[Work]:
        await until(lambda: len(self.works) == count)
        return self.works


@pytest.fixture
async def desk(server: RedisProcess, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    async with scheduler_on(server.url) as (scheduler, _):
        opened = Desk(scheduler._intake, monkeypatch)
        yield opened
        for session in scheduler._intake.openings.sessions.all:
            scheduler._intake.openings.sessions.drop(session)
        await opened.settle()


def utterance(index: int = 0, **more: Any) -> Utterance:
    said: dict[str, Any] = {
        "manual_cut": True,
        "src_lang": "en",
        "tgt_lang": "zh",
        "audio": PACKET * 50,
        "audio_format": "opus",
        "sample_rate": 16_000,
    }
    return Utterance(session_id="s", utterance_index=index, **said | more)


async def test_a_whole_utterance_becomes_work_with_its_own_number_languages_and_format(desk: Desk) -> None:
    session, _ = desk.open(tenant_id="tenant")
    session.is_orphan, session.node_session_id = True, "s-node"
    said = utterance(3, src_lang="fr", trace_id="mine", request_id="r")
    before_s = session.spoke_at_s = session.spoke_at_s - 10
    assert desk.intake.utterance(session, said) is None
    (work,) = await desk.begun(1)
    assert (work.session_id, work.names, work.utterance_index) == (session.session_id, session.names, 3)
    assert (work.terms.src_lang, work.pools) == ("fr", ("fr:zh:speech",))
    assert (work.audio, work.audio_format, work.sample_rate) == (said.audio, "opus", 16_000)
    assert (work.duration_ms, work.trace_id, work.is_adopted) == (1000, "mine", True)
    assert (work.reason, work.padding_ms) == (CutReason.IS_FINAL, PADDING_MANUAL_MS)
    assert work.turn_id == "0"
    assert work.request == Request("tenant", "s-node", "r")
    assert work.said_at_s > 0
    assert session.spoke_at_s > before_s
    assert session.audio_bytes == len(said.audio)
    await desk.settle()
    assert session.audio_bytes == 0


async def test_an_utterance_that_was_cut_by_itself_says_so(desk: Desk) -> None:
    session, _ = desk.open()
    desk.intake.utterance(session, utterance(manual_cut=False))
    (work,) = await desk.begun(1)
    assert (work.reason, work.padding_ms, work.request) == (CutReason.TIMEOUT, PADDING_AUTO_MS, None)
    assert work.trace_id == session.trace_id


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        ({"tgt_lang": ""}, ErrorCode.INVALID_MESSAGE, "utterance:"),
        ({"audio_format": "mp3"}, ErrorCode.INVALID_MESSAGE, "opus or pcm16"),
        ({"utterance_index": 100_000}, ErrorCode.INVALID_MESSAGE, "too far ahead"),
        ({"audio": PACKET * 100}, ErrorCode.NODE_OVERLOADED, "too much audio"),
    ],
)
async def test_an_utterance_that_cannot_be_taken_is_refused_and_takes_no_room(
    desk: Desk, more: dict[str, Any], code: ErrorCode, words: str
) -> None:
    session, _ = desk.open()
    desk.intake.utterance(session, utterance(0))
    await desk.begun(1)
    before = session.audio_bytes
    desk.intake._budget._session_max = before + len(PACKET * 50)
    refusal = desk.intake.utterance(session, msgspec.structs.replace(utterance(1), **more))
    assert refusal is not None
    assert refusal.code is code
    assert words in refusal.message
    assert session.audio_bytes == before
    assert len(desk.intake.jobs) == 1


async def test_an_utterance_that_comes_twice_is_refused_unless_its_client_came_back(desk: Desk) -> None:
    session, socket = desk.open()
    assert desk.intake.utterance(session, utterance()) is None
    refusal = desk.intake.utterance(session, utterance())
    assert refusal is not None
    assert "already sent" in refusal.message
    session.resume(socket, None)
    assert desk.intake.utterance(session, utterance()) is None
    assert len(await desk.begun(1)) == 1


async def test_while_it_stops_an_utterance_is_refused(desk: Desk) -> None:
    session, _ = desk.open()
    desk.intake.stop_taking_work()
    refusal = desk.intake.utterance(session, utterance())
    assert refusal is not None
    assert refusal.code is ErrorCode.NODE_OVERLOADED
    desk.intake.is_open = True


async def test_a_repeated_request_is_taken_once_and_another_one_under_its_id_is_refused(desk: Desk) -> None:
    session, _ = desk.open()
    assert desk.intake.utterance(session, utterance(0, request_id="r")) is None
    assert desk.intake.utterance(session, utterance(1, request_id="r")) is None
    refusal = desk.intake.utterance(session, utterance(1, request_id="r", audio=PACKET * 60))
    assert refusal is not None
    assert "request_id" in refusal.message
    assert len(await desk.begun(1)) == 1
    # What failed, or was refused, may be tried again.
    desk.end = Outcome(JobState.FAILED, "job-0-1", error=ErrorCode.PROCESSING_ERROR)
    await desk.settle()
    assert desk.intake.utterance(session, utterance(1, request_id="r")) is None
    assert len(await desk.begun(2)) == 2
    for _ in range(2):
        too_far = desk.intake.utterance(session, utterance(100_000, request_id="r2"))
        assert too_far is not None
        assert "too far" in too_far.message


async def test_an_utterance_without_audio_is_silence(desk: Desk) -> None:
    session, socket = desk.open()
    assert desk.intake.utterance(session, utterance(audio=b"")) is None
    assert [type(message) for message in socket.messages] == [MissingResult]
    assert len(desk.intake.jobs) == 0


async def test_a_gateway_waits_for_what_it_sent_unless_it_was_refused(desk: Desk) -> None:
    session, _ = desk.open(GATEWAY)
    assert desk.intake.utterance(session, utterance(0)) is None
    assert desk.intake.utterance(session, utterance(1, audio_format="mp3")) is not None
    assert session.awaited == {0}
    # One that comes again does not end the wait for the first.
    assert desk.intake.utterance(session, utterance(0)) is not None
    assert session.awaited == {0}


# Short pieces are joined


def piece(index: int, **more: Any) -> Utterance:
    return utterance(index, audio=PACKET * 10, **{"manual_cut": False} | more)


async def test_short_utterances_are_joined_until_one_is_cut_by_hand(desk: Desk) -> None:
    session, _ = desk.open()
    for index in (4, 5):
        assert desk.intake.utterance(session, piece(index, src_lang="fr")) is None
    assert session.conversation.is_speaking
    assert len(desk.intake.jobs) == 0
    desk.intake.utterance(session, piece(6, src_lang="fr", manual_cut=True))
    await until(lambda: not session.conversation.is_speaking)
    (work,) = await desk.begun(1)
    assert (work.utterance_index, work.terms.src_lang, work.pools) == (4, "fr", ("fr:zh:speech",))
    assert work.audio == PACKET * 30


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"request_id": "r"}, id="a request"),
        pytest.param({"sample_rate": 48_000}, id="another rate"),
        pytest.param({"manual_cut": True}, id="cut by hand"),
        pytest.param({"audio": PACKET * 200}, id="long"),
    ],
)
async def test_an_utterance_that_is_no_piece_is_one_by_itself(desk: Desk, more: dict[str, Any]) -> None:
    session, _ = desk.open()
    desk.intake.utterance(session, msgspec.structs.replace(piece(0), **more))
    assert len(await desk.begun(1)) == 1
    assert session.piece_terms is None


async def test_a_gateways_utterances_are_not_joined(desk: Desk) -> None:
    session, _ = desk.open(GATEWAY)
    desk.intake.utterance(session, piece(0))
    assert len(await desk.begun(1)) == 1


async def test_pieces_end_with_another_language_a_long_utterance_or_a_chunk(desk: Desk) -> None:
    session, _ = desk.open()
    desk.intake.utterance(session, piece(0))
    desk.intake.utterance(session, piece(1, src_lang="fr"))
    desk.intake.utterance(session, utterance(2))
    assert session.piece_terms is None
    works = await desk.begun(3)
    assert [(work.utterance_index, work.terms.src_lang) for work in works] == [(0, "en"), (1, "fr"), (2, "en")]
    other, _ = desk.open()
    desk.intake.utterance(other, piece(0, src_lang="fr"))
    desk.intake.chunk(other, 0, PACKET, False)
    assert other.piece_terms is None
    assert (await desk.begun(4))[3].terms.src_lang == "fr"


async def test_pieces_are_refused_where_whole_utterances_are(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    session, _ = desk.open()
    with monkeypatch.context() as patch:
        patch.setattr(intaking, "MAX_UNDER_WAY", 0)
        refusal = desk.intake.utterance(session, piece(0))
        assert refusal is not None
        assert "too many utterances" in refusal.message
    desk.intake._budget._session_max = 1
    refusal = desk.intake.utterance(session, piece(0))
    assert refusal is not None
    assert "too much audio" in refusal.message
    assert session.audio_bytes == 0


# Chunks


async def test_speech_in_chunks_becomes_work_when_its_client_says_that_it_ends(desk: Desk) -> None:
    session, socket = desk.open()
    desk.intake.chunk(session, 0, PACKET, False)
    assert not desk.intake.is_quiet
    session.resume(socket, None)
    for _ in range(2):  # a client that came back repeats itself
        desk.intake.chunk(session, 1, PACKET, True)
    assert desk.notes == []
    desk.intake.close(session)
    assert desk.notes == [session.session_id]  # another instance must know which speech was taken
    (work,) = await desk.begun(1)
    assert (work.utterance_index, work.audio, work.audio_format) == (0, PACKET * 2, "opus")
    assert (work.session_id, work.duration_ms, work.pools) == (session.session_id, 40, session.pools)
    assert work.names is session.names  # a node knows the session by no other name
    assert (work.turn_id, work.trace_id) == ("0", session.trace_id)
    assert work.binding is session.binding
    assert not desk.intake.is_quiet
    await desk.settle()
    assert desk.intake.is_quiet
    # It was closed: the client is told goodbye after its outcome.
    assert [type(message) for message in socket.messages][-2:] == [MissingResult, SessionCloseAck]
    assert desk.intake.openings.sessions.find(session.session_id) is None


@pytest.mark.parametrize("is_orphan", [False, True])
async def test_the_work_of_a_session_whose_instance_is_gone_says_so(desk: Desk, is_orphan: bool) -> None:
    """Its nodes are coming too, so its work is given time to find them."""
    session, _ = desk.open()
    session.is_orphan = is_orphan
    desk.intake.chunk(session, 0, PACKET, True)
    desk.intake.close(session)
    (work,) = await desk.begun(1)
    assert work.is_adopted is is_orphan
    await desk.settle()


async def test_a_gateway_waits_for_its_chunks_too(desk: Desk) -> None:
    session, _ = desk.open(GATEWAY)
    desk.intake.chunk(session, 0, PACKET, False)
    desk.intake.stop_taking_work()
    assert session.awaited == {0}
    desk.intake.is_open = True


async def test_silence_before_speech_takes_no_room(desk: Desk) -> None:
    session, _ = desk.open()
    silence = b"\0\0" * 16_000
    for seq in range(20):
        desk.intake.chunk(session, seq, silence, False)
    assert session.audio_bytes == session.conversation.held_bytes < 20 * len(silence)
    assert desk.intake._budget.held_bytes == session.audio_bytes


async def test_audio_without_room_is_refused_once_in_a_while(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    session, socket = desk.open()
    now_s = 1000.0
    monkeypatch.setattr(desk.intake, "_clock", lambda: now_s)
    desk.intake._budget._session_max = 1
    for seq in range(3):
        desk.intake.chunk(session, seq, PACKET, False)
    kinds = [type(message) for message in socket.messages]
    assert kinds == [Backpressure, ErrorMessage]
    assert not session.conversation.is_speaking
    now_s += 1.0
    desk.intake.chunk(session, 3, PACKET, False)
    assert [type(message) for message in socket.messages] == kinds * 2


@pytest.mark.parametrize(("ago_ms", "expected"), [(50, True), (-5_000, False), (3_600_000, False)])
async def test_the_way_of_a_frame_is_believed_within_limits(desk: Desk, ago_ms: int, expected: bool) -> None:
    session, _ = desk.open()
    desk.intake.chunk(session, 0, PACKET, False, time.time() * 1000 - ago_ms)
    assert (session.uplink_ms is not None) is expected
    if session.uplink_ms is not None:
        assert session.uplink_ms >= ago_ms
    desk.intake.chunk(session, 1, PACKET, False)
    assert session.uplink_ms is None


# Outcomes


async def test_the_outcome_of_a_client_that_is_away_is_parked(desk: Desk) -> None:
    session, _ = desk.open()
    desk.intake.utterance(session, utterance(0))
    await desk.begun(1)
    session.peer = None
    await desk.settle()
    assert desk.parked == [0]


async def test_the_outcome_of_a_session_that_is_gone_is_not_parked(desk: Desk) -> None:
    session, _ = desk.open()
    desk.intake.utterance(session, utterance(0))
    await desk.begun(1)
    session.peer = None
    desk.intake.openings.sessions.drop(session)
    await desk.settle()
    assert desk.parked == []


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        (Refusal(ErrorCode.REQUEST_CONFLICT, "no"), "REQUEST_CONFLICT", "no"),
        (Placement("job-0-9", "n1", 1), "PROCESSING_ERROR", "another connection"),
    ],
)
async def test_a_request_that_another_has_or_that_is_refused_has_an_outcome(
    desk: Desk, end: Placement | Refusal, code: str, words: str
) -> None:
    session, socket = desk.open()
    desk.end = end
    desk.intake.utterance(session, utterance(0))
    await desk.settle()
    (event,) = [message for message in socket.messages if isinstance(message, UiEvent)]
    assert event.error_code == code
    assert words in (event.hint or "")
    assert [type(message) for message in socket.messages][-1] is MissingResult


@pytest.mark.expects_surprise("job.surprised")
async def test_an_utterance_has_an_outcome_whatever_happens(desk: Desk) -> None:
    session, socket = desk.open()
    desk.end = ZeroDivisionError()
    desk.intake.utterance(session, utterance(0))
    await desk.settle()
    assert session.audio_bytes == 0
    (event,) = [message for message in socket.messages if isinstance(message, UiEvent)]
    assert (event.error_code, event.hint) == ("INTERNAL_ERROR", "the scheduler failed")


async def test_all_of_a_turn_sticks_to_one_node_and_the_next_turn_to_another(desk: Desk) -> None:
    session, _ = desk.open()
    first = desk.intake._binding(session, 0)
    assert desk.intake._binding(session, 0) is first
    second = desk.intake._binding(session, 1)
    assert second is not first
    assert session.bound_turn == 1
    desk.intake._affinity = "session"
    assert desk.intake._binding(session, 2) is second


async def test_who_is_asked_to_pause_is_asked_once_while_it_lasts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    session, socket = desk.open()
    now_s = 1000.0
    monkeypatch.setattr(desk.intake, "_clock", lambda: now_s)
    for _ in range(2):
        desk.intake.ask_to_pause(session, "audio")
    assert [type(message) for message in socket.messages] == [Backpressure]
    now_s += 1.0
    desk.intake.ask_to_pause(session, "audio")
    assert len(socket.messages) == 2


async def test_goodbye_is_said_to_all_that_are_there(desk: Desk) -> None:
    (_, here), (away, _) = desk.open(), desk.open()
    away.peer = None
    desk.intake.say_goodbye()
    assert [code for code, _ in here.closed] == [CloseCode.COME_BACK]


async def test_there_is_one_timer_for_what_is_due_first(desk: Desk) -> None:
    session, _ = desk.open()
    desk.intake.chunk(session, 0, PACKET, False)
    first = session.timer
    assert first is not None
    desk.intake._arm(session)
    assert session.timer is first
    session.rings_at_s += 1000.0  # later than what is due
    desk.intake._arm(session)
    assert first.cancelled()
    assert session.timer is not first
    assert session.rings_at_s == session.conversation.wake_at_ms / 1000  # type: ignore[operator]


# The end of a session, and what is traced


async def test_playback_is_told_and_counts_for_the_conversation(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    session, _ = desk.open()
    told: list[str] = []
    monkeypatch.setattr(desk.intake.delivery, "playback", lambda _session, what: told.append(what))
    armed: list[object] = []
    monkeypatch.setattr(desk.intake, "_arm", armed.append)
    cutter = session.conversation._cutter
    desk.intake.playback_started(session)
    assert cutter._playing_until_ms > desk.intake._now_ms()  # silence is no pause now
    desk.intake.playback_ended(session)
    assert cutter._playing_until_ms <= desk.intake._now_ms()
    assert told == ["TTS_PLAY_STARTED", "TTS_PLAY_ENDED"]
    assert armed == [session]


async def test_what_was_said_is_translated_when_the_scheduler_stops(desk: Desk) -> None:
    session, _ = desk.open()
    desk.intake.chunk(session, 0, PACKET, False)
    desk.intake.stop_taking_work()
    assert not desk.intake.is_open
    assert (await desk.begun(1))[0].audio == PACKET
    await desk.settle()


async def test_a_client_that_has_finished_is_told_so_after_its_last_outcome(desk: Desk) -> None:
    session, socket = desk.open()
    desk.intake.chunk(session, 0, PACKET, False)
    desk.intake.close(session)
    await desk.begun(1)
    assert not any(isinstance(message, SessionCloseAck) for message in socket.messages)
    assert desk.intake.openings.sessions.find(session.session_id) is session
    await desk.settle()
    assert isinstance(socket.messages[-1], SessionCloseAck)
    assert desk.intake.openings.sessions.find(session.session_id) is None


async def test_audio_counts_until_its_job_has_ended(desk: Desk) -> None:
    session, _ = desk.open()
    desk.intake.chunk(session, 0, PACKET, True)
    desk.intake.stop_taking_work()
    await desk.begun(1)
    assert session.audio_bytes == len(PACKET)
    await desk.settle()
    assert session.audio_bytes == 0


class FakeTrail:
    trace_id = "our-trace"

    def __init__(self) -> None:
        self.told: list[str] = []

    def settled(self, *_: object) -> None:
        self.told.append("settled")

    def left(self, **_: object) -> None:
        self.told.append("left")

    def finish(self) -> None:
        self.told.append("finish")


class FakeTrails:
    def __init__(self) -> None:
        self.begun: list[tuple[float, float]] = []
        self.trail = FakeTrail()

    def utterance(self, began_s: float, said_s: float, about: dict[str, Any]) -> FakeTrail:
        assert about["lingua.utterance_index"] == 0
        self.begun.append((began_s, said_s))
        return self.trail


@pytest.mark.parametrize(("given", "known_as"), [(None, "our-trace"), ("theirs", "theirs")])
async def test_an_utterance_is_traced_under_the_clients_id_or_ours(
    desk: Desk, given: str | None, known_as: str
) -> None:
    trails: Any = FakeTrails()
    desk.intake._trails = trails
    session, _ = desk.open(trace_id=given)
    desk.intake.chunk(session, 0, PACKET, False)
    desk.intake.stop_taking_work()
    (work,) = await desk.begun(1)
    assert (work.trace_id, work.trail, session.trails[0]) == (known_as, trails.trail, trails.trail)
    ((began_s, said_s),) = trails.begun
    assert began_s <= said_s == work.said_at_s
    await desk.settle()
    assert trails.trail.told[0] == "settled"


async def test_the_trail_of_an_utterance_that_is_given_up_is_finished(desk: Desk) -> None:
    trails: Any = FakeTrails()
    desk.intake._trails = trails
    session, _ = desk.open()
    desk.intake.chunk(session, 0, PACKET, False)
    desk.intake.stop_taking_work()
    await desk.begun(1)
    await desk.intake.jobs.close()
    assert trails.trail.told == ["finish"]
    assert session.audio_bytes == 0


@pytest.mark.parametrize(("reason", "is_noted"), [(CutReason.MAX_DURATION, True), (CutReason.IS_FINAL, False)])
async def test_the_node_of_a_turn_that_goes_on_is_written_down(desk: Desk, reason: CutReason, is_noted: bool) -> None:
    session, _ = desk.open()
    desk.intake.chunk(session, 0, PACKET, False)
    desk.intake.stop_taking_work()
    (work,) = await desk.begun(1)
    await desk.settle()
    desk.notes.clear()
    desk.go_on.set()
    await desk.intake._translate(session, msgspec.structs.replace(work, reason=reason, utterance_index=1))
    assert desk.notes == ([session.session_id] if is_noted else [])
    await desk.intake._translate(session, msgspec.structs.replace(work, reason=reason, utterance_index=2, binding=None))
    assert len(desk.notes) == is_noted


async def test_speech_that_becomes_too_large_is_cut_at_once_and_its_speaker_goes_on(desk: Desk) -> None:
    session, _ = desk.open()
    for seq in range(2):
        desk.intake.chunk(session, seq, PACKET * 9_000, False)
    (work,) = await desk.begun(1)
    assert (work.audio, work.reason) == (PACKET * 9_000, CutReason.MAX_LENGTH)
    assert desk.notes == [session.session_id]
    assert session.conversation.is_speaking


async def test_silence_that_comes_before_its_turn_is_waited_for(desk: Desk) -> None:
    session, socket = desk.open()
    desk.intake.utterance(session, utterance(0))
    await desk.begun(1)
    assert session.timer is None
    desk.intake.utterance(session, utterance(1, audio=b""))
    assert socket.messages == []
    # The first is overtaken if it takes too long.
    assert session.timer is not None


async def test_when_jobs_are_followed_no_longer_none_is_left(desk: Desk) -> None:
    session, _ = desk.open()
    closed: list[str] = []

    class Direct:
        def close(self) -> None:
            closed.append("direct")

        def __len__(self) -> int:
            return 0

    direct = desk.intake.direct
    desk.intake.direct = None
    desk.intake.utterance(session, utterance(0))
    await desk.begun(1)
    await desk.intake.close_jobs()
    assert len(desk.intake.jobs) == 0
    desk.intake.direct = cast("Any", Direct())
    await desk.intake.close_jobs()
    assert closed == ["direct"]
    desk.intake.direct = direct
