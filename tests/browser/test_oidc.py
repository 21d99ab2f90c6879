"""Logging in to the dashboard through an identity provider, in a real browser."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from lingua_scheduler.domain.access.scopes import Role
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import guarded_scheduler, made_key
from tests.support.browser import page_of, serious_violations
from tests.support.oidc import made_up_provider, real_provider, scheduler_with
from tests.support.servers import RedisProcess

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def sign_in(page: Page, port: int, name: str) -> None:
    await page.goto(f"http://127.0.0.1:{port}/dashboard")
    offer = page.get_by_role("link", name="Sign in with localhost")
    await expect(offer).to_be_visible()
    assert await serious_violations(page) == []
    await offer.click()
    # The page of the provider, which is another site: localhost, not 127.0.0.1.
    await expect(page.get_by_role("button", name=name, exact=True)).to_be_visible()
    await page.get_by_role("button", name=name, exact=True).click()


async def test_a_person_signs_in_and_out(server: RedisProcess, tmp_path: Path, opened: Browser) -> None:
    with real_provider() as issuer:
        async with scheduler_with(issuer, server.url, tmp_path) as (scheduler, _), page_of(opened) as page:
            await sign_in(page, scheduler.port, "alice")
            await expect(page.locator(".verdict")).to_be_visible()
            assert page.url == f"http://127.0.0.1:{scheduler.port}/dashboard"
            await expect(page.locator(".who")).to_have_attribute("title", "Logged in as oidc:alice: Operator, acme")
            (cookie,) = [one for one in await page.context.cookies() if one["name"].startswith("lingua")]
            assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("lingua", True, "Strict")
            await page.reload()
            await expect(page.locator(".verdict")).to_be_visible()
            await page.get_by_role("button", name="Log out").click()
            await expect(page.get_by_role("heading", name="Log in")).to_be_visible()


async def test_a_person_without_a_role_reads_why(server: RedisProcess, tmp_path: Path, opened: Browser) -> None:
    with real_provider() as issuer:
        async with scheduler_with(issuer, server.url, tmp_path) as (scheduler, _), page_of(opened) as page:
            await sign_in(page, scheduler.port, "bob")
            await expect(page.get_by_role("heading", name="Not logged in")).to_be_visible()
            await expect(page.get_by_text("None of your groups has a role")).to_be_visible()
            assert await serious_violations(page) == []
            await page.get_by_role("link", name="To the dashboard").click()
            await expect(page.get_by_role("heading", name="Log in")).to_be_visible()


async def test_a_provider_that_is_away_leaves_the_key(server: RedisProcess, tmp_path: Path, opened: Browser) -> None:
    async with made_up_provider() as provider:
        gone = provider.issuer
    async with scheduler_with(gone, server.url, tmp_path) as (scheduler, _), page_of(opened) as page:
        await page.goto(f"http://127.0.0.1:{scheduler.port}/dashboard")
        await page.get_by_role("link", name="Sign in with 127.0.0.1").click()
        await expect(page.get_by_text("log in with an operator key")).to_be_visible()
        await page.get_by_role("link", name="To the dashboard").click()
        await expect(page.get_by_label("Operator key")).to_be_visible()


async def test_without_a_provider_there_is_no_offer(server: RedisProcess, tmp_path: Path, opened: Browser) -> None:
    key = made_key(KeyKind.OPERATOR, role=Role.VIEWER)
    async with guarded_scheduler(server.url, tmp_path, key) as (scheduler, _), page_of(opened) as page:
        async with page.expect_response("**/v1/login/offers") as answered:
            await page.goto(f"http://127.0.0.1:{scheduler.port}/dashboard")
        assert await (await answered.value).json() == {"oidc": ""}
        await expect(page.get_by_label("Operator key")).to_be_visible()
        await expect(page.get_by_role("link", name="Sign in with")).to_have_count(0)
