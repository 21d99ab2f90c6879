"""How often the last minutes are sent; what is in them is in tests/e2e/test_room_messages.py."""

from types import SimpleNamespace
from typing import Any, cast

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.domain.rooms.history import PastLine
from lingua_scheduler.domain.rooms.rooms import AboutMember, Participant, RoomName, RoomState
from lingua_scheduler.services.rooms.history import SENT_PER_MIN, RoomHistories
from lingua_scheduler.services.rooms.notices import RoomNotices
from lingua_scheduler.services.rooms.rooms_here import RoomsHere
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.setting_sections.rooms import RoomsSettings
from lingua_scheduler.telemetry.tasks import Nursery

NAME = RoomName("default", "483920")


class Scene:
    """A room in which something was written, and two members that join it again and again."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.rooms = RoomsHere(lambda: self.now_s)
        notices = cast("RoomNotices", SimpleNamespace(instance="here"))
        self.histories = RoomHistories(
            self.rooms, notices, Nursery("test"), RoomsSettings(history_ms=3_600_000), lambda: self.now_s
        )
        self.heard: dict[str, list[Any]] = {"a": [], "b": []}
        members = tuple(
            Participant(name, "here 1-1", AboutMember(language="en", events=True), 0) for name in self.heard
        )
        state = RoomState(NAME, "id", "r", 1, 0, False, members)
        self.sessions = {
            name: cast("Session", SimpleNamespace(session_id=name, stay=None, post=heard.append))
            for name, heard in self.heard.items()
        }
        for session in self.sessions.values():
            self.here = self.rooms.add(state, session, 0)
        self.histories.add(self.here, PastLine(session_id="a", name="Ann", at_ms=int(wall_ms()), text="hello"))
        self.now_s += 1.0


async def test_one_that_joins_again_and_again_gets_the_history_a_few_times_a_minute() -> None:
    scene = Scene()
    for _ in range(50):
        scene.histories.entered(scene.here, scene.sessions["a"])
    assert len(scene.heard["a"]) == SENT_PER_MIN
    scene.histories.entered(scene.here, scene.sessions["b"])
    assert len(scene.heard["b"]) == 1
    scene.now_s += 60.0
    scene.histories.entered(scene.here, scene.sessions["a"])
    assert len(scene.heard["a"]) == SENT_PER_MIN + 1


async def test_one_that_resumes_again_and_again_gets_no_more() -> None:
    scene = Scene()
    for _ in range(50):
        scene.histories.resumed(scene.here, scene.sessions["a"])
    assert len(scene.heard["a"]) == SENT_PER_MIN
