"""What a session remembers for a client that comes back: enough, and never without end."""

from lingua_scheduler.domain.terms import Terms
from lingua_scheduler.protocol.session import SessionInit, TranslationResult
from lingua_scheduler.protocol.shapes import Message
from lingua_scheduler.services.peers import CloseCode
from lingua_scheduler.services.sessions import MAX_REMEMBERED_CHARS, Session, Sessions
from lingua_scheduler.settings import DeliverySettings, SessionsSettings

INIT = SessionInit(client_version="x", platform="web", src_lang="en", tgt_lang="zh")


class Listener:
    """The other end of a socket, which may be shut."""

    def __init__(self, is_open: bool = True) -> None:
        self.is_open = is_open
        self.heard: list[int] = []
        self.spoken: list[int] = []

    def post(self, message: Message) -> bool:
        if self.is_open and isinstance(message, TranslationResult):
            self.heard.append(message.utterance_index)
            if message.tts_audio:
                self.spoken.append(message.utterance_index)
        return self.is_open

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


def opened(max_sessions: int = 10) -> tuple[Sessions, Session]:
    sessions = Sessions(SessionsSettings(), DeliverySettings(), max_sessions)
    session = sessions.make(INIT, Terms("en", "zh"), "i-here 1")
    sessions.add(session)
    return sessions, session


async def test_what_is_remembered_is_bounded_in_size_for_those_away_and_those_here() -> None:
    for listener in (Listener(), Listener(is_open=False)):
        _, session = opened()
        session.attach(listener)
        for index in range(20):
            session.post(result(index, MAX_REMEMBERED_CHARS // 4))
        again = Listener()
        session.resume(again, -1 if listener.is_open else None)
        assert again.heard == list(range(20))  # nothing is lost
        assert again.spoken == [16, 17, 18, 19]  # but only of the latest is there speech


async def test_one_outcome_larger_than_the_bound_is_still_kept() -> None:
    _, session = opened()
    session.post(result(0, 2 * MAX_REMEMBERED_CHARS))
    again = Listener()
    session.resume(again, None)
    assert again.heard == [0]


async def test_sessions_that_just_ended_count_until_they_are_forgotten() -> None:
    sessions, session = opened(max_sessions=1)
    sessions.drop(session, is_finished=True)
    assert len(sessions) == 0
    assert sessions.is_full  # so opening and closing in a loop takes no memory without end


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
