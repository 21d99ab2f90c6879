"""The listeners' side, by values: who gets what, in which order, and what is kept for those who are away."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from lingua_scheduler.domain.rooms.feeds import RoomUtterance
from lingua_scheduler.domain.rooms.rooms import AboutMember, Participant, RoomName, RoomState
from lingua_scheduler.protocol.bus import RoomMissed, RoomSaid, RoomSpoken
from lingua_scheduler.services.cluster.letters import Letter
from lingua_scheduler.services.rooms.hearing import Hearing
from lingua_scheduler.services.rooms.notices import RoomNotices
from lingua_scheduler.services.rooms.outcome_frames import NEVER_CAME
from lingua_scheduler.services.rooms.replays import ASKED_PER_MIN, Replays
from lingua_scheduler.services.rooms.room_here import RoomHere
from lingua_scheduler.services.rooms.rooms_here import RoomsHere
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.setting_sections.sessions import DeliverySettings
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.session import MissingResult
from tests.support.clocks import Clock

NAME = RoomName("default", "483920")
LETTER = Letter("u", "there", "room_said")


class Ears:
    """The socket of a listener."""

    def __init__(self) -> None:
        self.frames: list[Any] = []
        self.is_open = True

    def post_frame(self, payload: bytes) -> bool:
        if self.is_open:
            self.frames.append(msgspec.json.decode(payload))
        return self.is_open


class Notices:
    instance = "here"

    def __init__(self) -> None:
        self.sent: list[tuple[set[str], Any]] = []

    async def to(self, instances: set[str], message: Any) -> None:
        self.sent.append((set(instances), message))


class Scene:
    """A room with members that read these languages; those of `here` are at this instance."""

    def __init__(self, **languages: str) -> None:
        self.clock = Clock()
        self.rooms = RoomsHere()
        self.notices = Notices()
        members = tuple(
            Participant(
                name, f"{'here' if name.islower() else 'there'} 1-1", AboutMember(language=lang, events=True), 0
            )
            for name, lang in languages.items()
        )
        self.state = RoomState(NAME, "id", "r", 1, 0, False, members)
        self.ears = {name: Ears() for name in languages if name.islower()}
        self.sessions = {
            name: cast("Session", SimpleNamespace(session_id=name, peer=ears, spoke_at_s=0.0, stay=None))
            for name, ears in self.ears.items()
        }
        for session in self.sessions.values():
            self.here: RoomHere = self.rooms.add(self.state, session, 0)
        self.replays = Replays(10_000, 60, self.now_s)
        self.hearing = Hearing(
            self.rooms, cast("RoomNotices", self.notices), self.replays, DeliverySettings(hold_ms=1000), self.now_s
        )

    def now_s(self) -> float:
        return self.clock() / 1000

    def read(self, name: str) -> list[int]:
        return [frame["room_seq"] for frame in self.ears[name].frames]


def utterance(seq: int, speaker: str = "Bob", *languages: str) -> RoomUtterance:
    return RoomUtterance(seq, speaker, seq, "en", languages or ("zh",))


def said(seq: int, language: str = "zh", speaker: str = "Bob", **more: Any) -> RoomSaid:
    answer = MissingResult(
        session_id=speaker, utterance_index=seq, reason="no_text", created_at_ms=1, room_seq=seq, lang=language
    )
    return RoomSaid(str(NAME), "id", utterance(seq, speaker, language), language, codec.encode(answer), **more)


async def test_each_reads_its_language_in_the_order_of_the_room() -> None:
    scene = Scene(Bob="en", ann="zh", cho="pt")
    for seq in (1, 2):
        scene.hearing.spoken(RoomSpoken(str(NAME), "id", utterance(seq, "Bob", "zh", "pt")), LETTER)
    for one in (said(2), said(1, "pt"), said(1), said(2, "pt")):
        scene.hearing.said(one, LETTER)
    assert scene.read("ann") == scene.read("cho") == [1, 2]
    assert {frame["lang"] for frame in scene.ears["ann"].frames} == {"zh"}


async def test_the_speaker_is_told_nothing_of_its_own_speech() -> None:
    scene = Scene(ann="zh", cho="zh")
    scene.hearing.said(said(1, speaker="ann"), LETTER)
    assert (scene.read("ann"), scene.read("cho")) == ([], [1])


async def test_an_outcome_that_comes_twice_is_told_once() -> None:
    scene = Scene(Bob="en", ann="zh")
    for _ in range(2):
        scene.hearing.said(said(1), LETTER)
    assert scene.read("ann") == [1]


async def test_a_letter_to_a_dead_instance_or_another_room_is_not_for_us() -> None:
    scene = Scene(Bob="en", ann="zh")
    scene.hearing.said(said(1), LETTER._replace(adopted_from="dead"))
    scene.hearing.said(msgspec.structs.replace(said(1), room_id="other"), LETTER)
    scene.hearing.spoken(RoomSpoken(str(NAME), "id", utterance(1)), LETTER._replace(adopted_from="dead"))
    assert not scene.here.feeds
    assert scene.read("ann") == []


async def test_one_that_is_overtaken_is_marked_as_late() -> None:
    scene = Scene(Bob="en", ann="zh")
    for seq in (1, 2):
        scene.hearing.announce(scene.here, utterance(seq))
    scene.hearing.take(scene.here, said(2))
    assert scene.read("ann") == []
    scene.clock.pass_ms(1000)
    scene.hearing._ring(scene.here)
    scene.hearing.take(scene.here, said(1))
    assert scene.read("ann") == [2, 1]
    assert [frame.get("late") for frame in scene.ears["ann"].frames] == [None, True]


async def test_one_who_was_given_a_later_one_by_another_instance_reads_that_an_earlier_one_is_late() -> None:
    """Of two listeners of a language only that one has been told of the later one."""
    scene = Scene(Bob="en", ann="zh", cho="zh")
    scene.hearing.announce(scene.here, utterance(1))
    scene.hearing.said(said(2, listener="ann"), LETTER)
    scene.hearing.take(scene.here, said(1))
    assert (scene.read("ann"), scene.read("cho")) == ([2, 1], [1])
    assert [frame.get("late") for frame in scene.ears["ann"].frames] == [None, True]
    assert [frame.get("late") for frame in scene.ears["cho"].frames] == [None]


async def test_one_who_comes_back_here_gets_what_it_missed_and_asks_no_one() -> None:
    scene = Scene(Bob="en", ann="zh")
    scene.ears["ann"].is_open = False
    for one in (said(1), said(2), said(2, "pt"), said(3)):
        scene.hearing.take(scene.here, one)
    scene.ears["ann"].is_open = True
    scene.hearing.catch_up(scene.here, scene.sessions["ann"], 1, has_moved=False)
    assert scene.read("ann") == [2, 3]
    assert len(scene.hearing.tasks) == 0


@pytest.mark.parametrize("has_moved", [False, True])
async def test_one_who_came_late_does_not_get_what_was_said_before_whatever_it_names(*, has_moved: bool) -> None:
    scene = Scene(Bob="en", ann="zh")
    for one in (said(1), said(2)):
        scene.hearing.take(scene.here, one)
    ears = Ears()
    late = cast("Session", SimpleNamespace(session_id="cho", peer=ears, stay=None))
    scene.rooms.add_guest(scene.state, late, AboutMember(language="zh", events=True), 1)
    scene.hearing.catch_up(scene.here, late, 0, has_moved=has_moved)
    await scene.hearing.tasks.settle(5)
    assert [frame["room_seq"] for frame in ears.frames] == [2]
    asked = [message.seq for _, message in scene.notices.sent if isinstance(message, RoomMissed)]
    assert asked == [1] * has_moved


async def test_one_who_comes_back_again_and_again_is_not_told_each_time() -> None:
    scene = Scene(Bob="en", ann="zh")
    scene.hearing.take(scene.here, said(1))
    scene.ears["ann"].frames.clear()
    for _ in range(3 * ASKED_PER_MIN):
        scene.hearing.catch_up(scene.here, scene.sessions["ann"], 0, has_moved=True)
    await scene.hearing.tasks.settle(5)
    assert scene.read("ann") == [1] * ASKED_PER_MIN
    assert len(scene.notices.sent) == ASKED_PER_MIN


async def test_one_who_does_not_say_what_it_has_gets_nothing_again() -> None:
    scene = Scene(Bob="en", ann="zh")
    scene.hearing.take(scene.here, said(1))
    scene.hearing.catch_up(scene.here, scene.sessions["ann"], None, has_moved=True)
    assert scene.read("ann") == [1]
    assert len(scene.hearing.tasks) == 0


async def test_one_who_came_from_another_instance_asks_the_others() -> None:
    scene = Scene(Bob="en", ann="zh")
    scene.hearing.catch_up(scene.here, scene.sessions["ann"], 4, has_moved=True)
    await scene.hearing.tasks.settle(5)
    assert scene.notices.sent == [({"here", "there"}, RoomMissed(str(NAME), "id", 4, "ann", "zh"))]


@pytest.mark.parametrize(("speaker", "is_ours"), [("ann", True), ("Bob", False), ("gone", True)])
async def test_another_instance_is_given_what_only_we_may_have(speaker: str, is_ours: bool) -> None:
    """The instance of a speaker has all of its outcomes; of one that is gone every instance answers."""
    scene = Scene(Bob="pt", ann="en", cho="zh")
    scene.hearing.take(scene.here, said(1, speaker=speaker))
    scene.hearing.take(scene.here, said(2, "pt", speaker))
    found = scene.hearing.missed_by(scene.here, RoomMissed(str(NAME), "id", 0, "dee", "zh"))
    assert [(one.utterance.seq, one.listener) for one in found] == ([(1, "dee")] if is_ours else [])


async def test_what_was_said_here_is_given_to_another_instance_also_when_its_speaker_has_gone_on() -> None:
    """Both the speaker and the listener may have moved there, and that instance had no one who could tell it."""
    scene = Scene(Bob="pt", ann="en", cho="zh")
    scene.hearing.take(scene.here, said(1, speaker="Bob"), is_ours=True)
    found = scene.hearing.missed_by(scene.here, RoomMissed(str(NAME), "id", 0, "dee", "zh"))
    assert [(one.utterance.seq, one.listener) for one in found] == [(1, "dee")]


async def test_what_was_missed_is_given_to_the_one_who_asked() -> None:
    scene = Scene(Bob="en", ann="zh", cho="zh")
    scene.hearing.said(said(1, listener="ann"), LETTER)
    scene.hearing.said(said(1, listener="unknown"), LETTER)
    assert (scene.read("ann"), scene.read("cho")) == ([1], [])


async def test_what_never_comes_is_told_as_missing_and_unused_feeds_are_dropped() -> None:
    scene = Scene(Bob="en", ann="zh")
    scene.hearing.announce(scene.here, utterance(1))
    scene.clock.pass_ms(10_000)
    scene.hearing.end_overdue(11)
    assert scene.read("ann") == []
    scene.hearing.end_overdue(9)
    (missing,) = scene.ears["ann"].frames
    assert (missing["type"], missing["room_seq"], missing["detail"]) == ("missing_result", 1, NEVER_CAME)
    assert list(scene.here.feeds) == ["zh"]
    scene.here.state = scene.state._replace(members=())
    scene.hearing.end_overdue(9)
    assert not scene.here.feeds


async def test_one_who_left_gets_nothing() -> None:
    scene = Scene(Bob="en", ann="zh", cho="zh")
    scene.hearing.announce(scene.here, utterance(1))
    del scene.here.sessions["cho"]
    scene.hearing.take(scene.here, said(1))
    assert (scene.read("ann"), scene.read("cho")) == ([1], [])


async def test_one_who_moved_here_gets_what_was_announced_before_it_came() -> None:
    scene = Scene(Bob="en", ann="zh", cho="zh")
    late = scene.here.sessions.pop("cho")
    for seq in (1, 2):
        scene.hearing.announce(scene.here, utterance(seq))
    scene.here.sessions["cho"] = late
    scene.hearing.catch_up(scene.here, late, 1, has_moved=True)
    for seq in (1, 2):
        scene.hearing.take(scene.here, said(seq))
    assert (scene.read("ann"), scene.read("cho")) == ([1, 2], [2])
    await scene.hearing.tasks.settle(5)
