"""What a session remembers for a client that comes back: enough, and never without end."""

import msgspec

from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.protocol.session import SessionInit, TranslationResult
from lingua_scheduler.protocol.shapes import Message
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.sessions.remembered import ENVELOPE_BYTES, MAX_REMEMBERED_BYTES
from lingua_scheduler.services.sessions.sessions import Session, Sessions
from lingua_scheduler.settings import DeliverySettings, SessionsSettings
from tests.support.waiting import until

INIT = SessionInit(client_version="x", platform="web", src_lang="en", tgt_lang="zh")


class Listener:
    """The other end of a socket, which may be shut."""

    meter = ""

    def __init__(self, is_open: bool = True) -> None:
        self.is_open = is_open
        self.address = ""
        self.heard: list[int] = []
        self.spoken: list[int] = []

    def post(self, message: Message) -> bool:
        if self.is_open and isinstance(message, TranslationResult):
            self.heard.append(message.utterance_index)
            if message.tts_audio:
                self.spoken.append(message.utterance_index)
        return self.is_open

    def ping(self, is_on: bool) -> None:
        pass

    def close(self, code: CloseCode, reason: str) -> None:
        self.is_open = False

    async def answers(self, within_s: float) -> bool:
        return self.is_open


def result(index: int, speech_chars: int = 0) -> TranslationResult:
    return TranslationResult(
        session_id="s",
        utterance_index=index,
        job_id="j",
        trace_id="t",
        text_asr="",
        text_translated="",
        tts_audio="A" * speech_chars,
        tts_format="pcm16",
        scheduler_sent_at_ms=0,
    )


def opened(max_sessions: int = 10, max_bytes: int = 2**28) -> tuple[Sessions, Session]:
    sessions = Sessions(SessionsSettings(), DeliverySettings(), max_sessions, max_bytes)
    session = sessions.make(INIT, Terms("en", "zh"), "i-here 1")
    sessions.add(session)
    return sessions, session


