"""Draws docs/images/obs.png and conference.png: pages of examples/pages in Chromium, with people who talk in a room.

python -m tools.example_pictures
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from playwright.async_api import Page, expect

from lingua_scheduler.store.servers.embedded import shipped_binary
from lingua_sdk.client import Client, Room
from lingua_sdk.node import Abilities, JobOutput, Node
from lingua_sdk.protocol.node import JobAssign
from tests.support.browser import browser, page_of
from tests.support.example_pages import PAGES, address_of, serving, with_client
from tests.support.js_client import ROOT, build
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess

IMAGES = ROOT / "docs" / "images"
SCREEN = (1280, 720)
# As many seconds of sound as it takes to say them; this is what the node knows a sentence by.
SENTENCES = (
    {
        "en": "Good morning, and welcome to the harbour conference.",
        "pt": "Bom dia e sejam bem-vindos à conferência do porto.",
        "zh": "早上好，欢迎参加港口会议。",
    },
    {
        "en": "We begin with the new quay, which was opened in March.",
        "pt": "Começamos com o novo cais, que foi inaugurado em março.",
        "zh": "我们先谈谈三月份启用的新码头。",
    },
    {
        "en": "It has doubled the number of ships that can be unloaded in a day.",
        "pt": "Ele dobrou o número de navios que podem ser descarregados em um dia.",
        "zh": "它使每天可以卸货的船舶数量增加了一倍。",
    },
    {
        "en": "How much of the freight leaves the port by rail?",
        "pt": "Quanto da carga sai do porto por trem?",
        "zh": "有多少货物通过铁路离开港口？",
    },
)
LANGUAGES = tuple(SENTENCES[0])
# A picture of a camera, as OBS would show it below the page.
CAMERA = "html { background: linear-gradient(#8fa8bf, #c9bfa8 60%, #5d5a52) !important; }"


class Actors:
    """An engine that knows the sentences by their length."""

    name = "actors"

    async def translate(self, job: JobAssign, _: Callable[[str], None]) -> JobOutput:
        said = SENTENCES[len(job.audio) // 32_000 - 1]
        return JobOutput(said[job.src_lang], said[job.tgt_lang])


@asynccontextmanager
async def stage() -> AsyncIterator[tuple[str, int]]:
    """The address of the pages, and the port of a scheduler with a node."""
    folder = Path(tempfile.mkdtemp(prefix="lingua-pictures-"))
    shutil.copytree(PAGES, folder / "pages", ignore=shutil.ignore_patterns("node_modules"))
    binary = shipped_binary()
    assert binary is not None, "there is no Redis: see docs/deploy.md"
    redis = RedisProcess(str(binary))
    try:
        built = build(folder)
        async with scheduler_on(redis.url) as (scheduler, _), serving(with_client(folder / "pages", built)) as origin:
            node = Node(f"127.0.0.1:{scheduler.port}", Actors(), Abilities(LANGUAGES, LANGUAGES, LANGUAGES))
            running = asyncio.create_task(node.run())
            yield origin, scheduler.port
            await node.stop()
            await running
    finally:
        redis.stop()
        shutil.rmtree(folder)


async def say(room: Room, number: int, page: Page) -> None:
    """And wait until the page shows it in Portuguese."""
    await room.say(bytes(32_000 * number))
    await expect(page.get_by_text(SENTENCES[number - 1]["pt"])).to_be_visible(timeout=60_000)


async def are_there(room: Room, guests: int) -> None:
    async for event in room:
        if getattr(event, "guests", None) == guests:
            return


async def draw() -> None:
    async with AsyncExitStack() as stack:
        origin, port = await stack.enter_async_context(stage())
        opened = await stack.enter_async_context(browser())
        people = [await stack.enter_async_context(Client(f"ws://127.0.0.1:{port}", "en", "pt")) for _ in range(2)]
        anna = await people[0].create_room(name="Anna", language="en", speech=False)
        ben = await people[1].join_room(anna.code, name="Ben", language="en", speech=False)
        obs = await stack.enter_async_context(page_of(opened, SCREEN))
        conference = await stack.enter_async_context(page_of(opened, SCREEN))
        await obs.goto(address_of(origin, "obs.html", port, room=anna.code, lang="pt", keep="600", original="yes"))
        await obs.add_style_tag(content=CAMERA)
        named = {"room": anna.code, "langs": ",".join(LANGUAGES), "title": "Harbour conference · Hall 1"}
        await conference.goto(address_of(origin, "conference.html", port, **named))
        await are_there(anna, 1 + len(LANGUAGES))
        for number in (1, 2, 3):
            await say(anna, number, conference)
        await say(ben, 4, conference)
        await expect(obs.get_by_text(SENTENCES[3]["pt"])).to_be_visible(timeout=60_000)
        for page, name in ((obs, "obs"), (conference, "conference")):
            # It moves in for a moment.
            await page.evaluate("Promise.all(document.getAnimations().map((one) => one.finished))")
            await page.screenshot(path=IMAGES / f"{name}.png", scale="css")
            print(f"wrote docs/images/{name}.png")


if __name__ == "__main__":
    asyncio.run(draw())
