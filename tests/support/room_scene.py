"""Rooms of one instance without Redis: members that join and leave, and what they are sent."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec

from lingua_scheduler.domain.rooms.rooms import AboutMember, Participant, RoomName, RoomState
from lingua_scheduler.services.rooms.notices import RoomNotices
from lingua_scheduler.services.rooms.relay_servers import RelayServers
from lingua_scheduler.services.rooms.rooms_here import RoomsHere
from lingua_scheduler.services.rooms.voices import Voices
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.setting_sections.rooms import RoomsSettings
from lingua_sdk.protocol.shapes import Message

NAME = RoomName("default", "483920")


class Peer:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def post(self, message: Message) -> bool:
        self.heard.append(msgspec.to_builtins(message))
        return True

    def post_encoded(self, _: Message, payload: bytes) -> bool:
        self.heard.append(msgspec.json.decode(payload))
        return True

    @property
    def lists(self) -> list[list[str]]:
        return [[one["session_id"] for one in told["members"]] for told in self.heard if told["type"] == "room_members"]

    @property
    def kinds(self) -> list[str]:
        return [told["type"] for told in self.heard]


class Scene:
    """`joins` are members of this instance; Redis is not asked."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.rooms = RoomsHere(lambda: self.now_s)
        settings = RoomsSettings()
        notices = cast("RoomNotices", SimpleNamespace(instance="here"))
        servers = RelayServers(settings, lambda: 0.0)
        self.voices = Voices(self.rooms, notices, servers, settings, lambda _: True, lambda: self.now_s)
        self.state = RoomState(NAME, "id", "r", 1, 0, False, ())
        self.peers: dict[str, Peer] = {}
        self.sessions: dict[str, Session] = {}

    def join(self, name: str, awaited: frozenset[str] = frozenset(), *, wants_servers: bool = False) -> Peer:
        about = AboutMember(language="en", events=True)
        member = Participant(name, "here 1-1", about, len(self.state.members))
        self.state = self.state._replace(members=(*self.state.members, member), version=self.state.version + 1)
        peer = self.peers[name] = Peer()
        session = SimpleNamespace(session_id=name, peer=peer, stay=None, post=peer.post)
        self.sessions[name] = cast("Session", session)
        here = self.rooms.add(self.state, self.sessions[name], 0)
        self.voices.enter(here, name, awaited, wants_servers=wants_servers)
        self.rooms.show(here, self.state)
        self.voices.pass_due(here)
        return peer

    def leave(self, name: str) -> None:
        here = self.rooms.forget(self.sessions[name])
        members = tuple(one for one in self.state.members if one.session_id != name)
        self.state = self.state._replace(members=members, version=self.state.version + 1)
        if here is not None and self.rooms.find(NAME) is here:
            self.rooms.show(here, self.state)

    @property
    def listed(self) -> list[str]:
        return [one.session_id for one in self.state.members]