async def test_what_is_remembered_is_bounded_in_size_for_those_away_and_those_here() -> None:
    for listener in (Listener(), Listener(is_open=False)):
        _, session = opened()
        session.attach(listener)
        for index in range(20):
            session.post(result(index, MAX_REMEMBERED_BYTES // 5))
        again = Listener()
        session.resume(again, -1 if listener.is_open else None)
        assert again.heard == list(range(20))  # nothing is lost
        assert again.spoken == [16, 17, 18, 19]  # but only of the latest is there speech


async def test_texts_count_too_and_what_has_no_speech_goes_in_the_end() -> None:
    _, session = opened()
    text = "x" * (MAX_REMEMBERED_BYTES // 5)
    for index in range(20):
        session.post(msgspec.structs.replace(result(index), text_asr=text, extra={"emotion": text}))
    again = Listener()
    session.resume(again, None)
    assert again.heard == [18, 19]


async def test_small_things_count_as_what_they_take_in_memory() -> None:
    sessions, session = opened()
    session.post(msgspec.structs.replace(result(0), segments_meta=[["a", 1]] * 5_000))
    assert sessions.memory.held_bytes > 1_000_000


async def test_all_sessions_together_remember_so_much_and_the_oldest_give_way_first() -> None:
    each = 100_000
    sessions, first = opened(max_bytes=10 * (each + 2 * ENVELOPE_BYTES))
    second = sessions.make(INIT, Terms("en", "zh"), "i-here 2")
    sessions.add(second)
    for index in range(8):
        for session in (first, second):
            session.post(result(index, each))
            assert sessions.memory.held_bytes <= 10 * (each + 2 * ENVELOPE_BYTES)
    for session in (first, second):
        again = Listener()
        session.resume(again, None)
        assert again.heard == list(range(8))
        assert again.spoken == [3, 4, 5, 6, 7]
    # Without speech to lose, whole outcomes go.
    for index in range(8, 30):
        first.post(msgspec.structs.replace(result(index), text_asr="x" * each))
    assert sessions.memory.held_bytes <= 10 * (each + 2 * ENVELOPE_BYTES)
    assert [outcome.utterance_index for outcome in second.backlog] == []


async def test_what_a_session_remembered_goes_with_it() -> None:
    sessions, session = opened()
    for listener in (Listener(), Listener(is_open=False)):
        session.attach(listener)
        session.post(result(len(sessions.memory), 1000))
    assert len(sessions.memory) == 2
    sessions.drop(session)
    session.post(result(9, 1000))  # a job that ended too late
    assert (len(sessions.memory), sessions.memory.held_bytes) == (0, 0)


async def test_a_session_that_was_closed_is_forgotten_after_its_grace_period() -> None:
    sessions = Sessions(SessionsSettings(grace_ms=50), DeliverySettings(), 10)
    session = sessions.make(INIT, Terms("en", "zh"), "i-here 1")
    sessions.add(session)
    session.post(result(0, 1000))
    sessions.drop(session, is_finished=True)
    assert sessions.memory.held_bytes > 1000
    await until(lambda: not sessions.memory.held_bytes)
    assert not sessions.is_full


async def test_one_outcome_larger_than_the_bound_is_still_kept() -> None:
    _, session = opened()
    session.post(result(0, 2 * MAX_REMEMBERED_BYTES))
    again = Listener()
    session.resume(again, None)
    assert again.heard == [0]


async def test_sessions_that_were_closed_refuse_nobody_and_the_oldest_are_forgotten_first() -> None:
    sessions = Sessions(SessionsSettings(max_finished=3), DeliverySettings(), 2)
    closed = []
    for number in range(5):
        session = sessions.make(INIT, Terms("en", "zh"), f"i-here {number}")
        assert not sessions.is_full
        sessions.add(session)
        session.post(result(0, 1000))
        sessions.drop(session, is_finished=True)
        closed.append(session)
    known = [sessions.find_by_token(session.resume_token) is session for session in closed]
    assert known == [False, False, True, True, True]
    assert len(sessions.memory) == 3


async def test_a_closed_session_that_is_forgotten_takes_no_other_with_it() -> None:
    sessions = Sessions(SessionsSettings(grace_ms=20), DeliverySettings(), 10)
    closed, adopted = (sessions.make(INIT, Terms("en", "zh"), f"i-here {number}") for number in range(2))
    adopted.resume_token = closed.resume_token
    sessions.add(closed)
    closed.post(result(0, 1000))
    sessions.drop(closed, is_finished=True)
    sessions.add(adopted)
    await until(lambda: not sessions.memory.held_bytes)
    assert sessions.find_by_token(adopted.resume_token) is adopted


async def test_a_closed_session_whose_socket_goes_is_not_dropped_again() -> None:
    sessions, session = opened()
    listener = Listener()
    session.attach(listener)
    sessions.drop(session, is_finished=True)
    sessions.detach(session, listener, lambda _: None)
    assert session.peer is None
    assert session.grace is None
    assert sessions.find_by_token(session.resume_token) is session


async def test_a_session_nobody_came_back_to_in_time_is_not_resumed() -> None:
    sessions, session = opened()
    sessions.drop(session)
    assert sessions.find_by_token(session.resume_token) is None


async def test_what_sessions_ask_for_is_counted_as_they_come_and_go() -> None:
    sessions = Sessions(SessionsSettings(), DeliverySettings(), 10)
    made = [sessions.make(INIT, Terms("en", target), "owner") for target in ("zh", "zh", "fr")]
    for session in made:
        sessions.add(session)
    assert dict(sessions.languages) == {"en:zh": 2, "en:fr": 1}
    sessions.drop(made[0])
    sessions.drop(made[0])
    sessions.drop(made[2])
    assert dict(sessions.languages) == {"en:zh": 1}
    assert dict(sessions.pools) == {("en:zh:speech",): 1}
