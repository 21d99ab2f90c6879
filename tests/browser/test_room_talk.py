"""Three real pages in one room on three instances: two with the habits of the existing client, one room page. Everyone
reads everyone, the voices connect, and the box that turns a voice off does."""

import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.browser.test_rooms import CLIENT, FLAGS, are_connected
from tests.support.browser import browser, page_of
from tests.support.peers import FakeNode, Field, Frame, result_of
from tests.support.room_page import RoomPage
from tests.support.room_talk import SOUND
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET
from tests.support.waiting import until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

LANGUAGES = ("zh", "en", "pt")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def talking() -> AsyncIterator[Browser]:
    async with browser(*FLAGS) as found:
        yield found


async def translate(node: FakeNode, job: Frame) -> None:
    said = f"spoken in {job['src_lang']}"
    await node.socket.send(
        result_of(
            job,
            node.node_id,
            text_asr=said,
            text_translated=f"{job['tgt_lang']}: {said}",
            tts_audio=base64.b64encode(SOUND).decode() if job["pipeline"]["use_tts"] else "",
            tts_format="pcm16",
        )
    )


async def texts(page: Page) -> list[str]:
    found: list[str] = await page.evaluate("app.results.map((frame) => frame.text_translated)")
    return found


async def reads(page: Page, *expected: str) -> None:
    async def has_come() -> bool:
        return len(await texts(page)) >= len(expected)

    await until(has_come, what=f"{expected} are read")
    assert await texts(page) == list(expected)


async def existing(page: Page, port: int) -> None:
    await page.goto(f"http://127.0.0.1:{port}/talk")
    await page.evaluate(CLIENT, port)
    await until(lambda: page.evaluate("app.id"), what="the page has a session")


async def say(page: Page, seq: int) -> None:
    """As `app.startSession()` of the existing page does."""
    await page.evaluate(
        "([payload, seq]) => [false, true].forEach((is_final, at) => app.send('audio_chunk', "
        "{session_id: app.id, seq: seq + at, is_final, payload}))",
        [base64.b64encode(PACKET * 10).decode(), seq],
    )


async def test_three_pages_on_three_instances_understand_each_other(server: RedisProcess, talking: Browser) -> None:
    async with AsyncExitStack() as stack:
        changes = {"server__allowed_origins": ("*",)}
        started = [await stack.enter_async_context(scheduler_on(server.url, **changes)) for _ in range(3)]
        ports = [scheduler.port for scheduler, _ in started]
        http = await stack.enter_async_context(aiohttp.ClientSession())
        field = Field(http, ports[0])
        stack.push_async_callback(field.close)
        await field.node(translate, languages=LANGUAGES, max_concurrent_jobs=8)
        ann, bob, third = [await stack.enter_async_context(page_of(talking)) for _ in range(3)]
        for page, port in ((ann, ports[0]), (bob, ports[1])):
            await existing(page, port)
        await ann.evaluate("app.send('room_create', {client_ts: Date.now(), display_name: 'Ann'})")
        code = await until(lambda: ann.evaluate("app.code"), what="the first page is in its room")
        await bob.evaluate("code => app.send('room_join', {room_code: code, display_name: 'Bob'})", code)
        cho = RoomPage(third)
        await cho.open(f"http://127.0.0.1:{ports[2]}", f"#{code}")
        await cho.join("Cho", "pt", code=code)
        await cho.voices(2)
        for page in (ann, bob):
            await are_connected(page, 2)
        assert await cho.people() == ["Ann", "Bob", "Cho"]
        # The existing pages speak Chinese and read English.
        await say(ann, 0)
        await reads(bob, "en: spoken in zh")
        await cho.shows("pt: spoken in zh")
        await say(bob, 0)
        await reads(ann, "en: spoken in zh")
        await cho.shows("pt: spoken in zh", "pt: spoken in zh")
        # Such a page shows a number once, no matter who spoke.
        await third.locator("#stream").focus()
        await third.keyboard.down(" ")
        await third.wait_for_timeout(1500)
        await third.keyboard.up(" ")
        await reads(ann, "en: spoken in zh", "en: spoken in pt")
        await reads(bob, "en: spoken in zh", "en: spoken in pt")
        for page in (ann, bob):
            shown = await page.evaluate("app.results.map((frame) => [frame.utterance_index, frame.tts_format])")
            assert len({index for index, _ in shown}) == len(shown)
            assert {tts_format for _, tts_format in shown} == {"pcm16"}
            assert not await page.evaluate("app.alerts.length")
        # The box: the one that unticks it loses that voice alone.
        await bob.evaluate(
            "app.send('room_raw_voice_preference', {room_code: app.code, "
            "target_session_id: app.members[0].session_id, receive_raw_voice: false})"
        )
        await are_connected(bob, 1)
        await cho.voices(2)
