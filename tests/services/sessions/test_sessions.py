"""What a session remembers for a client that comes back: enough, and never without end."""

import asyncio

import msgspec
import pytest

from lingua_scheduler.domain.access.principals import LOCAL, Principal
from lingua_scheduler.domain.jobs.requests import RequestSeen
from lingua_scheduler.domain.pools.lanes import Whose
from lingua_scheduler.domain.sessions.pseudonyms import Pseudonyms
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.sessions.sessions import GATEWAY, Session, Sessions
from lingua_scheduler.setting_sections.sessions import DeliverySettings, SessionsSettings
from lingua_scheduler.telemetry import metrics
from lingua_sdk.protocol.session import MissingResult, SessionCloseAck, SessionInit, TranslationResult
from lingua_sdk.protocol.shapes import Message
from tests.support.waiting import until

# As plain values: a limit that changes is noticed.
ENVELOPE_BYTES = 1_024
MAX_REMEMBERED_BYTES = 1_000_000

INIT = SessionInit(client_version="x", platform="web", src_lang="en", tgt_lang="zh")


class Listener:
    """The other end of a socket, which may be shut."""

    meter = ""
    principal: Principal = LOCAL

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

    def post_frame(self, payload: bytes) -> bool:
        return self.is_open

    def post_encoded(self, message: Message, payload: bytes) -> bool:
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


async def test_sessions_that_were_closed_refuse_nobody_and_the_oldest_are_forgotten_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lingua_scheduler.services.sessions.sessions.MAX_FINISHED", 3)
    sessions = Sessions(SessionsSettings(), DeliverySettings(), 2)
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
    assert dict(sessions.pools) == {(("en:zh:speech",), Whose()): 1}


async def test_a_session_that_came_back_is_not_ended_by_the_timer_of_its_absence() -> None:
    sessions, session = opened()
    listener = Listener()
    session.attach(listener)
    sessions.detach(session, listener, lambda _: None)
    timer = session.grace
    assert timer is not None
    session.resume(Listener(), None)
    assert timer.cancelled()
    assert session.grace is None


# The API gateway: a socket for each utterance, which waits for that one's result


class Gateway(Listener):
    """Keeps everything it hears, and why it was closed."""

    def __init__(self, is_open: bool = True) -> None:
        super().__init__(is_open)
        self.messages: list[Message] = []
        self.closed: list[tuple[CloseCode, str]] = []
        self.pinged: list[bool] = []

    def post(self, message: Message) -> bool:
        self.messages.append(message)
        return super().post(message)

    def ping(self, is_on: bool) -> None:
        self.pinged.append(is_on)

    def close(self, code: CloseCode, reason: str) -> None:
        self.closed.append((code, reason))
        super().close(code, reason)


def gateway_session() -> tuple[Sessions, Session]:
    sessions = Sessions(SessionsSettings(), DeliverySettings(), 10)
    session = sessions.make(msgspec.structs.replace(INIT, platform=GATEWAY), Terms("en", "zh"), "i-here 1")
    sessions.add(session)
    return sessions, session


def missing(index: int) -> MissingResult:
    return MissingResult(session_id="s", utterance_index=index, reason="no node", created_at_ms=0)


async def test_a_gateway_hears_only_what_it_waits_for_and_each_once() -> None:
    _, session = gateway_session()
    socket = Gateway()
    session.attach(socket)
    session.awaited |= {1, 2}
    for index in (0, 1, 1, 2):
        session.post(result(index))
    assert socket.heard == [1, 2]
    assert session.awaited == set()
    assert socket.closed == []


async def test_a_gateway_whose_last_result_is_missing_is_told_and_disconnected() -> None:
    """It would wait for ever."""
    _, session = gateway_session()
    socket = Gateway()
    session.attach(socket)
    session.awaited |= {1, 2}
    session.post(missing(1))
    assert (socket.messages, socket.closed) == ([missing(1)], [])
    session.post(missing(2))
    assert socket.messages == [missing(1), missing(2)]
    assert socket.closed == [(CloseCode.TRY_LATER, "no result: no node")]
    assert [outcome.utterance_index for outcome in session.sent] == [1, 2]


async def test_a_gateway_without_a_socket_leaves_its_result_to_nobody() -> None:
    _, session = gateway_session()
    session.awaited.add(1)
    session.post(missing(1))
    socket = Gateway()
    session.attach(socket)
    assert socket.messages == []
    assert session.backlog.first() is None
    assert socket.pinged == [False]


