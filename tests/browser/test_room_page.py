"""The room page in a real browser: against a scripted scheduler, and with voices through a real one."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect

from tests.browser.test_rooms import CLIENT, FLAGS
from tests.support.access_pages import SHOTS
from tests.support.browser import browser, page_of, serious_violations
from tests.support.room_page import CODE, ME, START_MS, RoomPage, ScriptedRoom, member, pages_only
from tests.support.talking import Recorder
from tests.support.waiting import until

PHONE = (390, 844)
DESKTOP = (1280, 800)
pytestmark = [pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def talking() -> AsyncIterator[Browser]:
    """A browser with a microphone that beeps, and that a page may use."""
    async with browser(*FLAGS) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address() -> AsyncIterator[str]:
    async with pages_only() as found:
        yield found


@asynccontextmanager
async def scripted(
    opened: Browser, address: str, size: tuple[int, int] = DESKTOP, fragment: str = "", **more: Any
) -> AsyncIterator[tuple[RoomPage, ScriptedRoom]]:
    async with page_of(opened, size, **more) as page:
        room = ScriptedRoom(page)
        await room.attach()
        shown = RoomPage(page)
        await shown.open(address, fragment)
        yield shown, room


HOSTILE = """<img src=x onerror="alert('room')"><script>alert(1)</script>"""
FIVE = [
    member("s-1", "Ana", "pt", role="host"),
    member(ME, "Tom", "en"),
    member("s-3", "Yuki", "ja"),
    member("s-4", "María", "es"),
    member("s-5", "", "fr", role="listener"),
]


@pytest.mark.parametrize(("size", "theme", "language"), [(PHONE, "dark", "zh-CN"), (DESKTOP, "light", "en-GB")])
async def test_everyone_can_use_it(
    opened: Browser, address: str, size: tuple[int, int], theme: str, language: str
) -> None:
    async with scripted(opened, address, size, f"#{CODE}", theme=theme, language=language) as (shown, room):
        page = shown.page
        assert await serious_violations(page) == []
        room.members = FIVE
        await shown.join("Tom", "en", code="")
        room.result("s-1", 0, "bom dia", "good morning", lang="en", tts_audio="AAAA" * 400)
        room.caption("s-3", 0, "おはよう", "ja")
        room.say("room_speaking", room_code=CODE, session_id="s-3", speaking=True)
        room.say("missing_result", session_id=ME, utterance_index=0, reason="no_text", room_seq=2)
        await expect(page.locator("#live li")).to_have_count(1)
        await expect(page.locator("#needs-own")).to_be_hidden()
        await expect(page.locator("#said li.missing")).to_have_count(1)
        assert await serious_violations(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        if size == PHONE:
            await page.click("#panel")
            await expect(page.locator("#panel-close")).to_be_focused()
            assert await serious_violations(page) == []
            await page.keyboard.press("Escape")
            await expect(page.locator("#panel")).to_be_focused()


async def test_captions_become_translations_once_and_are_never_markup(opened: Browser, address: str) -> None:
    async with scripted(opened, address) as (shown, room):
        room.members = [*FIVE, member("s-6", HOSTILE, "de")]
        await shown.join("Tom", "en")
        page = shown.page
        assert await shown.people() == ["Ana", "Tom", "Yuki", "María", "Person 5", HOSTILE]
        room.say("room_message", room_code=CODE, session_id="s-6", text=HOSTILE, sent_at_ms=START_MS)
        await shown.shows(HOSTILE)
        assert await page.locator("img[src=x], main script").count() == 0
        lines = [
            {"session_id": "s-1", "display_name": "Ana", "text": "hello", "text_asr": "olá", "room_seq": 1, "at_ms": 1},
            {"session_id": "gone", "display_name": "Bo", "text": "note", "at_ms": 2},
        ]
        room.say("room_history", room_code=CODE, lines=lines)
        room.say("room_speaking", room_code=CODE, session_id="s-3", speaking=True)
        room.caption("s-3", 0, "<b>は", "ja")
        await expect(page.locator("#people .speaking .name")).to_have_text("Yuki")
        await expect(page.locator("#live .text")).to_have_text("<b>は")
        room.result("s-1", 7, "olá", "hello", room_seq=1)
        room.result("s-3", 0, "<b>はい", "<i>yes", lang="en", room_seq=2)
        room.result("s-3", 0, "<b>はい", "<i>yes", lang="en", room_seq=2)
        room.say("room_message", room_code=CODE, session_id="s-4", text="¡hola!", sent_at_ms=START_MS)
        await shown.shows(HOSTILE, "hello", "note", "<i>yes", "¡hola!")
        await expect(page.locator("#live li")).to_have_count(0)
        await page.fill("#text", "  hi all ")
        await page.press("#text", "Enter")
        assert (await room.got("room_say"))["text"] == "hi all"
        async with page.expect_download() as saved:
            await page.click("#download")
        download = await saved.value
        text = (await download.path()).read_text("utf-8")
        assert download.suggested_filename == f"room-{CODE}.txt"
        assert re.search(r"Yuki \(en\): <i>yes\n +ja: <b>はい", text)


async def test_a_host_and_what_one_changes_while_talking(opened: Browser, address: str) -> None:
    async with scripted(opened, address) as (shown, room):
        await shown.join("Ana", "pt", code="")
        page = shown.page
        created = await room.got("room_create")
        assert (created["display_name"], created["preferred_lang"], created["room_events"]) == ("Ana", "pt", True)
        assert (await page.evaluate("location.hash")) == f"#{CODE}"
        await expect(page.locator("#digits")).to_have_text("483 920")
        room.members.append(member("s-2", "Bo", "en"))
        room.show_members(guests=2)
        await shown.shows("Bo has joined.")
        await expect(page.locator("#guests")).to_have_text("and 2 guests who listen")
        await page.click("#lock")
        assert (await room.got("room_lock"))["locked"] is True
        room.show_members(locked=True)
        await expect(page.locator("#lock")).to_have_attribute("aria-pressed", "true")
        await page.click("#people button[aria-label='Remove Bo']")
        await page.click("#yes")
        assert (await room.got("room_remove"))["target_session_id"] == "s-2"
        await page.select_option("#my-language", "es")
        told = await room.got("room_update")
        assert (told["preferred_lang"], told["src_lang"]) == ("es", "es")
        await page.fill("#my-name", "Anabel")
        await page.press("#my-name", "Enter")
        assert (await room.got("room_update", 2))["display_name"] == "Anabel"
        await page.locator("#translations").fill("0")
        assert (await room.got("room_update", 3))["speech"] is False
        await page.click("#end")
        await page.click("#yes")
        await room.got("room_close")
        room.say("room_expired", room_code=CODE, message="主持人已关闭房间 (the host closed the room)")
        await expect(page.locator("#door-notice")).to_have_text("The room has ended: the host closed the room")
        await expect(page.locator("#keep")).to_be_visible()
        # Remembered for the next time.
        await page.reload()
        await expect(page.locator("#name")).to_have_value("Anabel")
        await expect(page.locator("#join")).to_have_text("Join room 483 920")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("ROOM_NOT_FOUND", "There is no room with this code. It may have ended."),
        ("ROOM_FULL", "The room is full."),
        ("ROOM_LOCKED", "The host has locked the room."),
        ("QUOTA_EXCEEDED", "Too many tries. Wait a minute, then try again."),
    ],
)
async def test_a_closed_door_says_why(opened: Browser, address: str, code: str, told: str) -> None:
    async with scripted(opened, address) as (shown, room):
        page = shown.page
        await page.fill("#code", "48392")
        await page.click("#join")
        await expect(page.locator("#door-notice")).to_have_text("A room code has six digits.")
        room.refusal = code
        await page.fill("#code", f"https://talk.example.org/room#{CODE}")
        await page.click("#join")
        await expect(page.locator("#door-notice")).to_have_text(told)
        room.refusal = ""
        await page.click("#join")
        await page.wait_for_selector("html[data-view=room]")


async def test_a_broken_connection_is_mended_and_nothing_is_shown_twice(opened: Browser, address: str) -> None:
    async with scripted(opened, address) as (shown, room):
        room.members = FIVE
        await shown.join("Tom", "en")
        room.result("s-1", 0, "um", "one", room_seq=5)
        await shown.shows("one")
        await room.lose_socket()
        assert (await room.got("session_init", 2))["last_room_seq"] == 5
        await expect(shown.page.locator("html")).to_have_attribute("data-state", "open")
        room.result("s-1", 0, "um", "one", room_seq=5)
        room.result("s-1", 1, "dois", "two", room_seq=6)
        await shown.shows("one", "two")
        # The session is lost as well: the page joins again by itself.
        room.is_lost = True
        await room.lose_socket()
        assert (await room.got("room_join", 2))["room_code"] == CODE
        room.result("s-1", 2, "três", "three", room_seq=7)
        await shown.shows("one", "two", "three")


async def test_a_guest_listens(opened: Browser, address: str) -> None:
    async with scripted(opened, address, PHONE, f"#{CODE}&listen") as (shown, room):
        page = shown.page
        room.members = [one for one in FIVE if one["session_id"] != ME]
        await expect(page.locator("#guest")).to_be_checked()
        await page.click("#join")
        await page.wait_for_selector("html[data-view=room]")
        assert (await room.got("room_join"))["listen_only"] is True
        await expect(page.locator("#speak")).to_be_hidden()
        await expect(page.locator("#write")).to_be_hidden()
        room.result("s-1", 0, "um", "one")
        await shown.shows("one")


async def whoami(route: Route) -> None:
    """As a scheduler answers at which everyone needs a credential."""
    if "authorization" in route.request.headers:
        await route.fulfill(json={"kind": "client", "scopes": ["room:create", "room:join", "session:open"]})
    else:
        await route.fulfill(status=401)


async def test_a_login_or_a_token_of_an_app_opens_the_door(opened: Browser, address: str) -> None:
    async with scripted(opened, address) as (shown, room):
        page = shown.page
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.headers.get("authorization", "")))
        await page.route("**/v1/whoami", whoami)
        await page.reload()
        await expect(page.locator("#door-notice")).to_contain_text("you need a personal link or a login")
        await expect(page.locator("#join")).to_be_disabled()
        await page.goto("about:blank")
        await shown.open(address, f"#{CODE}&token=abc")
        await shown.join("Tom", "en")
        assert "Bearer abc" in asked
        assert await page.locator("#link").input_value() == f"{address}/room#{CODE}"
        await expect(page.locator("#needs-own")).to_be_visible()
        # The page still has the token when it is loaded again; the link that is offered to others never has it.
        await page.reload()
        await expect(page.locator("#join")).to_be_enabled()
        assert (await room.got("room_join"))["room_code"] == CODE


async def test_on_a_phone_the_conversation_shows_who_speaks(opened: Browser, address: str) -> None:
    async with scripted(opened, address, PHONE) as (shown, room):
        room.members = FIVE
        await shown.join("Tom", "en")
        speakers = shown.page.locator("#speakers")
        room.show_members(guests=2)
        idle = "5 people and 2 guests who listen"
        await expect(speakers).to_have_text(idle)
        for speaker, told in (("s-3", "Yuki"), ("s-1", "Ana, Yuki"), (ME, "Ana, Yuki"), ("s-4", "Ana, Yuki, María")):
            room.say("room_speaking", room_code=CODE, session_id=speaker, speaking=True)
            await expect(speakers).to_have_text(f"Speaking: {told}")
            await expect(speakers).to_be_visible()
        for speaker in ("s-1", "s-3", "s-4"):
            room.say("room_speaking", room_code=CODE, session_id=speaker, speaking=False)
        await expect(speakers).to_have_text(idle)


async def test_after_a_reload_ones_own_lines_are_still_ones_own(opened: Browser, address: str) -> None:
    """What was said before comes with the id of the session before."""
    async with scripted(opened, address) as (shown, room):
        room.members = FIVE
        await shown.join("Tom", "en")
        room.result(ME, 0, "hello", "")
        await shown.shows("hello")
        await shown.page.reload()
        room.me = "s-again"
        room.members = [*FIVE, member("s-again", "Tom", "en")]
        await shown.join("Tom", "en", code="")
        lines = [
            {"session_id": ME, "display_name": "Tom", "text": "olá", "text_asr": "hello", "room_seq": 1, "at_ms": 1},
            {"session_id": "s-1", "display_name": "Ana", "text": "hi", "text_asr": "oi", "room_seq": 2, "at_ms": 2},
        ]
        room.say("room_history", room_code=CODE, lines=lines)
        await shown.shows("hello", "hi")
        await expect(shown.page.locator("#said li.mine .text")).to_have_text(["hello"])
        await expect(shown.page.locator("#people .tag", has_text="you")).to_have_count(1)


@pytest.mark.parametrize(("language", "told"), [("en-GB", "it is not translated"), ("zh-CN", "文字消息不翻译")])
async def test_the_page_says_that_messages_are_not_translated(
    opened: Browser, address: str, language: str, told: str
) -> None:
    async with scripted(opened, address, PHONE, f"#{CODE}", language=language) as (shown, _):
        await shown.join("Tom", "en", code="")
        await expect(shown.page.locator("#write-hint")).to_contain_text(told)
        await expect(shown.page.locator("#text")).to_have_accessible_description(re.compile(told))


async def test_without_a_microphone_one_still_reads(opened: Browser, address: str) -> None:
    """This browser has none."""
    async with scripted(opened, address) as (shown, room):
        room.members = FIVE
        await shown.join("Tom", "en")
        await shown.page.click("#speak")
        await expect(shown.page.locator("#room-notice")).to_contain_text("microphone")
        room.result("s-1", 0, "um", "one")
        await shown.shows("one")


async def test_hands_free_and_held_speech_is_sent(talking: Browser, address: str) -> None:
    async with scripted(talking, address) as (shown, room):
        page = shown.page
        await shown.join("Tom", "en", code="")
        await page.locator("#stream").focus()
        await page.keyboard.down(" ")
        await until(lambda: len(room.of("audio")) > 3, what="speech is sent while the space bar is held")
        await page.keyboard.up(" ")
        await until(lambda: room.of("audio")[-1]["is_final"], what="the end of it is sent")
        await page.click("#free")
        await page.wait_for_selector("html[data-phase=latched]")
        known = len(room.of("audio"))
        await until(lambda: len(room.of("audio")) > known, what="the beep is heard")
        await page.click("#speak")
        await expect(page.locator("#hint")).to_have_text("Muted")


# A real scheduler


async def packets_heard(page: Page) -> int:
    """How many packets of sound the links of an existing page have carried to it."""
    return int(
        await page.evaluate(
            """async () => {
              let packets = 0;
              for (const pc of app.links.values())
                for (const stat of (await pc.getStats()).values())
                  if (stat.type === 'inbound-rtp') packets += stat.packetsReceived;
              return packets;
            }"""
        )
    )


async def test_voices_connect_among_new_pages_and_with_an_existing_one(
    talking: Browser, port: int, recorder: Recorder
) -> None:
    async with page_of(talking) as first, page_of(talking) as second, page_of(talking) as existing:
        host, guest = RoomPage(first), RoomPage(second)
        here = f"http://127.0.0.1:{port}"
        await host.open(here)
        await host.join("Ana", "zh", code="")
        code = (await first.evaluate("location.hash"))[1:]
        await guest.open(here, f"#{code}")
        await guest.join("Tom", "en", code=code)
        for page in (host, guest):
            await page.voices(1)
        await existing.goto(f"{here}/talk")
        await existing.evaluate(CLIENT, port)
        await until(lambda: existing.evaluate("app.id"), what="the existing page has a session")
        await existing.evaluate("code => app.send('room_join', {room_code: code, display_name: 'Old'})", code)
        for page in (host, guest):
            await page.voices(2)
        assert await guest.people() == ["Ana", "Tom", "Old"]
        # One that was there before a page comes: it offers, the page answers.
        await second.click("#leave")
        await expect(second.locator("#door-notice")).to_have_text("You have left the room.")
        await host.voices(1)
        await guest.join("Tom", "en", code=code)
        for page in (host, guest):
            await page.voices(2)
        # The microphone was not needed so far. Now its voice is heard, without another offer.
        assert await packets_heard(existing) == 0
        await second.locator("#stream").focus()
        await second.keyboard.down(" ")

        async def is_heard() -> bool:
            return await packets_heard(existing) > 50

        await until(is_heard, what="the existing page hears a second of the voice")
        await second.keyboard.up(" ")
        await until(lambda: recorder.jobs, what="and a node hears it too")


# To look at


@pytest.mark.skipif(not SHOTS, reason="pictures are made with SHOTS=a folder")
@pytest.mark.parametrize("language", ["en-GB", "zh-CN"])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
async def test_pictures(opened: Browser, address: str, language: str, theme: str, size: tuple[int, int]) -> None:
    """The one of docs/rooms.md is put together of the light English ones."""
    name, mine = f"{SHOTS}/room-{language[:2]}-{theme}-{size[0]}", language[:2]
    english = mine == "en"
    async with scripted(opened, address, size, f"#{CODE}", theme=theme, language=language) as (shown, room):
        page = shown.page
        await page.screenshot(path=f"{name}-door.png")
        room.members = [
            member(ME, "Tom" if english else "李明", mine, role="host"),
            member("s-1", "Ana Souza", "pt"),
            member("s-3", "Yuki", "ja"),
            member("s-4", "María del Carmen Rodríguez", "es"),
            member("s-5", "Jean", "fr", role="listener"),
        ]
        room.more = {"guests": 12}
        await shown.join("Tom" if english else "李明", mine)
        told = "Yes, let us begin. Have you received the documents?" if english else "好的，开始吧。资料收到了吗？"
        own = "I have them here. The second page is missing, though." if english else "我这里有，不过缺第二页。"
        sent = "I am sending it to you right now, one moment." if english else "我现在就发给你们，请稍等。"
        room.result("s-3", 0, "はい、始めましょう。資料は届いていますか。", told, lang=mine, tts_audio="AAAA" * 400)
        room.result(ME, 0, own, "")
        room.result("s-4", 0, "Os la envío ahora mismo, un momento.", sent, lang=mine, tts_audio="AAAA" * 400)
        room.say("missing_result", session_id=ME, utterance_index=1, reason="no_text", room_seq=4)
        room.say("room_message", room_code=CODE, session_id="s-5", text="merci !", sent_at_ms=START_MS)
        for speaker, words, lang in (
            ("s-1", "Enquanto esperamos, falo do orçamento", "pt"),
            ("s-3", "予算は後で", "ja"),
        ):
            room.say("room_speaking", room_code=CODE, session_id=speaker, speaking=True)
            room.caption(speaker, 1, words, lang, is_final=lang == "ja")
        await expect(page.locator("#live li")).to_have_count(2)
        await page.screenshot(path=f"{name}.png")
        if size == PHONE:
            await page.click("#panel")
            await page.screenshot(path=f"{name}-panel.png")
