"""A page of another origin, as an app developer writes it: records, sends the file, and reads the translation."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.support.browser import browser, microphone, page_of
from tests.support.peers import FakeNode, Frame, field, result_of
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.sounds import SAMPLE

SESSIONS = Path(__file__).parents[2] / "docs" / "sessions.md"
SPEAK = """async (code) => {
  const said = [];
  for (const level of ["log", "warn", "error"]) console[level] = (...words) => said.push(words.join(" "));
  const speak = new Function(`${code}; return speak;`)();
  const until = async (count) => {
    while (said.length < count) await new Promise((resolve) => setTimeout(resolve, 20));
  };
  await until(1);
  speak(new Int16Array(32000).fill(9000));
  await until(3);
  return said;
}"""
RECORD = """async ([address, seconds]) => {
  const recorder = new MediaRecorder(await navigator.mediaDevices.getUserMedia({ audio: true }));
  const heard = new Promise((resolve) => (recorder.ondataavailable = ({ data }) => resolve(data)));
  recorder.start();
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  recorder.stop();
  const file = await heard;
  const response = await fetch(`${address}/v1/translate?src=en&tgt=zh`, {
    method: "POST", body: file, headers: { "X-Request-Id": "from-the-app" },
  });
  const id = response.headers.get("X-Request-Id");
  return { type: file.type, status: response.status, id, said: await response.json() };
}"""


@asynccontextmanager
async def app_page() -> AsyncIterator[str]:
    """An address that serves an empty page; localhost may use the microphone."""

    async def serve(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>app</title>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://localhost:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_what_a_browser_records_is_translated_for_a_page_of_another_origin(server: RedisProcess) -> None:
    pytest.importorskip("av", reason="PyAV is not installed: pip install 'lingua-scheduler[audio]'")
    lengths_ms: list[int] = []

    async def work(node: FakeNode, job: Frame) -> None:
        lengths_ms.append(len(base64.b64decode(job["audio"])) // 32)
        await node.socket.send(result_of(job, node.node_id, text_asr="hello", text_translated="你好"))

    async with (
        app_page() as app,
        scheduler_on(server.url, server__allowed_origins=[app]) as (scheduler, _),
        field(scheduler.port) as peers,
        browser(*microphone(Path(SAMPLE))) as opened,
        page_of(opened) as page,
    ):
        await peers.node(work)
        await page.goto(app)
        async with asyncio.timeout(90):
            found: Any = await page.evaluate(RECORD, [f"http://127.0.0.1:{scheduler.port}", 4])
    assert found["type"].startswith("audio/webm")
    assert (found["status"], found["id"]) == (200, "from-the-app"), found
    assert (found["said"]["state"], found["said"]["translation"]) == ("DONE", "你好")
    assert 1_000 < sum(lengths_ms) < 8_000


async def test_the_client_of_the_page_about_sessions_works_as_it_stands(server: RedisProcess) -> None:
    heard: list[bytes] = []

    async def work(node: FakeNode, job: Frame) -> None:
        heard.append(base64.b64decode(job["audio"]))
        about = {name: job[name] for name in ("job_id", "session_id", "utterance_index", "trace_id")}
        partial = {"type": "asr_partial", "node_id": node.node_id, "text": "hel", "is_final": False}
        await node.socket.send(partial | about)
        await node.socket.send(result_of(job, node.node_id, text_asr="hello", text_translated="olá"))

    found = re.search(r"```js\n(.*?)```", SESSIONS.read_text("utf-8"), re.DOTALL)
    assert found is not None
    async with (
        app_page() as app,
        scheduler_on(server.url, server__allowed_origins=[app]) as (scheduler, _),
        field(scheduler.port) as peers,
        browser() as opened,
        page_of(opened) as page,
    ):
        await peers.node(work, languages=("en", "pt"))
        await page.goto(app)
        async with asyncio.timeout(60):
            said = await page.evaluate(SPEAK, found[1].replace("localhost:5010", f"127.0.0.1:{scheduler.port}"))
    assert said == ["ready", "hel …", "hello → olá"]
    assert heard == [bytes.fromhex("2823") * 32_000]
