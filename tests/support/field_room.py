"""The existing web page in a room: what it stores, ignores and sends, and a peer connection as it handles one."""

import asyncio
import contextlib
from itertools import count
from typing import Any

import aiohttp

from tests.support.field_sockets import now_ms
from tests.support.peers import Frame
from tests.support.waiting import until

CANDIDATES = 3
_serials = count(1)


class PeerConnection:
    """A peer connection as far as signalling goes. It is connected when both sides have descriptions that belong
    together, and each has a candidate of the other's description."""

    def __init__(self) -> None:
        self.local = self.remote = ""
        self.is_offering = False
        self.has_candidate = False
        self.errors: list[str] = []

    def offer(self) -> Frame:
        self.local, self.remote, self.is_offering = f"d{next(_serials)}", "", True
        return {"type": "offer", "sdp": self.local}

    def answer(self, offer: Frame) -> Frame:
        """A remote offer rolls an own one back."""
        self.local, self.remote, self.is_offering = f"d{next(_serials)}", offer["sdp"], False
        return {"type": "answer", "sdp": f"{self.local} {self.remote}"}

    def answered(self, answer: Frame) -> None:
        remote, mine = answer["sdp"].split()
        if not self.is_offering or mine != self.local:
            self.errors.append("InvalidStateError")
            return
        self.remote, self.is_offering = remote, False

    def add(self, candidate: Frame) -> None:
        if not self.remote:
            self.errors.append("candidate lost")
        elif candidate["usernameFragment"] == self.remote:
            self.has_candidate = True

    @property
    def is_connected(self) -> bool:
        return bool(self.remote) and not self.is_offering and self.has_candidate


class RoomPage:
    """Does what the page does, and no more: it stores a code on `room_create_ack` alone, offers to every member that
    it sees without a link, and loses candidates that come too early."""

    def __init__(self, http: aiohttp.ClientSession, port: int, *, query: str = "") -> None:
        self._http = http
        self._url = f"ws://127.0.0.1:{port}/ws/session{query}"
        self.session_id = ""
        self.token = ""
        self.code = ""
        self.members: list[Frame] = []
        self.links: dict[str, PeerConnection] = {}
        self.heard: list[Frame] = []
        self.alerts: list[str] = []
        self.is_mute = False
        self.socket: aiohttp.ClientWebSocketResponse | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self, **init: Any) -> "RoomPage":
        self.socket = await self._http.ws_connect(self._url)
        self._reading = asyncio.create_task(self._read())
        fields = {"client_version": "web", "platform": "web", "mode": "one_way", "src_lang": "zh", "tgt_lang": "en"}
        await self.send("session_init", **fields | init)
        return self

    async def ready(self, **init: Any) -> "RoomPage":
        await self.start(**init)
        await until(lambda: self.session_id or self.alerts, what="the page has a session")
        return self

    async def send(self, kind: str, **fields: Any) -> None:
        assert self.socket is not None
        await self.socket.send_json({"type": kind, **fields})

    async def create(self, **fields: Any) -> str:
        await self.send("room_create", client_ts=now_ms(), **fields)
        await until(lambda: self.code, what="the page is in its room")
        return self.code

    async def join(self, code: str, **fields: Any) -> None:
        await self.send("room_join", room_code=code, **fields)

    async def enter(self, code: str, **fields: Any) -> None:
        await self.join(code, **fields)
        await until(lambda: self.code == code and self.members, what="the page has entered the room")

    async def leave(self) -> None:
        code, self.code, self.members = self.code, "", []
        self.links.clear()
        await self.send("room_leave", room_code=code)

    async def tick(self, target: str, *, receive: bool) -> None:
        await self.send(
            "room_raw_voice_preference", room_code=self.code, target_session_id=target, receive_raw_voice=receive
        )

    def sees(self, *others: "RoomPage") -> bool:
        """Whether its list has exactly these, in this order."""
        return [member["session_id"] for member in self.members] == [page.session_id for page in others]

    def is_linked_to(self, other: "RoomPage") -> bool:
        return other.session_id in self.links and self.links[other.session_id].is_connected

    def of(self, kind: str) -> list[Frame]:
        return [frame for frame in self.heard if frame["type"] == kind]

    def cut(self) -> None:
        """The network is gone."""
        assert self.socket is not None
        transport = self.socket._response.connection
        if transport is not None and transport.transport is not None:
            transport.transport.abort()

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading
        if self.socket is not None:
            await self.socket.close()

    async def _read(self) -> None:
        assert self.socket is not None
        async for message in self.socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                break
            frame = message.json()
            self.heard.append(frame)
            with contextlib.suppress(ConnectionError):
                await self._hear(frame)

    async def _hear(self, frame: Frame) -> None:
        match frame["type"]:
            case "session_init_ack":
                self.session_id, self.token = frame["session_id"], frame["resume_token"]
            case "room_create_ack":
                self.code = frame["room_code"]
            case "room_members" if frame["room_code"] == self.code:
                self.members = frame["members"]
                await self._sync()
            case "room_expired":
                self.alerts.append(frame["message"])
                await self.leave()
            case "error":
                self.alerts.append(frame["message"])
            case "webrtc_offer":
                await self._offered(frame)
            case "webrtc_answer" if frame["to"] in self.links:
                self.links[frame["to"]].answered(frame["sdp"])
            case "webrtc_ice" if frame["to"] in self.links:
                self.links[frame["to"]].add(frame["candidate"])

    def _wanted(self) -> set[str]:
        """Those whose voice it wants: its own wish is looked for at the other's entry."""
        return {
            member["session_id"]
            for member in self.members
            if member["session_id"] != self.session_id and member["raw_voice_preferences"].get(self.session_id, True)
        }

    async def _sync(self) -> None:
        wanted = self._wanted()
        for gone in self.links.keys() - wanted:
            del self.links[gone]
        if self.is_mute:
            return
        for other in sorted(wanted - self.links.keys()):
            link = self.links[other] = PeerConnection()
            await self.send("webrtc_offer", room_code=self.code, to=other, sdp=link.offer())
            await self._send_candidates(other, link)

    async def _offered(self, frame: Frame) -> None:
        sender = frame["to"]
        if sender not in self._wanted():
            return
        # As on the first one, when the microphone has to be asked for.
        await asyncio.sleep(0)
        link = self.links.setdefault(sender, PeerConnection())
        await self.send("webrtc_answer", room_code=self.code, to=sender, sdp=link.answer(frame["sdp"]))
        await self._send_candidates(sender, link)

    async def _send_candidates(self, other: str, link: PeerConnection) -> None:
        for number in range(CANDIDATES):
            candidate = {"candidate": f"candidate:{number}", "sdpMid": "0", "usernameFragment": link.local}
            await self.send("webrtc_ice", room_code=self.code, to=other, candidate=candidate)