async def test_a_gateway_that_waits_on_its_former_socket_is_told_that_it_waits_in_vain() -> None:
    _, session = gateway_session()
    first, second, third = Gateway(), Gateway(), Gateway()
    session.attach(first)
    session.attach(second)
    assert first.closed == []
    session.awaited.add(1)
    session.attach(second)  # as with every frame
    assert session.awaited == {1}
    session.attach(third)
    assert [code for code, _ in second.closed] == [CloseCode.SUPERSEDED]
    assert session.awaited == set()


async def test_who_is_no_gateway_keeps_what_it_does_not_wait_for_and_is_pinged() -> None:
    _, session = opened()
    session.post(result(1))
    socket = Gateway()
    session.attach(socket)
    assert (socket.heard, socket.pinged) == ([1], [True])
    session.post(missing(2))
    assert socket.closed == []


async def test_a_message_that_is_no_outcome_is_not_kept_for_later() -> None:
    _, session = opened()
    session.post(SessionCloseAck(session_id="s"))
    socket = Gateway()
    session.attach(socket)
    assert socket.messages == []
    session.post(SessionCloseAck(session_id="s"))
    assert socket.messages == [SessionCloseAck(session_id="s")]


async def test_a_backlog_stops_at_a_socket_that_takes_no_more() -> None:
    _, session = opened()
    session.post(result(1))
    session.attach(Gateway(is_open=False))
    assert session.backlog.first() is not None
    socket = Gateway()
    session.attach(socket)
    assert socket.heard == [1]


async def test_a_socket_speaks_for_a_session_when_it_is_its_own_or_that_is_gone_and_it_has_its_address() -> None:
    _, session = gateway_session()
    own, neighbour, stranger = Gateway(), Gateway(), Gateway()
    own.address = neighbour.address = "192.0.2.1"
    stranger.address = "192.0.2.2"
    session.attach(own)
    assert [session.is_open_to(socket) for socket in (own, neighbour, stranger)] == [True, False, False]
    own.is_open = False
    assert [session.is_open_to(socket) for socket in (own, neighbour, stranger)] == [True, True, False]
    session.peer = None
    assert [session.is_open_to(socket) for socket in (neighbour, stranger)] == [True, False]


async def test_a_client_that_came_back_gets_what_it_did_not_hear_and_its_former_socket_is_closed() -> None:
    _, session = opened()
    first, second = Gateway(), Gateway()
    session.attach(first)
    for index in range(3):
        session.post(result(index))
    session.resume(first, None)  # the same socket may ask again
    assert first.closed == []
    session.resume(second, 1)
    assert second.heard == [2]
    assert [code for code, _ in first.closed] == [CloseCode.SUPERSEDED]


# Places of an address


async def test_an_address_has_so_many_places_and_each_is_given_back_once() -> None:
    sessions = Sessions(SessionsSettings(max_per_address=2), DeliverySettings(), 10)
    made = [sessions.make(INIT, Terms("en", "zh"), "i-here 1") for _ in range(2)]
    for session in made:
        assert sessions.take_place("a")
        sessions.add(session)
        sessions.settle_place("a", session)
    assert not sessions.take_place("a")
    assert sessions.take_place("b")
    assert sessions.take_place("")  # one that has no address is not counted
    sessions.drop(made[0])
    sessions.drop(made[0])
    assert sessions.take_place("a")
    sessions.settle_place("a", made[1])  # it has a place already
    assert sessions.take_place("a")
    sessions.settle_place("a", None)  # it was refused
    assert sessions.take_place("a")
    sessions.settle_place("a", made[0])  # it is gone
    assert sessions.take_place("a")
    assert not sessions.take_place("a")


async def test_a_socket_that_closed_ends_only_its_own_session_and_one_that_is_held() -> None:
    sessions, session = opened()
    here, elsewhere = Listener(), Listener()
    session.attach(here)
    sessions.detach(session, elsewhere, lambda _: None)
    assert session.peer is here
    sessions.drop(session)
    sessions.detach(session, here, lambda _: None)
    assert session.grace is None
    assert session.peer is None


async def test_sessions_in_which_nothing_was_said_for_a_while_are_known() -> None:
    sessions, session = opened()
    other = sessions.make(INIT, Terms("en", "zh"), "i-here 1")
    sessions.add(other)
    session.spoke_at_s -= 10.0
    assert sessions.silent_for(5.0) == [session]
    assert sessions.all == [session, other]


async def test_an_id_that_is_in_use_is_not_given_again() -> None:
    sessions, session = opened(max_sessions=1)
    assert sessions.is_full
    again = sessions.make(INIT, Terms("en", "zh"), "i-here 1", session.session_id)
    assert again.session_id != session.session_id
    assert sessions.make(INIT, Terms("en", "zh"), "i-here 1", "s-1").session_id == "s-1"


