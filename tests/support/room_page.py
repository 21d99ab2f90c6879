"""The room page in a browser, and the scheduler's end of its socket, played by the test."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from aiohttp import web
from playwright.async_api import Page, WebSocketRoute

from lingua_scheduler.console.assets import serve_shared
from lingua_scheduler.console.talk import add_talk
from tests.support.waiting import until

ME = "s-me"
CODE = "483920"
START_MS = 1_790_000_000_000
LANGUAGES = ("de", "en", "es", "fr", "ja", "pt", "zh")


@asynccontextmanager
async def pages_only(languages: tuple[str, ...] = LANGUAGES) -> AsyncIterator[str]:
    """The pages, and the two operations that they ask; their address."""

    async def pools(_: web.Request) -> web.Response:
        pairs = {f"{a}:{b}": {"speech": 1, "text": 1} for a in languages for b in languages if a != b}
        return web.json_response({"pairs": pairs, "wide": []})

    async def whoami(_: web.Request) -> web.Response:
        return web.json_response({"kind": "local", "scopes": []})

    app = web.Application()
    serve_shared(app)
    add_talk(app)
    app.router.add_get("/v1/pools", pools)
    app.router.add_get("/v1/whoami", whoami)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def member(session_id: str, name: str, language: str, **more: Any) -> dict[str, Any]:
    return {
        "participant_id": session_id,
        "session_id": session_id,
        "display_name": name,
        "preferred_lang": language,
        "src_lang": language,
        "raw_voice_preferences": {},
        "joined_at": "2026-01-01T00:00:00.000000000Z",
        **more,
    }


class ScriptedRoom:
    """Answers what opens a session and enters a room; all else is the test's to say."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.sent: list[dict[str, Any]] = []
        self.members: list[dict[str, Any]] = []
        self.more: dict[str, Any] = {}
        self.refusal = ""
        self.is_lost = False
        self.me = ME
        self.sockets: list[WebSocketRoute] = []
        self._seqs = count(1)

    async def attach(self) -> None:
        await self.page.route_web_socket(lambda url: "/ws/session" in url, self._connected)

    def _connected(self, socket: WebSocketRoute) -> None:
        self.sockets.append(socket)
        socket.on_message(lambda data: self._took(socket, data))

    def _took(self, socket: WebSocketRoute, data: str | bytes) -> None:
        if isinstance(data, bytes):
            self.sent.append({"type": "audio", "is_final": bool(data[10])})
            return
        message = json.loads(data)
        self.sent.append(message)
        match message["type"]:
            case "session_init":
                self._acknowledge(socket, message)
            case "room_create" | "room_join":
                self._enter(socket, message)

    def _acknowledge(self, socket: WebSocketRoute, init: dict[str, Any]) -> None:
        is_resumed = "resume_token" in init and not self.is_lost
        more = {"resumed": True, "next_seq": 0, "next_utterance_index": 0} if is_resumed else {}
        ack = {"type": "session_init_ack", "session_id": self.me, "use_binary_frame": True, "resume_token": "t"}
        socket.send(json.dumps({**ack, **more}))
        if is_resumed:
            self.show_members()

    def _enter(self, socket: WebSocketRoute, message: dict[str, Any]) -> None:
        if self.refusal:
            socket.send(json.dumps({"type": "room_error", "code": self.refusal, "message": self.refusal}))
            return
        if not self.members:
            self.members = [member(self.me, message.get("display_name", ""), message["preferred_lang"], role="host")]
        socket.send(json.dumps({"type": "room_create_ack", "room_code": CODE, "room_id": "r"}))
        self.show_members()

    def say(self, kind: str, **fields: Any) -> None:
        self.sockets[-1].send(json.dumps({"type": kind, **fields}))

    def show_members(self, **more: Any) -> None:
        self.more.update(more)
        self.say("room_members", room_code=CODE, members=self.members, **self.more)

    def caption(self, session_id: str, index: int, text: str, language: str, *, is_final: bool = False) -> None:
        speaker = {"session_id": session_id, "utterance_index": index}
        self.say("room_caption", room_code=CODE, **speaker, text=text, lang=language, is_final=is_final)

    def result(self, session_id: str, index: int, heard: str, translated: str, **more: Any) -> int:
        seq = int(more.pop("room_seq", 0)) or next(self._seqs)
        fields = {"text_asr": heard, "text_translated": translated, "tts_audio": "", "tts_format": "pcm16", **more}
        speaker = {"session_id": session_id, "utterance_index": index, "trace_id": "t", "job_id": "j"}
        self.say("translation_result", **speaker, **fields, room_seq=seq)
        return seq

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.sent if message["type"] == kind]

    async def got(self, kind: str, times: int = 1) -> dict[str, Any]:
        await until(lambda: len(self.of(kind)) >= times, what=f"the page sends {kind}")
        return self.of(kind)[-1]

    async def lose_socket(self) -> None:
        known = len(self.sockets)
        await self.sockets[-1].close(code=1011)
        await until(lambda: len(self.sockets) > known, what="the page connects again")


class RoomPage:
    def __init__(self, page: Page) -> None:
        self.page = page

    async def open(self, address: str, fragment: str = "") -> None:
        await self.page.goto(f"{address}/room{fragment}")
        await self.page.wait_for_selector("#language option:checked", state="attached")

    async def join(self, name: str = "", language: str = "", code: str = CODE) -> None:
        await self.page.fill("#name", name)
        if language:
            await self.page.select_option("#language", language)
        if code:
            await self.page.fill("#code", code)
            await self.page.click("#join")
        else:
            await self.page.click("#create")
        await self.page.wait_for_selector("html[data-view=room]")

    async def lines(self, selector: str = "#said li") -> list[str]:
        return [" ".join(text.split()) for text in await self.page.locator(f"{selector} .text").all_text_contents()]

    async def shows(self, *texts: str) -> None:
        found: list[str] = []

        async def are_shown() -> bool:
            found[:] = await self.lines()
            return found == list(texts)

        try:
            await until(are_shown)
        except AssertionError as late:
            raise AssertionError(f"shown: {found}, expected: {list(texts)}") from late

    async def people(self) -> list[str]:
        return await self.page.locator("#people .name").all_text_contents()

    async def voices(self, count_of: int) -> None:
        async def are_connected() -> bool:
            return await self.page.get_attribute("html", "data-voices") == str(count_of)

        await until(are_connected, what=f"{count_of} voices are connected")
