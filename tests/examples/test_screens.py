"""examples/pages in Chromium: subtitles for OBS and the screen of a conference, with a room and with what breaks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import Browser, Locator, Page, expect

from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.store.servers.local_cluster import free_port
from lingua_sdk.client import Client, Room
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import guarded_scheduler, made_key
from tests.support.breaking import Proxy
from tests.support.browser import page_of
from tests.support.example_pages import address_of
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.talking import Recorder, recording_node
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECOND = bytes(32_000)


@asynccontextmanager
async def room_of_ann(port: int) -> AsyncIterator[Room]:
    async with Client(f"ws://127.0.0.1:{port}", "en", "pt") as client:
        yield await client.create_room(name="Ann", language="en")


async def is_listening(room: Room, guests: int) -> None:
    """So many guests are in the room, as its members are told."""
    async for event in room:
        if getattr(event, "guests", None) == guests:
            return


def captions(page: Page) -> Locator:
    return page.locator(".caption")


async def test_subtitles_of_a_room_come_and_go_over_a_transparent_page(
    server: RedisProcess, pages: str, opened: Browser, recorder: Recorder
) -> None:
    async with scheduler_on(server.url) as (scheduler, _), recording_node(scheduler.port, recorder, "en", "pt"):
        async with room_of_ann(scheduler.port) as room, page_of(opened, (1920, 1080)) as page:
            options = {"room": room.code, "lang": "pt", "lines": "2", "keep": "20", "original": "yes"}
            await page.goto(address_of(pages, "obs.html", scheduler.port, **options))
            await is_listening(room, 1)
            assert (
                await page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgba(0, 0, 0, 0)"
            )
            for number in (1, 2, 3):
                await room.say(SECOND)
                await expect(captions(page).last).to_have_text(f"Ann: <b>said</b> {number} in ptheard {number}")
            # The oldest has made room.
            assert await captions(page).count() == 2
            size = await captions(page).last.evaluate("(e) => parseFloat(getComputedStyle(e).lineHeight)")
            assert size == pytest.approx(1080 * 0.07, abs=1)
            await expect(page.locator("#problem")).to_be_hidden()
            await expect(captions(page)).to_have_count(0)


async def test_a_token_for_a_listener_of_the_room_is_enough(
    server: RedisProcess, pages: str, opened: Browser, recorder: Recorder, tmp_path: Path
) -> None:
    """Without one, the person who sets it up is told."""
    service, node = made_key(KeyKind.SERVICE), made_key(KeyKind.NODE)
    guarded = guarded_scheduler(server.url, tmp_path, service, node, keyring=Keyring([b"1" * 32]))
    async with guarded as (scheduler, _), recording_node(scheduler.port, recorder, "en", "pt", token=node.text):
        address = f"127.0.0.1:{scheduler.port}"
        async with Client(f"ws://{address}", "en", "pt", token=service.text) as client, page_of(opened) as page:
            room = await client.create_room(name="Ann", language="en")
            wish = {"subject": "obs", "room": {"code": room.code, "role": "listener"}}
            bearer = {"Authorization": f"Bearer {service.text}"}
            async with aiohttp.ClientSession(headers=bearer) as http:
                async with http.post(f"http://{address}/v1/tokens", json=wish) as answer:
                    token = (await answer.json())["token"]
            options = {"room": room.code, "lang": "pt", "keep": "600"}
            await page.goto(address_of(pages, "obs.html", scheduler.port, **options, token=token))
            await is_listening(room, 1)
            await room.say(SECOND)
            await expect(captions(page)).to_have_text("Ann: <b>said</b> 1 in pt")
            await page.goto(address_of(pages, "obs.html", scheduler.port, **options))
            await expect(page.locator("#problem")).to_contain_text("token")


async def test_subtitles_come_back_by_themselves_after_a_break(
    server: RedisProcess, pages: str, opened: Browser, recorder: Recorder
) -> None:
    async with scheduler_on(server.url) as (scheduler, _), recording_node(scheduler.port, recorder, "en", "pt"):
        async with room_of_ann(scheduler.port) as room, Proxy(scheduler.port) as proxy, page_of(opened) as page:
            await page.goto(address_of(pages, "obs.html", proxy.port, room=room.code, lang="pt", keep="600"))
            await is_listening(room, 1)
            proxy.is_cut = True
            await room.say(SECOND)
            await until(lambda: len(recorder.jobs) == 1)
            # The audience sees none of it.
            await expect(page.locator("#problem")).to_be_hidden()
            proxy.is_cut = False
            await expect(captions(page)).to_have_text("Ann: <b>said</b> 1 in pt")


async def test_subtitles_of_a_microphone_need_no_click(
    server: RedisProcess, pages: str, speaking: Browser, recorder: Recorder
) -> None:
    async with scheduler_on(server.url) as (scheduler, _), recording_node(scheduler.port, recorder, "en", "pt"):
        async with page_of(speaking) as page:
            options = {"from": "en", "to": "pt", "keep": "600"}
            await page.goto(address_of(pages, "obs.html", scheduler.port, **options))
            await expect(captions(page)).to_have_text("<b>said</b> 1 in pt")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "Add #room=483920&lang=pt, or #from=en&to=pt, to the address of this page."),
        ({"room": "483920"}, "Add #room=483920&lang=pt, or #from=en&to=pt, to the address of this page."),
        ({"room": "999999", "lang": "pt"}, "room"),
        ({"room": "12", "lang": "pt"}, "six digits"),
    ],
)
async def test_the_person_who_sets_it_up_reads_what_is_wrong(
    server: RedisProcess, pages: str, opened: Browser, options: dict[str, str], said: str
) -> None:
    async with scheduler_on(server.url) as (scheduler, _), page_of(opened) as page:
        await page.goto(address_of(pages, "obs.html", scheduler.port, **options))
        await expect(page.locator("#problem")).to_contain_text(said)


def column(page: Page, language: str) -> Locator:
    return page.locator(f"section[lang={language}]")


async def test_a_conference_reads_each_language_beside_the_others(
    server: RedisProcess, pages: str, opened: Browser, recorder: Recorder
) -> None:
    languages = ("en", "zh", "pt")
    async with scheduler_on(server.url) as (scheduler, _), recording_node(scheduler.port, recorder, *languages):
        async with room_of_ann(scheduler.port) as room, page_of(opened, (1920, 1080)) as page:
            options = {"room": room.code, "langs": "en,zh,pt", "title": "Opening"}
            await page.goto(address_of(pages, "conference.html", scheduler.port, **options))
            await is_listening(room, 3)
            assert await page.locator("h2").all_text_contents() == ["English", "中文", "português"]
            await expect(page.locator("#title")).to_have_text("Opening")
            await room.say(SECOND)
            for language in ("zh", "pt"):
                await expect(column(page, language).locator(".line")).to_contain_text(f"in {language}")
            await expect(column(page, "en").locator(".line")).to_contain_text("heard")
            await room.write("Lunch at one")
            await expect(column(page, "zh").locator(".line").last).to_have_text("Lunch at one")
            # A screen that is opened later has what was said lately.
            await page.reload()
            await expect(column(page, "pt").locator(".line")).to_have_count(2)
            await room.close()
            await expect(column(page, "pt").locator(".away")).to_contain_text("the host closed the room")


async def test_a_conference_that_is_open_before_the_scheduler_joins_when_it_can(
    server: RedisProcess, pages: str, opened: Browser, recorder: Recorder
) -> None:
    """And again, if the connection breaks."""
    async with scheduler_on(server.url) as (scheduler, _), recording_node(scheduler.port, recorder, "en", "pt"):
        async with room_of_ann(scheduler.port) as room, Proxy(free_port()) as proxy, page_of(opened) as page:
            await page.goto(address_of(pages, "conference.html", proxy.port, room=room.code, langs="pt"))
            await expect(column(page, "pt").locator(".away")).to_have_text("⟳")
            proxy.move(scheduler.port)
            await is_listening(room, 1)
            await expect(column(page, "pt").locator(".away")).to_have_text("")
            proxy.is_cut = True
            await room.say(SECOND)
            await expect(column(page, "pt").locator(".away")).to_have_text("⟳")
            proxy.is_cut = False
            await expect(column(page, "pt").locator(".line")).to_have_text("Ann<b>said</b> 1 in pt")


async def test_a_conference_without_a_room_says_what_to_add(pages: str, opened: Browser) -> None:
    async with page_of(opened) as page:
        await page.goto(f"{pages}/conference.html")
        await expect(page.get_by_role("alert")).to_have_text(
            "Add #room=483920&langs=en,zh,pt to the address of this page."
        )
