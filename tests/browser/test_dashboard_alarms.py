"""Alarms on the page: what hurts most first, with the next step; acknowledged, silenced and forgotten by hand."""

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.support.browser import DESKTOP, PHONE, page_of
from tests.support.peers import Field, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUICK = {"watch__interval_ms": 500, "watch__watched_interval_ms": 200}


async def somebody_asks_for_korean(peers: Field) -> None:
    """A node served it before, so it is missed."""
    await peers.node()
    node = await peers.node(languages=("en", "ko"))

    async def is_served() -> bool:
        _, picture = await peers.get("/v1/picture")
        return any(pair["tgt"] == "ko" and pair["nodes"] for pair in picture["pairs"])

    await until(is_served, 30)
    await peers.post(f"/v1/nodes/{node.node_id}/drain")
    await node.socket.close()
    client = await peers.client(src_lang="en", tgt_lang="ko")
    await client.utterance(0, tgt_lang="ko")
    await client.outcome()
    await client.socket.close()


def about_korean(page: Page) -> Locator:
    return page.locator(".overview .alarm", has_text="lingua node --languages en,ko")


async def do(page: Page, action: str) -> None:
    await about_korean(page).get_by_role("button", name=action).click()
    await page.get_by_role("dialog").get_by_role("button", name=action).click()
    await expect(page.locator("dialog")).to_have_count(0)


async def test_an_alarm_is_acknowledged_silenced_and_forgotten(server: RedisProcess, opened: Browser) -> None:
    async with (
        scheduler_on(server.url, **QUICK) as (scheduler, _),
        field(scheduler.port) as peers,
        page_of(opened, DESKTOP) as page,
    ):
        await somebody_asks_for_korean(peers)
        await page.goto(f"http://127.0.0.1:{peers.port}/dashboard")
        first = page.locator(".overview .alarm").first
        await expect(first).to_contain_text("English → Korean: no node translates this")
        await expect(first).to_contain_text("No node speaks Korean. Start one with: lingua node --languages en,ko")
        await expect(page.locator(".verdict")).to_contain_text("no node serves English → Korean")
        await do(page, "Acknowledge")
        await expect(about_korean(page)).to_contain_text("by the dashboard")
        await do(page, "Undo")
        await about_korean(page).get_by_role("button", name="Acknowledge").click()
        await page.get_by_label("Your name").fill("Ada")
        await page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
        await expect(about_korean(page)).to_contain_text("by Ada")
        # It is asked for once.
        await about_korean(page).get_by_role("button", name="Silence").click()
        await expect(page.get_by_label("Your name")).to_have_value("Ada")
        await expect(page.get_by_role("dialog").locator("option").last).to_have_text("7 days")
        await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        await expect(page.locator(".verdict")).to_contain_text("no node serves")
        await do(page, "Silence")
        await expect(about_korean(page)).to_contain_text("Silenced until")
        await expect(page.locator(".verdict")).not_to_contain_text("no node serves")
        await do(page, "Undo")
        await expect(page.locator(".verdict")).to_contain_text("no node serves")
        await do(page, "Forget")
        await expect(about_korean(page)).to_have_count(0)
        # It comes back when somebody asks again.
        client = await peers.client(src_lang="en", tgt_lang="ko")
        await client.utterance(0, tgt_lang="ko")
        await expect(about_korean(page)).to_have_count(1)


async def test_the_next_step_is_said_in_chinese_on_a_phone(server: RedisProcess, opened: Browser) -> None:
    async with (
        scheduler_on(server.url, **QUICK) as (scheduler, _),
        field(scheduler.port) as peers,
        page_of(opened, PHONE, language="zh-CN") as page,
    ):
        await somebody_asks_for_korean(peers)
        await page.goto(f"http://127.0.0.1:{peers.port}/dashboard")
        first = page.locator(".overview .alarm").first
        await expect(first).to_contain_text("没有节点会说韩语。请启动一个：lingua node --languages en,ko")
        await do(page, "静音")
        await expect(about_korean(page)).to_contain_text("静音至")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
