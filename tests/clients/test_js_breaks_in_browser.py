"""The JavaScript client in Chromium while a person talks into a microphone and something breaks: no sample is lost,
none comes twice, and each sentence has one outcome."""

import base64
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.support.browser import browser, microphone, page_of
from tests.support.cutting import Cut, Cutter
from tests.support.peers import field, stay_silent
from tests.support.schedulers import scheduler_on, serve_process
from tests.support.servers import RedisProcess
from tests.support.spoken_page import SpokenPage, page_server
from tests.support.talking import Recorder, is_served, recording_node
from tests.support.tones import samples_of, tone, write_wav
from tests.support.waiting import until

RATE = 16_000
FLAGS = ("--autoplay-policy=no-user-gesture-required",)

pytestmark = [pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def humming(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    """Its microphone hears a steady tone."""
    wav = write_wav(tmp_path_factory.mktemp("wav") / "hum.wav", tone(440, 48_000, 60), 48_000)
    async with browser(*microphone(wav), *FLAGS) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def origin(built: Path) -> AsyncIterator[str]:
    async with page_server(built) as found:
        yield found


async def all_once(spoken: SpokenPage, jobs: list[bytes]) -> list[str]:
    """What else was told, once it is sure that all arrived once."""
    results, told, said = await spoken.heard()
    assert len(said) > RATE / 2
    assert samples_of(b"".join(jobs)) == said
    assert sorted(index for index, _ in results) == sorted({index for index, _ in results})
    assert [kind for _, kind in results] == ["translation"] * len(jobs)
    return told


STEPS = ("session_init_ack", "binary", "ui_event", "translation_result", "session_close", "session_close_ack")


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("kind", STEPS)
async def test_a_socket_that_breaks_at_any_step_loses_nothing_and_repeats_nothing(
    server: RedisProcess, humming: Browser, origin: str, kind: str, is_before: bool
) -> None:
    recorder = Recorder()
    async with scheduler_on(server.url) as (there, _), recording_node(there.port, recorder, "en", "zh"):
        async with Cutter(there.port, *[Cut(kind, is_before)] * 2) as cutter, page_of(humming) as page:
            spoken = SpokenPage(page)
            await page.goto(origin)
            await spoken.begin(cutter.port)
            await spoken.speak()
            await spoken.captured(RATE)
            await spoken.stop()
            await spoken.finish()
            told = await all_once(spoken, [job.audio for job in recorder.jobs])
    assert "restarted" not in told
    assert cutter.connections > 1 or (kind, is_before) == ("session_close_ack", False)


async def test_a_pause_that_the_scheduler_asks_for_loses_nothing(
    server: RedisProcess, humming: Browser, origin: str
) -> None:
    recorder = Recorder()
    limits = {"sessions__max_frames_per_s": 4}
    async with scheduler_on(server.url, **limits) as (there, _), recording_node(there.port, recorder, "en", "zh"):
        async with Cutter(there.port) as relay, page_of(humming) as page:
            spoken = SpokenPage(page)
            await page.goto(origin)
            await spoken.begin(relay.port)
            await spoken.speak()
            await spoken.told("state paused")
            await spoken.captured(RATE)
            await spoken.stop()
            await spoken.finish()
            await all_once(spoken, [job.audio for job in recorder.jobs])


async def test_what_a_node_took_with_it_when_it_was_killed_is_translated_by_another(
    server: RedisProcess, humming: Browser, origin: str
) -> None:
    async with scheduler_on(server.url) as (there, _), field(there.port) as peers:
        doomed = await peers.node(stay_silent)
        async with Cutter(peers.port) as relay, page_of(humming) as page:
            spoken = SpokenPage(page)
            await page.goto(origin)
            await spoken.begin(relay.port)
            await spoken.speak()
            await spoken.captured(RATE)
            await spoken.stop()
            await until(lambda: doomed.jobs)
            other = await peers.node()
            doomed.socket.drop()
            await spoken.finish()
            await all_once(spoken, [base64.b64decode(job["audio"]) for job in other.jobs])


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_scheduler_that_is_restarted_while_a_person_talks_goes_on_with_the_sentence(
    server: RedisProcess, humming: Browser, origin: str, tmp_path: Path, how: signal.Signals
) -> None:
    recorder = Recorder()
    arguments = ("--redis-url", server.url)
    (tmp_path / "again").mkdir()
    async with serve_process(tmp_path, *arguments) as first, page_of(humming) as page:
        await until(lambda: first.port, 60, "the scheduler is ready")
        async with Cutter(first.port) as relay:
            spoken = SpokenPage(page)
            async with recording_node(first.port, recorder, "en", "zh"):
                await until(lambda: is_served(first.port, "en:zh"), 60, "the node is there")
                await page.goto(origin)
                await spoken.begin(relay.port)
                await spoken.speak()
                await spoken.captured(RATE)
                first.process.send_signal(how)
                await spoken.told("state away")
                await first.process.wait()
            await spoken.captured(RATE)
            async with serve_process(tmp_path / "again", *arguments) as second:
                await until(lambda: second.port, 60, "the other one is ready")
                async with recording_node(second.port, recorder, "en", "zh"):
                    await until(lambda: is_served(second.port, "en:zh"), 60, "the node is there")
                    relay.move(second.port)
                    await spoken.told("resumed")
                    await spoken.captured(RATE)
                    await spoken.stop()
                    await spoken.finish()
                    told = await all_once(spoken, [job.audio for job in recorder.jobs])
    assert "restarted" not in told
