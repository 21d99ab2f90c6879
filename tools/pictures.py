"""Makes the pictures of the documents: python -m tools.pictures [NAME…]. Real pages, whose scheduler is played."""

import asyncio
import base64
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, expect

from lingua_scheduler.domain.watching.picture import Level
from tests.support import scenes
from tests.support.browser import browser, microphone
from tests.support.dashboards import Watched, watched
from tests.support.room_page import CODE, ME, RoomPage, ScriptedRoom, member, pages_only
from tests.support.talking import TalkPage
from tests.support.tones import tone, write_wav

FOLDER = Path(__file__).parents[1] / "docs" / "images"
_PHONE, _DESKTOP = (390, 844), (1280, 800)
# Two screens beside each other.
_BESIDE = """<!doctype html><style>
body {{ margin: 0; display: inline-flex; align-items: center; gap: 24px; padding: 24px; background: #c8d2e4; }}
img {{ height: 640px; border-radius: 12px; box-shadow: 0 6px 24px rgb(0 0 0 / 25%); }}
</style><body>{}</body>"""
_PEOPLE = [
    member(ME, "Tom", "en", role="host"),
    member("s-1", "Ana Souza", "pt"),
    member("s-3", "Yuki", "ja"),
    member("s-4", "María del Carmen", "es"),
    member("s-5", "Jean", "fr", role="listener"),
]
_QUARANTINED = {"from": "ready", "to": "quarantined"}
# Said by the person below or above (a or b), in English or Portuguese.
_SAID = [
    ("a", "Good morning. Where is the train station?", "Bom dia. Onde está a estação de trem?"),
    ("b", "Bom dia! A estação fica perto daqui!", "Good morning! The station is near here!"),
    ("a", "My train leaves at nine o'clock.", "Meu trem sai às nove horas."),
]
_ALONE = [one for one in _SAID if one[0] == "a"]


async def _open(opened: Browser, size: tuple[int, int], theme: str = "light", language: str = "en-GB") -> Page:
    context = await opened.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if theme == "dark" else "light",
        locale=language,
        reduced_motion="reduce",
        has_touch=size == _PHONE,
        is_mobile=size == _PHONE,
    )
    return await context.new_page()


async def _dashboard(opened: Browser) -> bytes:
    nodes = [
        scenes.node("gpu-paris-1", ("de", "en", "es", "fr"), held=3, free=1),
        scenes.node("gpu-paris-2", ("de", "en", "fr")),
        scenes.node("gpu-tokyo-1", ("en", "ja", "zh"), held=2, free=2),
        scenes.node("gpu-tokyo-2", ("en", "ja", "zh"), state="quarantined", free=None, held=0),
    ]
    shown = scenes.picture(
        nodes,
        alarms=[
            scenes.alarm("node.quarantined", subject="gpu-tokyo-2", node_id="gpu-tokyo-2"),
            scenes.alarm("pair.thin", Level.NOTICE, "de:es", src="de", tgt="es", node_id="gpu-paris-1"),
        ],
    )
    events = [
        scenes.event("node.state_changed", "gpu-tokyo-2", 40, Level.WARNING, node_id="gpu-tokyo-2", **_QUARANTINED),
        scenes.event("node.joined", "gpu-paris-2", 260, node_id="gpu-paris-2", instance_id="i-berlin-1", slots=4),
    ]
    async with watched(Watched(shown, scenes.history(shown.at_ms), events)) as served:
        page = await _open(opened, (1440, 900))
        await page.goto(served.url)
        await expect(page.locator(".verdict")).to_be_visible()
        await expect(page.locator("svg").first).to_be_visible()
        return await page.screenshot(animations="disabled")


async def _room(opened: Browser) -> bytes:
    async with pages_only() as address:
        return await _beside(opened, [await _one_room(opened, address, size) for size in (_PHONE, _DESKTOP)])


