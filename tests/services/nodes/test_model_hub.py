"""A model hub that is slow, dead, lying or huge: last known state stays, and nobody waits."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from lingua_scheduler.console import hub as hubs
from lingua_scheduler.domain.guards.addresses import read_networks
from lingua_scheduler.domain.guards.destinations import Destinations
from lingua_scheduler.services.nodes.model_hub import Catalogue, HubAway
from lingua_scheduler.setting_sections.nodes import CatalogueSettings
from tests.support.waiting import until

# As plain values: a limit that changes is noticed.
LONGEST_PAUSE_S = 600.0

LOCAL = hubs.Hub(Destinations(read_networks(("127.0.0.1",))))
ASR, TTS = {"service_id": "whisper", "type": "asr"}, {"id": "piper", "type": "tts", "version": 2}


class Hub:
    def __init__(self) -> None:
        self.asked = 0
        self.answer: Any = [ASR]
        self.status = 200
        self.location = ""
        self.lets_go = asyncio.Event()
        self.lets_go.set()
        self.url = ""

    async def handle(self, _: web.Request) -> web.StreamResponse:
        self.asked += 1
        await self.lets_go.wait()
        body = self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()
        headers = {"Location": self.location} if self.location else None
        return web.Response(body=body, status=self.status, content_type="application/json", headers=headers)

    async def pour(self, request: web.Request) -> web.StreamResponse:
        """Never ends, and never says how long it will be."""
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 65_536)
        except ConnectionResetError:
            return response


@asynccontextmanager
async def hub_at() -> AsyncIterator[Hub]:
    hub = Hub()
    app = web.Application()
    app.router.add_get("/services", hub.handle)
    app.router.add_get("/flood", hub.pour)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    hub.url = f"http://127.0.0.1:{runner.addresses[0][1]}/services"
    try:
        yield hub
    finally:
        hub.lets_go.set()
        await runner.cleanup()


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    async with hub_at() as found:
        yield found


def catalogue(url: str, path: Path | None = None, **changed: Any) -> Catalogue:
    return Catalogue(CatalogueSettings(url=url, **changed), path, LOCAL.fetch)


def names(known: Catalogue) -> list[str]:
    return [service.service_id for service in known.services]


async def test_services_are_read_and_a_copy_is_kept(hub: Hub, tmp_path: Path) -> None:
    copy = tmp_path / "deep" / "services_index.json"
    known = catalogue(hub.url, copy)
    await known.refresh()
    assert (names(known), known.serial) == (["whisper"], 1)
    assert json.loads(copy.read_text())["services"][0]["service_id"] == "whisper"
    await known.refresh()
    assert known.serial == 1


async def test_offline_the_copy_is_what_is_known(hub: Hub, tmp_path: Path) -> None:
    copy = tmp_path / "services_index.json"
    await catalogue(hub.url, copy).refresh()
    offline = catalogue("http://127.0.0.1:9/services", copy)
    task = asyncio.create_task(offline.run())
    try:
        await until(lambda: offline.failures)
        assert names(offline) == ["whisper"]
    finally:
        task.cancel()


async def test_without_an_address_nobody_is_asked_and_the_copy_still_counts(tmp_path: Path) -> None:
    copy = tmp_path / "services_index.json"
    copy.write_text(json.dumps({"services": [TTS]}))
    known = catalogue("", copy)
    await asyncio.wait_for(known.run(), 10)
    assert (names(known), known.services[0].version) == (["piper"], "2")


@pytest.mark.parametrize("content", [b"", b"not json", b"[1]", b"\xff\xfe"])
async def test_a_broken_copy_is_passed_over(content: bytes, tmp_path: Path) -> None:
    copy = tmp_path / "services_index.json"
    copy.write_bytes(content)
    known = catalogue("", copy)
    await known.read_copy()
    assert known.services == []


@pytest.mark.parametrize(
    ("status", "answer"), [(500, [TTS]), (404, b""), (200, b"<html>"), (200, {"what": 1}), (200, [{"name": "x"}])]
)
async def test_a_hub_that_lies_or_fails_changes_nothing(hub: Hub, status: int, answer: Any) -> None:
    known = catalogue(hub.url)
    await known.refresh()
    hub.status, hub.answer = status, answer
    await known.refresh()
    assert (names(known), known.failures) == (["whisper"], 1)
    hub.status, hub.answer = 200, [TTS]
    await known.refresh()
    assert (names(known), known.failures) == (["piper"], 0)


async def test_a_hub_that_is_slow_is_given_up_and_what_was_known_stays(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lingua_scheduler.services.nodes.model_hub.ANSWER_WITHIN_S", 1.0)
    known = catalogue(hub.url)
    await known.refresh()
    hub.lets_go.clear()
    await known.refresh()
    assert (names(known), known.failures) == (["whisper"], 1)


async def test_a_hub_inside_is_asked_only_if_that_is_allowed(hub: Hub) -> None:
    stranger = hubs.Hub(Destinations())
    for url in (hub.url, hub.url.replace("127.0.0.1", "user:secret@127.0.0.1"), "file:///etc/passwd"):
        with pytest.raises(HubAway, match=r"invalid catalogue\.url"):
            await stranger.fetch(url, 1_000)
    assert hub.asked == 0


async def test_a_hub_cannot_send_us_elsewhere(hub: Hub) -> None:
    hub.status, hub.location = 302, hub.url
    with pytest.raises(HubAway, match="status 302"):
        await LOCAL.fetch(hub.url, 1_000)
    assert hub.asked == 1


async def test_an_answer_without_end_is_not_read_to_the_end(hub: Hub) -> None:
    with pytest.raises(HubAway, match="larger than 200000 bytes"):
        await asyncio.wait_for(LOCAL.fetch(hub.url.replace("services", "flood"), 200_000), 20)


async def test_after_three_failures_the_pauses_grow_up_to_ten_minutes() -> None:
    known = catalogue("http://127.0.0.1:1025/")
    pauses = []
    for _ in range(9):
        await known.refresh()
        pauses.append(known.pause_s)
    assert pauses == [30, 30, 60, 120, 240, 480, LONGEST_PAUSE_S, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


async def test_an_address_that_is_none_is_a_failure_like_any_other() -> None:
    known = catalogue("not an address")
    await known.refresh()
    assert known.failures == 1
