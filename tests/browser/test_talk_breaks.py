"""The talk page when connections break, freeze or must wait: nothing said is lost, nothing is heard twice."""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, WebSocketRoute

from tests.support.breaking import Proxy
from tests.support.schedulers import scheduler_on, serve_process
from tests.support.servers import RedisProcess
from tests.support.talking import UNTOUCHED, Recorder, is_served, recording_node, talk_page
from tests.support.tones import samples_of
from tests.support.waiting import until

RATE = 16_000

# One loop for all, because it is one browser: what takes longest is to start it.
pytestmark = [pytest.mark.asyncio(loop_scope="session")]


async def test_a_killed_scheduler_loses_no_speech_and_hears_none_twice(
    server: RedisProcess, recorder: Recorder, humming: Browser, tmp_path: Path
) -> None:
    (tmp_path / "again").mkdir()
    async with talk_page(humming) as talk:
        await talk.page.add_init_script(UNTOUCHED)
        async with serve_process(tmp_path, "--redis-url", server.url) as first:
            await until(lambda: first.port, 60, "the scheduler is ready")
            port = first.port
            async with recording_node(port, recorder, "en", "zh"):
                await talk.open(port)
                await talk.press("a")
                await asyncio.sleep(1.0)
                first.process.kill()
                await talk.page.wait_for_selector("html[data-state=away]")
                async with serve_process(tmp_path / "again", "--redis-url", server.url, "--port", str(port)):
                    await talk.page.wait_for_selector("html[data-state=open]:not([data-times-resumed='0'])")
                    await asyncio.sleep(1.0)
                    await until(lambda: is_served(port, "en:zh"), 30, "the node is back")
                    await talk.release()
                    await until(lambda: talk.texts("b"), 30, "a translation")
                    await until(lambda: talk.has_played(0.9), 20, "the translation was played")
                    assert len(await talk.texts("b")) == len(recorder.jobs)
                    said = await talk.captured()
    assert len(said) > 2 * RATE
    assert samples_of(recorder.audio) == said


async def test_a_result_that_was_lost_with_the_connection_comes_once(
    port: int, recorder: Recorder, humming: Browser
) -> None:
    async with Proxy(port) as proxy, talk_page(humming) as talk:
        await talk.open(proxy.port)
        recorder.may_answer.clear()
        await talk.talk("a", seconds=0.6)
        await until(lambda: recorder.jobs, 10, "the job is under way")
        # Nothing breaks, nothing arrives: the page has to find out by itself.
        proxy.freeze()
        recorder.may_answer.set()
        await talk.page.wait_for_selector("html:not([data-times-resumed='0'])")
        await until(lambda: talk.has_played(0.9), 20, "the first was played")
        await talk.talk("a", seconds=0.6)
        await until(lambda: talk.shows(2), 20, "the next translation")
        assert await talk.texts("b") == ["<b>said</b> 1 in zh", "<b>said</b> 2 in zh"]
        await until(lambda: talk.has_played(1.9), 20, "both were played")
        await until(lambda: talk.is_quiet(), 10, "the loudspeaker is quiet")
        assert (await talk.played())[0] == pytest.approx(2.0, abs=0.25)


async def test_a_session_that_is_forgotten_is_begun_anew_with_what_was_not_answered(
    server: RedisProcess, recorder: Recorder, humming: Browser
) -> None:
    async with scheduler_on(server.url, sessions__grace_ms=200) as (scheduler, _), Proxy(scheduler.port) as proxy:
        async with recording_node(scheduler.port, recorder, "en", "zh"), talk_page(humming) as talk:
            await talk.page.add_init_script(UNTOUCHED)
            await talk.open(proxy.port)
            await talk.press("a")
            await asyncio.sleep(0.8)
            proxy.is_cut = True
            await talk.page.wait_for_selector("html[data-state=away]")
            await asyncio.sleep(0.6)
            proxy.is_cut = False
            await talk.page.wait_for_selector("html[data-state=open]")
            await talk.release()
            await until(lambda: talk.texts("b"), 20, "a translation")
            assert await talk.texts("b") == ["<b>said</b> 1 in zh"]
            assert await talk.page.locator(".half[data-side=a] li").count() == 1
            said = await talk.captured()
    assert len(said) > RATE
    assert samples_of(recorder.audio) == said


async def test_sentences_said_during_a_break_stay_sentences(port: int, recorder: Recorder, humming: Browser) -> None:
    async with Proxy(port) as proxy, talk_page(humming) as talk:
        await talk.open(proxy.port)
        proxy.is_cut = True
        await talk.page.wait_for_selector("html[data-state=away]")
        for _ in range(3):
            await talk.talk("a", seconds=0.5)
        proxy.is_cut = False
        await until(lambda: talk.shows(3), 30, "three translations")
        assert await talk.texts("b") == [f"<b>said</b> {number} in zh" for number in (1, 2, 3)]
        assert await talk.half("a").locator("li").count() == 3


async def test_a_sentence_that_became_part_of_another_does_not_wait_for_ever(
    server: RedisProcess, recorder: Recorder, humming: Browser
) -> None:
    # So long a wait for late audio takes what follows for a part of it.
    async with scheduler_on(server.url, sessions__hangover_manual_ms=2_500) as (scheduler, _):
        async with recording_node(scheduler.port, recorder, "en", "zh"), talk_page(humming) as talk:
            recorder.may_answer.clear()
            await talk.open(scheduler.port)
            await talk.talk("a", seconds=0.5)
            await talk.talk("a", seconds=0.5)
            await until(lambda: recorder.jobs, 20, "the job is under way")
            # Longer than it takes to settle: while something is under way, nothing is given up.
            await asyncio.sleep(6)
            assert await talk.half("a").locator("li").count() == 2
            recorder.may_answer.set()
            await until(lambda: talk.shows(1), 20, "a translation")
            await until(lambda: talk.is_without("li.pending, li.partial"), 20, "nothing waits any more")
            await talk.talk("a", seconds=0.5)
            await until(lambda: talk.shows(2), 20, "the next translation")
            assert await talk.texts("b") == ["<b>said</b> 1 in zh", "<b>said</b> 2 in zh"]
            assert await talk.half("a").locator("li").count() == 2


async def test_a_pause_is_obeyed_and_nothing_is_lost_by_it(port: int, recorder: Recorder, humming: Browser) -> None:
    sent: list[tuple[float, int]] = []
    asked: list[float] = []
    clock = asyncio.get_running_loop().time

    async with talk_page(humming) as talk:

        def between(socket: WebSocketRoute) -> None:
            there = socket.connect_to_server()

            def forward(frame: str | bytes) -> None:
                if isinstance(frame, bytes):
                    sent.append((clock(), int.from_bytes(frame[2:6], "little")))
                    if len(sent) == 3:
                        asked.append(clock())
                        socket.send('{"type":"backpressure","action":"PAUSE","resume_after_ms":2500,"message":""}')
                there.send(frame)

            socket.on_message(forward)

        await talk.page.add_init_script(UNTOUCHED)
        await talk.page.route_web_socket("**/ws/session", between)
        await talk.open(port)
        await talk.talk("a", seconds=3.5)
        await until(lambda: talk.texts("b"), 20, "a translation")
        said = await talk.captured()
    # A slow page hears of it a second later, and speaks for a second and a half more before it may send again.
    meanwhile = [at for at, _ in sent if asked[0] + 1 < at < asked[0] + 2.4]
    assert meanwhile == []
    assert [seq for _, seq in sent] == list(range(len(sent)))
    assert samples_of(recorder.audio) == said
