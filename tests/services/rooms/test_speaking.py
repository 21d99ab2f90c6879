"""The speaker's side where something goes wrong; what goes well is in tests/e2e/test_room_speech.py."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lingua_scheduler.domain.access.principals import LOCAL, Principal, PrincipalKind
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.rooms.rooms import AboutMember, Participant, RoomName, RoomOutcome, RoomState
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.protocol.bus import RoomMissed, RoomSaid
from lingua_scheduler.services.attempts.work import Outcome, Work
from lingua_scheduler.services.cluster.letters import Letter
from lingua_scheduler.services.dispatch.staged import Listeners
from lingua_scheduler.services.rooms import speaking as speaking_module
from lingua_scheduler.services.rooms.hearing import Hearing
from lingua_scheduler.services.rooms.replays import Replays
from lingua_scheduler.services.rooms.rooms_here import RoomsHere
from lingua_scheduler.services.rooms.speaking import RoomSpeech
from lingua_scheduler.services.sessions.sessions import UNTOLD, Session
from lingua_scheduler.setting_sections.rooms import RoomsSettings
from lingua_scheduler.setting_sections.sessions import DeliverySettings
from lingua_scheduler.store.connection import RedisAway
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.node import JobResult
from tests.support.speech import work

NAME = RoomName("default", "483920")
RESULT = JobResult(
    job_id="j", attempt_id=1, node_id="n", session_id="s", utterance_index=0, success=True, trace_id="t", text_asr="one"
)


class Scene:
    """Ann speaks English here; others are at other instances. `answers` are those of Redis, one a call."""

    def __init__(self, *languages: str, answers: tuple[Any, ...] = ((RoomOutcome.SAID, 1),), **settings: Any) -> None:
        about = [
            AboutMember(language="en", events=True),
            *(AboutMember(language=one, events=True) for one in languages),
        ]
        members = tuple(Participant(str(number), f"i{number} 1-1", one, number) for number, one in enumerate(about))
        self.rooms = RoomsHere()
        self.session = cast(
            "Session",
            SimpleNamespace(
                session_id="0", stay=None, room_places=None, uplink_ms=None, trace_id="t", terms=None, caller=LOCAL
            ),
        )
        self.here = self.rooms.add(RoomState(NAME, "id", "r", 1, 0, False, members), self.session, 0)
        self.started: list[tuple[Work, dict[str, bool], Listeners]] = []
        self.settled: list[Outcome] = []
        self.plain: list[Work] = []
        self.counted: list[tuple[str, ...]] = []
        self.letters: list[tuple[set[str], Any]] = []
        self._answers = iter(answers)
        notices: Any = SimpleNamespace(instance="i0", to=self._post)
        hearing = Hearing(self.rooms, notices, Replays(10_000, 60), DeliverySettings())
        delivery = SimpleNamespace(count=lambda work, _: self.counted.append(work.pools))
        intake: Any = SimpleNamespace(
            translate=lambda _, work: self.plain.append(work),
            ended=self._ended,
            settle_utterance=self._ended,
            delivery=delivery,
        )
        staged: Any = SimpleNamespace(
            start=lambda *start: self.started.append(start), served_as=lambda _, language: language
        )
        store: Any = SimpleNamespace(said=self._said)
        self.speaking = RoomSpeech(store, hearing, intake, staged, RoomsSettings(**settings))

    async def say(self, index: int = 0, session: Session | None = None) -> bool:
        session = session or self.session
        said = work(session_id=session.session_id, utterance_index=index, terms=Terms("en", "zh"))
        taken = self.speaking.take(session, said)
        await self.speaking.tasks.settle(30)
        return taken

    def beside(self) -> Session:
        """Another member, at this instance too."""
        session = cast(
            "Session",
            SimpleNamespace(
                session_id="1",
                stay=None,
                room_places=None,
                uplink_ms=None,
                trace_id="t",
                terms=None,
                peer=None,
                caller=LOCAL,
            ),
        )
        self.rooms.add(self.here.state, session, 0)
        return session

    def end(self, language: str, outcome: Outcome) -> None:
        ((_, _, listeners),) = self.started
        if outcome.result is not None and not any(self.heard):
            listeners.on_recognised("one", "en")
        listeners.on_outcome(language, outcome)

    @property
    def heard(self) -> list[str]:
        return [one.text for one in self.speaking._under_way.values()]

    async def sent(self) -> list[tuple[set[str], Any]]:
        await self.speaking.tasks.settle(30)
        return self.letters

    def _ended(self, _session: Session, _work: Work, outcome: Outcome) -> None:
        self.settled.append(outcome)

    async def _said(self, *_: Any) -> Any:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _post(self, instances: set[str], message: Any) -> None:
        self.letters.append((set(instances), message))


DONE = Outcome(JobState.DONE, "j", result=RESULT)
FAILED = Outcome(JobState.FAILED, "j", error=ErrorCode.JOB_TIMEOUT, detail="d")
NO_TEXT = Outcome(JobState.NO_TEXT, "j")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speaking_module, "RETRY_S", (0.0, 0.0))


async def test_the_languages_of_the_others_are_asked_for() -> None:
    scene = Scene("zh", "pt")
    assert await scene.say()
    ((_, targets, _),) = scene.started
    assert targets == {"zh": True, "pt": True}


async def test_if_all_share_the_language_what_was_said_is_recognised() -> None:
    scene = Scene("en")
    await scene.say()
    ((job, targets, _),) = scene.started
    assert (targets, job.pools) == ({"en": False}, ("en:en:text",))
    scene.end("en", DONE)
    (said,) = [message for _, message in await scene.sent() if isinstance(message, RoomSaid)]
    assert b'"text_translated":"one"' in said.frame


async def test_one_alone_is_left_to_the_ordinary_way() -> None:
    assert not await Scene().say()


async def test_redis_that_is_away_for_a_moment_is_asked_again() -> None:
    scene = Scene("zh", answers=(RedisAway("gone"), (RoomOutcome.AGAIN, 4)))
    await scene.say()
    assert scene.session.room_places == {0: 4}


async def test_redis_that_stays_away_fails_the_utterance_and_gives_its_place_back() -> None:
    scene = Scene("zh", answers=(RedisAway("gone"),) * 3 + ((RoomOutcome.SAID, 1),), max_jobs=1)
    await scene.say()
    (failed,) = scene.settled
    assert failed.error is ErrorCode.SCHEDULER_DEPENDENCY_DOWN
    await scene.say(1)
    assert len(scene.started) == 1


async def test_a_room_that_redis_has_lost_is_written_again() -> None:
    scene = Scene("zh", answers=((RoomOutcome.UNKNOWN, 0), (RoomOutcome.SAID, 5)))
    restored: list[object] = []

    async def restore(here: object) -> None:
        restored.append(here)

    scene.speaking.restore = restore
    await scene.say()
    assert restored == [scene.here]
    assert scene.session.room_places == {0: 5}


async def test_one_who_has_just_left_is_translated_for_itself() -> None:
    scene = Scene("zh", answers=((RoomOutcome.UNKNOWN, 0),) * 2, max_jobs=1)
    await scene.say()
    assert [job.utterance_index for job in scene.plain] == [0]
    assert not scene.started
    assert not scene.speaking._jobs


async def test_two_sessions_of_one_person_are_one_speaker_also_if_its_address_changes() -> None:
    scene = Scene("en", "zh", "pt", answers=tuple((RoomOutcome.SAID, number) for number in range(1, 100)), max_jobs=16)
    one: Any = scene.session
    other: Any = scene.beside()
    one.peer = None
    for session in (one, other):
        session.caller = Principal(kind=PrincipalKind.CLIENT, scopes=frozenset(), tenant="acme", key_id="k1")
        session.address = "10.0.0.1"
    for index in range(20):
        await scene.say(index)
        await scene.say(index, other)
    assert len(scene.started) == 4
    one.address = other.address = "10.0.0.2"
    for _, _, listeners in list(scene.started):
        for language in ("zh", "pt"):
            listeners.on_outcome(language, NO_TEXT)
    assert not scene.speaking._jobs


async def test_one_that_floods_takes_no_place_from_the_speaker_beside_it() -> None:
    scene = Scene("en", "zh", "pt", answers=tuple((RoomOutcome.SAID, number) for number in range(1, 100)), max_jobs=16)
    honest = scene.beside()
    for index in range(20):
        await scene.say(index)
    assert len(scene.started) == 4
    refused = [outcome.error for outcome in scene.settled]
    assert refused == [ErrorCode.NODE_OVERLOADED] * 16
    for index in range(2):
        await scene.say(index, honest)
    assert len(scene.settled) == 16
    # What one gives back, the other may have.
    for _, _, listeners in scene.started[:2]:
        for language in ("zh", "pt"):
            listeners.on_outcome(language, NO_TEXT)
    await scene.say(2, honest)
    assert len(scene.started) == 7


async def test_nothing_is_kept_of_a_speaker_that_left_while_its_utterance_was_numbered() -> None:
    scene = Scene("zh")
    said = scene.speaking._store.said

    async def leaves(*asked: Any) -> Any:
        scene.rooms.forget(scene.session)
        return await said(*asked)

    cast("Any", scene.speaking._store).said = leaves
    await scene.say()
    assert len(scene.started) == 1
    assert not scene.here.translating


async def test_the_speaker_is_told_when_all_have_ended_and_the_best_of_them() -> None:
    scene = Scene("zh", "pt", "ja")
    await scene.say()
    scene.end("zh", FAILED)
    scene.end("pt", DONE)
    assert not scene.settled
    scene.end("ja", NO_TEXT)
    # Not before the others have what they are told: only the speaker's client could say it again.
    assert not scene.settled
    await scene.sent()
    (told,) = scene.settled
    assert told.state is JobState.DONE
    assert scene.counted == [("en:zh:speech",), ("en:pt:speech",), ("en:ja:speech",)]
    assert not scene.speaking._jobs
    assert not scene.speaking._under_way


async def test_an_outcome_goes_once_to_each_instance_with_listeners_of_its_language() -> None:
    scene = Scene("zh", "zh", "pt")
    await scene.say()
    scene.end("zh", DONE)
    outcomes = [(to, message.language) for to, message in await scene.sent() if isinstance(message, RoomSaid)]
    assert outcomes == [({"i1", "i2"}, "zh")]


@pytest.mark.parametrize(("ends", "reads"), [((FAILED, DONE), "one"), ((NO_TEXT, FAILED), "missing_result")])
async def test_who_shares_the_language_reads_what_one_job_recognised(ends: tuple[Outcome, ...], reads: str) -> None:
    scene = Scene("zh", "pt", "en")
    await scene.say()
    for language, outcome in zip(("zh", "pt"), ends, strict=True):
        scene.end(language, outcome)
    said = [message for _, message in await scene.sent() if isinstance(message, RoomSaid) and message.language == "en"]
    assert len(said) == 1
    assert reads.encode() in said[0].frame


async def test_a_listener_that_came_to_another_instance_gets_what_is_under_way_there() -> None:
    scene = Scene("zh")
    await scene.say()
    scene.speaking.missed(RoomMissed(str(NAME), "id", 0, "1", "zh"), Letter("u", "i9", "room_missed"))
    scene.end("zh", DONE)
    (to,) = [to for to, message in await scene.sent() if isinstance(message, RoomSaid)]
    assert to == {"i1", "i9"}
    scene.speaking.missed(RoomMissed(str(NAME), "id", 0, "1", "zh"), Letter("u", "i9", "room_missed"))
    to, again = (await scene.sent())[-1]
    assert (to, again.listener) == ({"i9"}, "1")


async def test_an_existing_page_is_not_told_of_its_own_speech() -> None:
    scene = Scene("zh")
    first, *others = scene.here.state.members
    old = first._replace(about=AboutMember(language="en"))
    scene.here.state = scene.here.state._replace(members=(old, *others))
    await scene.say()
    assert scene.session.room_places == {0: UNTOLD}