# A session as it is made, and as it is dropped


async def test_a_new_session_knows_what_its_client_asked_for_and_nothing_else() -> None:
    sessions = Sessions(SessionsSettings(), DeliverySettings(), 10, clock=lambda: 55.0)
    init = msgspec.structs.replace(INIT, tenant_id="t1", trace_id="trace-1")
    session = sessions.make(init, Terms("en", "zh"), "i-here 1", "s-mine")
    assert (session.session_id, session.owner, session.generation, session.asked) == ("s-mine", "i-here 1", 1, "")
    assert (session.pools, session.is_gateway, session.is_closed) == (("en:zh:speech",), False, False)
    assert (session.tenant_id, session.given_trace_id, session.trace_id) == ("t1", "trace-1", "trace-1")
    assert (session.whole_terms, session.piece_terms, session.whole_pools, session.piece_pools) == (None, None, (), ())
    assert (session.awaited, session.away, session.trails, session.peer) == (set(), {}, {}, None)
    assert (session.address, session.meter, session.spoke_at_s) == ("", "", 55.0)
    assert (session.timer, session.grace, session.rings_at_s, session.noted_at_s) == (None, None, 0.0, 0.0)
    assert (session.is_noting, session.must_note) == (False, False)
    assert (session.binding.node_id, session.bound_turn) == ("", -1)
    assert (session.audio_bytes, session.paused_until_ms, session.refused_until_ms) == (0, 0.0, 0.0)
    assert (session.uplink_ms, session.playing) == (None, None)
    assert session.requests.look("r1", "payload") is RequestSeen.FIRST
    assert session.resume_token.startswith("s-mine")
    session.conversation.close()
    assert session.is_closed
    other = sessions.make(INIT, Terms("en", "zh"), "i-here 2")
    assert (other.tenant_id, other.given_trace_id, len(other.trace_id)) == ("", None, 16)
    assert other.resume_token != session.resume_token


async def test_sessions_are_counted_and_full_at_their_limit() -> None:
    sessions, session = opened(max_sessions=2)
    assert (len(sessions), sessions.is_full, sessions.all) == (1, False, [session])
    second = sessions.make(INIT, Terms("en", "fr"), "i-here 2")
    sessions.add(second)
    assert sessions.is_full
    assert metrics.REGISTRY.get_sample_value("lingua_sessions_open") == 2
    assert sessions.find_by_token(second.resume_token) is second
    sessions.drop(second)
    assert metrics.REGISTRY.get_sample_value("lingua_sessions_open") == 1
    assert (sessions.find(second.session_id), sessions.find_by_token(second.resume_token)) == (None, None)
    sessions.drop(second)
    assert len(sessions) == 1


async def test_a_session_that_is_dropped_has_no_timers_left() -> None:
    sessions, session = opened()
    loop = asyncio.get_running_loop()
    session.timer, session.grace = loop.call_later(60, print), loop.call_later(60, print)
    timers = (session.timer, session.grace)
    sessions.drop(session)
    assert [timer.cancelled() for timer in timers] == [True, True]


async def test_a_session_without_a_socket_and_a_closed_one_have_their_grace_period() -> None:
    sessions = Sessions(SessionsSettings(grace_ms=30_000), DeliverySettings(), 10)
    loop = asyncio.get_running_loop()
    away, closed = (sessions.make(INIT, Terms("en", "zh"), "i-here 1") for _ in range(2))
    for session in (away, closed):
        sessions.add(session)
        session.attach(Gateway())
    assert away.peer is not None
    before_s = loop.time()
    sessions.detach(away, away.peer, lambda _session: None)
    sessions.drop(closed, is_finished=True)
    assert away.grace is not None
    for timer in (away.grace, sessions._finished[closed]):
        assert timer is not None
        assert timer.when() - before_s == pytest.approx(30, abs=10)
    sessions.drop(away)
    sessions._finished.pop(closed).cancel()


async def test_nodes_know_a_session_by_the_cluster_key_or_else_by_its_token() -> None:
    sessions, session = opened()
    own = Pseudonyms(session.resume_token.encode(), session.session_id)
    assert session.names.at("n").session_id == own.at("n").session_id
    sessions.names_key = b"k" * 32
    claimed = sessions.make(INIT, Terms("en", "zh"), "i-here 1", "s-claimed")
    claimed.node_session_id = "s-claimed-3"
    sessions.add(claimed)
    assert claimed.names.at("n").session_id == Pseudonyms(b"k" * 32, "s-claimed", "-3").at("n").session_id
