"""Logging in to the dashboard, keys on it, and the talk page where callers need a key."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.protocol.sealing import Keyring
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import MadeKey, guarded_scheduler, made_key, write_keys_file
from tests.support.access_pages import dashboard, log_in, shoot
from tests.support.browser import DESKTOP, PHONE, page_of, serious_violations
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.talking import Recorder, recording_node

pytestmark = pytest.mark.asyncio(loop_scope="session")

ADMIN = made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="*", name="ops")
VIEWER = made_key(KeyKind.OPERATOR, role=Role.VIEWER, name="wall")
SIZES = [pytest.param(DESKTOP, id="desktop"), pytest.param(PHONE, id="phone")]


@pytest_asyncio.fixture(loop_scope="session")
async def scheduler(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Scheduler]:
    async with guarded_scheduler(server.url, tmp_path, ADMIN, VIEWER) as (scheduler, _):
        yield scheduler


async def code_of(scheduler: Scheduler, key: MadeKey) -> str:
    async with (
        aiohttp.ClientSession(headers=key.header) as http,
        http.post(f"http://127.0.0.1:{scheduler.port}/v1/login/codes") as response,
    ):
        return str((await response.json())["code"])


@pytest.mark.parametrize("size", SIZES)
async def test_a_key_is_created_and_revoked_after_a_login(
    scheduler: Scheduler, opened: Browser, size: tuple[int, int]
) -> None:
    async with page_of(opened, size) as page:
        await page.goto(dashboard(scheduler))
        await expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        await expect(page.get_by_role("navigation")).to_have_count(0)
        assert await serious_violations(page) == []
        await shoot(page, "login")
        await page.get_by_label("Operator key").fill("lk_op_wrong")
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("alert").filter(has_text="not accepted")).to_be_visible()
        await log_in(page, scheduler, ADMIN)
        await shoot(page, "overview")
        await page.get_by_role("link", name="Access").click()
        await expect(page.get_by_role("row").filter(has_text="wall")).to_contain_text("Viewer")
        assert ADMIN.text not in await page.content()
        await page.get_by_role("button", name="Create a key").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Kind", exact=True).select_option("operator")
        await dialog.get_by_label("Name").fill("night shift")
        await dialog.get_by_label("Role").select_option("operator")
        await shoot(page, "create")
        await dialog.get_by_role("button", name="Create a key").click()
        secret = await page.locator(".secret").text_content()
        assert secret
        assert secret.startswith("lk_op_")
        assert await serious_violations(page) == []
        await shoot(page, "secret")
        await page.get_by_role("button", name="Copy: Key").click()
        await page.get_by_role("dialog").get_by_role("button", name="Close").click()
        # Only once.
        await expect(page.locator("dialog")).to_have_count(0)
        assert secret not in await page.content()
        row = page.get_by_role("row").filter(has_text="night shift")
        await expect(row).to_contain_text("valid")
        assert await works(scheduler, secret)
        assert await serious_violations(page) == []
        await shoot(page, "keys")
        await row.get_by_role("button", name="Rotate").click()
        await page.get_by_role("dialog").get_by_label("Old key valid for").select_option("0")
        await page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
        rotated = await page.locator(".secret").text_content()
        assert rotated
        await page.get_by_role("dialog").get_by_role("button", name="Close").click()
        assert not await works(scheduler, secret)
        assert await works(scheduler, rotated)
        await expect(row).to_have_count(1)
        await row.get_by_role("button", name="Revoke").click()
        await shoot(page, "revoke")
        await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        await expect(row).to_have_count(0)
        assert not await works(scheduler, rotated)
        await page.get_by_label("Also show keys that have ended").check()
        await expect(row).to_have_count(2)
        await expect(row.first.get_by_role("button")).to_have_count(0)
        await page.get_by_role("button", name="Log out").click()
        await expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        assert await page.context.cookies() == []


async def works(scheduler: Scheduler, key: str) -> bool:
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as http,
        http.get(f"http://127.0.0.1:{scheduler.port}/v1/whoami") as response,
    ):
        return response.status == 200


async def test_a_login_link_works_once_and_leaves_the_address_bar(scheduler: Scheduler, opened: Browser) -> None:
    code = await code_of(scheduler, ADMIN)
    async with page_of(opened) as page:
        await page.goto(dashboard(scheduler, f"#code={code}"))
        await expect(page.locator(".verdict")).to_be_visible()
        assert code not in page.url
        assert "Admin" in (await page.locator(".who").text_content() or "")
        (cookie,) = await page.context.cookies()
        assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("lingua", True, "Strict")
        assert await page.evaluate("document.cookie") == ""
        # It is in no step of the history either.
        await page.reload()
        await expect(page.locator(".verdict")).to_be_visible()
    async with page_of(opened) as page:
        await page.goto(dashboard(scheduler, f"#code={code}"))
        await expect(page.get_by_role("alert").filter(has_text="used already")).to_be_visible()
        assert code not in page.url


async def test_a_viewer_has_no_buttons_and_no_keys(scheduler: Scheduler, opened: Browser) -> None:
    async with page_of(opened) as page:
        await log_in(page, scheduler, VIEWER)
        await expect(page.locator(".who")).to_contain_text("Viewer")
        await expect(page.get_by_role("link", name="Access")).to_have_count(0)
        await expect(page.locator(".alarm").first).to_be_visible()
        await expect(page.get_by_role("button", name="Acknowledge")).to_have_count(0)
        await page.goto(dashboard(scheduler, "#/access"))
        await expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()


async def test_whose_key_is_revoked_sees_the_login_at_once(scheduler: Scheduler, opened: Browser) -> None:
    key = made_key(KeyKind.OPERATOR, role=Role.OPERATOR)
    await scheduler.credentials.add(key.credential)
    async with page_of(opened) as page:
        await log_in(page, scheduler, key)
        await expect(page.locator(".connection")).to_have_attribute("data-state", "live")
        await scheduler.credentials.end(key.credential.id, at_ms=1)
        await expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        await expect(page.get_by_role("alert").filter(has_text="has ended")).to_be_visible()
        await expect(page.locator(".verdict")).to_have_count(0)


@pytest.mark.parametrize("size", SIZES)
async def test_a_red_bar_says_that_everybody_may_come_in(
    server: RedisProcess, opened: Browser, size: tuple[int, int]
) -> None:
    async with scheduler_on(server.url, auth__mode="off") as (scheduler, _), page_of(opened, size) as page:
        await page.goto(dashboard(scheduler))
        await expect(page.locator(".open-door")).to_contain_text("every caller that reaches this address")
        await expect(page.get_by_role("button", name="Log out")).to_have_count(0)
        assert await serious_violations(page) == []
        await shoot(page, "off")


async def test_where_no_key_is_needed_there_is_no_bar_and_no_login(server: RedisProcess, opened: Browser) -> None:
    async with scheduler_on(server.url) as (scheduler, _), page_of(opened) as page:
        await page.goto(dashboard(scheduler))
        await expect(page.locator(".verdict")).to_be_visible()
        await expect(page.locator(".open-door")).to_have_count(0)
        await expect(page.get_by_role("button", name="Log out")).to_have_count(0)
        await expect(page.get_by_role("link", name="Access")).to_be_visible()


@pytest.mark.parametrize("size", SIZES)
async def test_17_the_talk_page_without_a_login_says_so_and_makes_no_token(
    scheduler: Scheduler, humming: Browser, size: tuple[int, int]
) -> None:
    async with page_of(humming, size) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        sockets: list[str] = []
        page.on("websocket", lambda socket: sockets.append(socket.url))
        await page.goto(f"http://127.0.0.1:{scheduler.port}/talk")
        await expect(page.get_by_role("alert").filter(has_text="This page needs a login").first).to_be_visible()
        await expect(page.locator(".half[data-side=a] .speak")).to_be_disabled()
        assert await serious_violations(page) == []
        await shoot(page, "talk")
        assert not any("tokens" in url for url in asked)
        assert sockets == []


async def test_17_a_viewer_cannot_talk(scheduler: Scheduler, humming: Browser) -> None:
    async with page_of(humming) as page:
        await log_in(page, scheduler, VIEWER)
        await page.goto(f"http://127.0.0.1:{scheduler.port}/talk")
        await expect(page.get_by_role("alert").filter(has_text="This page needs a login").first).to_be_visible()


async def test_who_is_logged_in_talks_with_a_token(server: RedisProcess, tmp_path: Path, humming: Browser) -> None:
    node = made_key(KeyKind.NODE)
    keys_file = write_keys_file(tmp_path / "keys.toml", ADMIN, node)
    settings = {"auth__mode": "required", "auth__keys_file": keys_file}
    engine = Recorder()
    async with (
        scheduler_on(server.url, None, Keyring([b"1" * 32]), **settings) as (scheduler, _),
        recording_node(scheduler.port, engine, "en", "zh", token=node.text),
        page_of(humming) as page,
    ):
        await log_in(page, scheduler, ADMIN)
        urls: list[str] = []
        page.on("websocket", lambda socket: urls.append(socket.url))
        await page.goto(f"http://127.0.0.1:{scheduler.port}/talk")
        await expect(page.locator("html[data-state=open]")).to_have_count(1)
        await shoot(page, "talk-open")
        assert urls
        assert not any("?" in url for url in urls)


async def test_a_talk_page_whose_login_ends_says_so_and_goes_on_after_another_login(
    server: RedisProcess, tmp_path: Path, humming: Browser
) -> None:
    node, key = made_key(KeyKind.NODE), made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="*")
    keys_file = write_keys_file(tmp_path / "keys.toml", ADMIN, node)
    settings = {"auth__mode": "required", "auth__keys_file": keys_file}
    engine = Recorder()
    async with (
        scheduler_on(server.url, None, Keyring([b"1" * 32]), **settings) as (scheduler, _),
        recording_node(scheduler.port, engine, "en", "zh", token=node.text),
        page_of(humming) as page,
    ):
        await scheduler.credentials.add(key.credential)
        await log_in(page, scheduler, key)
        await page.goto(f"http://127.0.0.1:{scheduler.port}/talk")
        await expect(page.locator("html[data-state=open]")).to_have_count(1)
        await scheduler.credentials.end(key.credential.id, at_ms=1)
        await expect(page.get_by_role("alert").filter(has_text="This page needs a login").first).to_be_visible()
        await expect(page.locator("html[data-state=refused]")).to_have_count(1)
        beside = await page.context.new_page()
        await log_in(beside, scheduler, ADMIN)
        await expect(page.locator("html[data-state=open]")).to_have_count(1)
        await expect(page.locator(".half[data-side=a] .notice")).to_be_hidden()
