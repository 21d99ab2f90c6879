"""A room at an instance: who is sent what, and how often it is encoded."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec

from lingua_scheduler.domain.rooms.rooms import AboutMember, Participant, RoomName, RoomState
from lingua_scheduler.services.rooms.room_here import RoomHere
from lingua_scheduler.services.rooms.speakers import TurnNodes
from lingua_scheduler.services.sessions.sessions import Session
from lingua_sdk.protocol.session import RoomCaption
from lingua_sdk.protocol.shapes import Message

NAME = RoomName("default", "483920")
CAPTION = RoomCaption(room_code="483920", session_id="s-0", utterance_index=0, text="x", lang="en", is_final=False)


class Peer:
    """The socket of a member."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.dropped_if_slow: list[bool] = []

    def post_encoded(self, message: Message, payload: bytes) -> bool:
        self.frames.append(payload)
        self.dropped_if_slow.append(message.may_be_dropped)
        return True

    @property
    def kinds(self) -> list[str]:
        return [msgspec.json.decode(frame)["type"] for frame in self.frames]


def session(session_id: str, peer: Peer | None) -> Session:
    return cast("Session", SimpleNamespace(session_id=session_id, peer=peer, stay=None))


def room(*peers: Peer | None, events: bool = True) -> RoomHere:
    about = AboutMember(language="en", events=events)
    members = tuple(Participant(f"s-{number}", "here 1-1", about, number) for number in range(len(peers)))
    here = RoomHere(RoomState(NAME, "id", "r", 1, 0, False, members), lambda: 100.0)
    for number, peer in enumerate(peers):
        here.sessions[f"s-{number}"] = session(f"s-{number}", peer)
    return here


def test_the_list_of_members_is_encoded_once_for_all() -> None:
    peers = [Peer() for _ in range(3)]
    here = room(*peers, None)
    guest = Peer()
    here.add_guest(session("g", guest), AboutMember(language="pt"))
    here.tell()
    first = peers[0].frames[0]
    assert [one.frames for one in (*peers, guest)] == [[first]] * 4
    assert all(one.frames[0] is first for one in (*peers, guest))


def test_an_event_is_encoded_once_for_all_who_can_read_it_and_may_be_dropped_as_before() -> None:
    speaker, reader, guest = Peer(), Peer(), Peer()
    here = room(speaker, reader, None)
    here.add_guest(session("g", guest), AboutMember(events=True))
    here.add_guest(session("old", None), AboutMember())
    here.tell_readers(CAPTION, besides="s-0")
    assert not speaker.frames
    assert reader.kinds == ["room_caption"]
    assert guest.frames[0] is reader.frames[0]
    assert reader.dropped_if_slow == [True]


def test_who_is_entering_gets_no_list_before_it_has_entered() -> None:
    peers = [Peer(), Peer()]
    here = room(*peers)
    here.staging.enter("s-1", frozenset({"s-0"}), 100.0)
    here.tell()
    here.tell_readers(CAPTION)
    assert [len(peer.frames) for peer in peers] == [2, 0]


def test_nodes_of_a_turn_are_kept_for_members_here_alone() -> None:
    here = room(Peer())
    kept = here.turn_nodes("s-0")
    assert here.turn_nodes("s-0") is kept
    # It has just left, and its last utterance is being translated.
    assert isinstance(here.turn_nodes("s-gone"), TurnNodes)
    assert list(here.translating) == ["s-0"]


def test_wants_of_guests_are_counted() -> None:
    here = room()
    here.add_guest(session("g", None), AboutMember(language="pt"))
    here.add_guest(session("g", None), AboutMember(language="en"))
    assert dict(here.guests_want) == {("en", True): 1}
    assert here.languages() == {"en"}
    assert here.remove_guest("g") is not None
    assert here.remove_guest("g") is None
    assert here.is_empty


def test_the_list_shows_the_host_and_the_wishes_of_listeners() -> None:
    here = room(Peer(), Peer())
    first, second = here.state.members
    here.state = here.state._replace(members=(first, second._replace(wishes={"s-0": False})), is_locked=True)
    told: Any = here.members_message()
    assert [member.role for member in told.members] == ["host", None]
    assert told.members[0].raw_voice_preferences == {"s-1": False}
    assert told.locked