async def _one_room(opened: Browser, address: str, size: tuple[int, int]) -> bytes:
    page = await _open(opened, size)
    room, shown = ScriptedRoom(page), RoomPage(page)
    await room.attach()
    await shown.open(address)
    room.members = _PEOPLE
    await shown.join("Tom", "en")
    room.show_members(guests=12)
    voice = {"lang": "en", "tts_audio": "AAAA" * 400}
    room.result("s-1", 0, "Bom dia a todos. Podemos começar?", "Good morning everyone. Can we begin?", **voice)
    room.result(
        "s-3", 0, "はい、始めましょう。資料は届いていますか。", "Yes. Have you received the documents?", **voice
    )
    room.result(ME, 0, "I have them here. The second page is missing, though.", "")
    room.result("s-4", 0, "Os la envío ahora mismo.", "I am sending it to you right now.", **voice)
    room.say("room_message", room_code=CODE, session_id="s-5", text="merci !", sent_at_ms=int(time.time() * 1000))
    for speaker, words, language in (("s-1", "Enquanto esperamos, falo do", "pt"), ("s-3", "予算は後で", "ja")):
        room.say("room_speaking", room_code=CODE, session_id=speaker, speaking=True)
        room.caption(speaker, 1, words, language, is_final=language == "ja")
    await expect(page.locator("#live li")).to_have_count(2)
    return await page.screenshot(animations="disabled")


class _Answers:
    """The scheduler's end of the socket of /talk: each utterance gets the next of these sentences."""

    def __init__(self, sentences: list[tuple[str, str]]) -> None:
        self._sentences = sentences
        self._told = 0

    async def attach(self, page: Page) -> None:
        await page.route_web_socket(lambda url: "/ws/session" in url, self._connected)

    def _connected(self, socket: Any) -> None:
        def took(data: str | bytes) -> None:
            if isinstance(data, str):
                if json.loads(data)["type"] == "session_init":
                    socket.send(json.dumps({"type": "session_init_ack", "session_id": "s-1", "use_binary_frame": True}))
            elif data[0] == 2 or data[10]:
                heard, translated = self._sentences[self._told]
                fields = {"utterance_index": self._told, "text_asr": heard, "text_translated": translated}
                more = {"session_id": "s-1", "trace_id": "t", "job_id": "j", "tts_audio": "", "tts_format": "pcm16"}
                self._told += 1
                socket.send(json.dumps({"type": "translation_result", **fields, **more}))

        socket.on_message(took)


async def _talk(opened: Browser) -> bytes:
    async with pages_only(("en", "pt")) as address:
        port = int(address.rpartition(":")[2])
        phone = await _one_talk(await _open(opened, _PHONE), port, _SAID)
        return await _beside(
            opened, [phone, await _one_talk(await _open(opened, _DESKTOP, "dark", "zh-CN"), port, _ALONE)]
        )


async def _one_talk(page: Page, port: int, said: list[tuple[str, str, str]]) -> bytes:
    await _Answers([(heard, translated) for _, heard, translated in said]).attach(page)
    talk = TalkPage(page)
    await talk.open(port)
    for side, code in (("a", "en"), ("b", "pt")):
        await talk.half(side).locator("select").select_option(code)
    await page.wait_for_selector("html[data-state=open]")
    for number, (side, _, _) in enumerate(said):
        await talk.talk(side, 0.6)
        await expect(page.locator("li.done")).to_have_count((number + 1) * 2)
    return await page.screenshot(animations="disabled")


async def _beside(opened: Browser, screens: list[bytes]) -> bytes:
    page = await _open(opened, (1800, 720))
    images = "".join(f'<img src="data:image/png;base64,{base64.b64encode(one).decode()}">' for one in screens)
    await page.set_content(_BESIDE.format(images))
    return await page.locator("body").screenshot()


PICTURES: dict[str, Callable[[Browser], Awaitable[bytes]]] = {
    "dashboard.png": _dashboard,
    "room.png": _room,
    "talk.png": _talk,
}


async def make(folder: Path, names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        wav = write_wav(Path(scratch) / "hum.wav", tone(440, 48_000, 20), 48_000)
        for name in names:
            # A microphone file is played once.
            async with browser(*microphone(wav)) as opened:
                (folder / name).write_bytes(await PICTURES[name](opened))


def main() -> None:
    asyncio.run(make(FOLDER, sys.argv[1:] or list(PICTURES)))


if __name__ == "__main__":
    main()
