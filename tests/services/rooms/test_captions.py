"""Captions: of one job of each utterance, not too many, and nothing for those who are alone or in no room."""

from types import SimpleNamespace
from typing import Any, cast

from lingua_scheduler.domain.rooms.guests import GuestCount, GuestsAt
from lingua_scheduler.domain.rooms.rooms import AboutMember, Participant, RoomName, RoomState
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.protocol.signals import RoomEvent
from lingua_scheduler.services.rooms.captions import MAX_CAPTION_CHARS, RoomCaptions, instances_with_readers
from lingua_scheduler.services.rooms.rooms_here import RoomsHere
from lingua_scheduler.services.rooms.speakers import SpeakerHere
from lingua_scheduler.services.sessions.sessions import Session, Sessions
from lingua_scheduler.setting_sections.sessions import DeliverySettings, SessionsSettings
from lingua_sdk.protocol.node import AsrPartial
from lingua_sdk.protocol.session import RoomCaption, RoomSpeaking, SessionInit
from lingua_sdk.protocol.shapes import Message

NAME = RoomName("default", "483920")
INIT = SessionInit(client_version="x", platform="test", src_lang="zh", tgt_lang="en")


class Reader:
    """The socket of a reader."""

    def __init__(self) -> None:
        self.heard: list[Message] = []

    def post_encoded(self, message: Message, _payload: bytes) -> bool:
        self.heard.append(message)
        return True


class Stage:
    """Two members here and one elsewhere, and what leaves for there."""

    def __init__(self, *others: str) -> None:
        self.now_s = 100.0
        self.sent: list[tuple[str, RoomEvent]] = []
        sessions = Sessions(SessionsSettings(), DeliverySettings(), 10)
        self.here = RoomsHere(lambda: self.now_s)
        signals = SimpleNamespace(publish=lambda signal, to: self.sent.append((to, signal)))
        seals = SimpleNamespace(signal=lambda _, text: text, open_signal=lambda text: text)
        self.captions = RoomCaptions(self.here, "here", cast("Any", signals), cast("Any", seals), lambda: self.now_s)
        self.speaker = sessions.make(INIT, Terms("zh", "en"), "here 1-1", "s-1")
        self.listener = sessions.make(INIT, Terms("en", "zh"), "here 1-2", "s-2")
        self.reader = Reader()
        self.listener.peer = cast("Any", self.reader)
        present = [self.speaker, self.listener] if not others else [self.speaker]
        events = AboutMember(events=True)
        members = tuple(Participant(one.session_id, "here 1-1", events, 0) for one in present)
        away = tuple(Participant(f"s-{name}", f"{name} 1-1", events, 0) for name in others)
        self.state = RoomState(NAME, "id", "record", 1, 0, False, (*members, *away))
        for one in present:
            self.here.add(self.state, one, 0)

    def partial(self, text: str = "x", index: int = 0, job: str = "j-1", *, is_final: bool = False) -> None:
        said = AsrPartial(
            job_id=job, node_id="n", session_id="s", utterance_index=index, text=text, is_final=is_final, trace_id=""
        )
        work = SimpleNamespace(utterance_index=index, terms=self.speaker.terms)
        self.captions.partial(self.speaker, cast("Any", work), said)

    @property
    def captions_heard(self) -> list[str]:
        return [message.text for message in self.reader.heard if isinstance(message, RoomCaption)]


async def test_of_several_jobs_of_an_utterance_one_makes_the_captions() -> None:
    stage = Stage()
    for index in range(20):
        stage.now_s += 1
        stage.partial(f"{index} first", index)
        stage.partial(f"{index} of another language", index, "j-2", is_final=True)
        stage.partial(f"{index} whole", index, is_final=True)
    assert stage.captions_heard == [text for index in range(20) for text in (f"{index} first", f"{index} whole")]
    (here,) = stage.here
    assert len(here.speakers["s-1"].captioned) == SpeakerHere.MAX_CAPTIONED


async def test_too_many_captions_are_dropped_and_the_last_of_an_utterance_never() -> None:
    stage = Stage()
    for number in range(1000):
        stage.partial(str(number))
    stage.partial("the end", is_final=True)
    assert stage.captions_heard == [*map(str, range(SpeakerHere.SHOWN_PER_S)), "the end"]
    stage.now_s += 1
    stage.partial("x" * 10_000 + "end")
    assert len(stage.captions_heard[-1]) == MAX_CAPTION_CHARS
    assert stage.captions_heard[-1].endswith("xend")


async def test_a_speaker_begins_and_ends_once() -> None:
    stage = Stage()
    for is_speaking in (False, True, True, False, False):
        stage.captions.speaking(stage.speaker, is_speaking)
    assert [message.speaking for message in stage.reader.heard if isinstance(message, RoomSpeaking)] == [True, False]
    for _ in range(1000):
        stage.captions.speaking(stage.speaker, True)
        stage.captions.speaking(stage.speaker, False)
    assert len(stage.reader.heard) == 2 * SpeakerHere.SHOWN_PER_S


async def test_one_signal_leaves_for_each_instance_that_has_readers() -> None:
    stage = Stage("there", "far")
    stage.captions.speaking(stage.speaker, True)
    stage.partial("words")
    assert sorted(to for to, _ in stage.sent) == ["far", "far", "there", "there"]
    assert {signal.room for _, signal in stage.sent} == {"default:483920"}
    arrived = Stage()
    for _, signal in stage.sent:
        arrived.captions.arrived(signal)
    assert arrived.captions_heard == ["words", "words"]
    for frame in ("rubbish", '{"type":"room_expired","room_code":"1","message":""}', "{}"):
        arrived.captions.arrived(RoomEvent(str(NAME), frame))
    arrived.captions.arrived(RoomEvent("default:999999", stage.sent[-1][1].frame))
    assert len(arrived.reader.heard) == 4


async def test_without_listeners_nothing_is_done() -> None:
    stage = Stage()
    (here,) = stage.here
    here.state = stage.state._replace(members=stage.state.members[:1])
    stage.captions.speaking(stage.speaker, True)
    stage.partial()
    assert not stage.reader.heard
    assert not here.speakers
    outside: Session = stage.speaker
    outside.stay = None
    stage.captions.speaking(outside, True)
    stage.partial()
    assert not stage.sent


def test_instances_with_guests_have_readers() -> None:
    old = Participant("s", "old 1-1", AboutMember(), 0)
    guests = (GuestsAt("there", "1", {"en": GuestCount(1, 0)}),)
    assert instances_with_readers(RoomState(NAME, "id", "r", 1, 0, False, (old,), guests=guests)) == {"there"}
