"""The room page where callers need a credential: what a token of an app allows is offered, and nothing else."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, WebSocketRoute, expect

from lingua_scheduler.protocol.sealing import Keyring
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import MadeKey
from tests.support.access_pages import shoot
from tests.support.browser import PHONE, page_of, serious_violations
from tests.support.room_page import RoomPage
from tests.support.servers import RedisProcess
from tests.support.tenants import Tenants, tenants_at

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROOMS = ["session", "room"]


@pytest_asyncio.fixture(loop_scope="session")
async def tenants(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Tenants]:
    async with tenants_at(server.url, tmp_path, keyring=Keyring([b"1" * 32])) as found:
        yield found


async def token_of(tenants: Tenants, tenant: str, **wish: Any) -> str:
    return await token_by(tenants, await tenants.key(KeyKind.SERVICE, tenant=tenant), **wish)


async def token_by(tenants: Tenants, key: MadeKey, **wish: Any) -> str:
    status, made = await tenants.ask("POST", "/v1/tokens", key, json={"subject": "ana", "grants": ROOMS} | wish)
    assert status == 200, made
    return str(made["token"])


def here(tenants: Tenants) -> str:
    return f"http://127.0.0.1:{tenants.scheduler.port}"


async def test_a_listeners_token_offers_listening_alone(tenants: Tenants, opened: Browser) -> None:
    # All nodes of the tenant are private.
    await tenants.node("own", "acme", is_private=True, languages=("en", "pt"))
    async with page_of(opened) as first, page_of(opened, PHONE) as second:
        host, guest = RoomPage(first), RoomPage(second)
        await host.open(here(tenants), f"#&token={await token_of(tenants, 'acme')}")
        await expect(first.locator("#create")).to_be_visible()
        await expect(first.locator("#language option")).to_have_text(["English", "Portuguese"])
        await host.join("Ana", "pt", code="")
        await expect(first.locator("#room-notice")).to_be_hidden()
        await expect(first.locator("#needs-own")).to_contain_text("a token of their own")
        code = (await first.evaluate("location.hash"))[1:7]
        token = await token_of(tenants, "acme", room={"code": code, "role": "listener"})
        # The address does not say that it is for listening.
        await guest.open(here(tenants), f"#{code}&token={token}")
        await expect(second.locator("#create")).to_be_hidden()
        await expect(second.locator("#or")).to_be_hidden()
        await expect(second.locator("#guest")).to_be_checked()
        await expect(second.locator("#guest")).to_be_disabled()
        await expect(second.locator("#name")).to_be_hidden()
        await expect(second.locator("#code")).not_to_be_editable()
        assert await serious_violations(second) == []
        await shoot(second, "room-guest-door")
        await second.click("#join")
        await second.wait_for_selector("html[data-view=room]")
        for what in ("#speak", "#free", "#write", "#my-name", "#host"):
            await expect(second.locator(what)).to_be_hidden()
        await expect(second.locator("#state")).to_contain_text("Listening in room")
        await expect(second.locator("#empty")).to_contain_text("You listen as a guest")
        await expect(second.locator("#speakers")).to_have_text("1 person and you, as a guest who listens")
        await shoot(second, "room-guest")
        await second.click("#panel")
        assert await guest.people() == ["Ana"]
        await expect(second.locator("#guests")).to_have_text("and you, as a guest who listens")
        await expect(first.locator("#guests")).to_have_text("and 1 guest who listens")
        assert await serious_violations(second) == []


async def test_a_token_for_one_room_offers_that_room_alone(tenants: Tenants, opened: Browser) -> None:
    async with page_of(opened) as page:
        shown = RoomPage(page)
        await shown.open(here(tenants), f"#&token={await token_of(tenants, 'acme', room={'code': '483920'})}")
        await expect(page.locator("#code")).to_have_value("483 920")
        await expect(page.locator("#code")).not_to_be_editable()
        await expect(page.locator("#create")).to_be_hidden()
        await expect(page.locator("#guest")).to_be_enabled()
        await page.click("#join")
        await expect(page.locator("#door-notice")).to_contain_text("no room with this code")


async def test_one_who_is_not_let_in_reads_what_to_do(tenants: Tenants, opened: Browser) -> None:
    async with page_of(opened) as page:
        shown = RoomPage(page)
        await shown.open(here(tenants))
        await expect(page.locator("#door-notice")).to_contain_text("ask for a link that has a token in it")
        await expect(page.locator("#login")).to_be_visible()
        await expect(page.locator("#join")).to_be_hidden()
        assert await serious_violations(page) == []
        await shoot(page, "room-denied")
        for token, told in (
            ("nonsense", "not valid any more"),
            (await token_of(tenants, "a", grants=["session"]), "grant"),
        ):
            await page.goto("about:blank")
            await shown.open(here(tenants), f"#483920&token={token}")
            await expect(page.locator("#door-notice")).to_contain_text(told)
            await expect(page.locator("#login")).to_be_hidden()
            await expect(page.locator("#join")).to_be_disabled()


async def note_what_is_told(page: Page) -> None:
    await page.evaluate(
        """() => {
          window.told = [];
          const notice = document.querySelector("#door-notice");
          new MutationObserver(() => notice.hidden || window.told.push(notice.textContent))
            .observe(notice, { attributes: true, childList: true });
        }"""
    )


async def test_one_whose_key_is_revoked_reads_that_alone(tenants: Tenants, opened: Browser) -> None:
    key = await tenants.key(KeyKind.SERVICE, tenant="acme")
    await tenants.node("own", "acme", is_private=True, languages=("en", "pt"))
    async with page_of(opened) as page:
        shown = RoomPage(page)
        await shown.open(here(tenants), f"#token={await token_by(tenants, key)}")
        await shown.join("Ana", "pt", code="")
        await note_what_is_told(page)
        status, answer = await tenants.ask("POST", f"/v1/keys/{key.credential.id}/revoke", json={})
        assert status == 200, answer
        await page.wait_for_selector("html[data-view=door]")
        await expect(page.locator("#door-notice")).to_contain_text("not valid any more")
        await expect(page.locator("#create")).to_be_disabled()
        told = await page.evaluate("window.told")
        assert all("not valid any more" in text for text in told), told


async def test_one_whose_token_has_expired_is_let_in_again_by_another_link(tenants: Tenants, opened: Browser) -> None:
    await tenants.node("own", "acme", is_private=True, languages=("en", "pt"))
    sockets: list[WebSocketRoute] = []

    def relay(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        socket.connect_to_server()

    async with page_of(opened) as page:
        await page.route_web_socket(lambda url: "/ws/session" in url, relay)
        shown = RoomPage(page)
        await shown.open(here(tenants), f"#&token={await token_of(tenants, 'acme')}")
        await shown.join("Ana", "pt", code="")
        code = (await page.evaluate("location.hash"))[1:7]
        await page.fill("#text", "half a sentence")
        await note_what_is_told(page)
        await sockets[-1].close(code=4005)
        await page.wait_for_selector("html[data-view=door]")
        await expect(page.locator("#door-notice")).to_contain_text("Ask the person or the app")
        await expect(page.locator("#state")).to_have_text("Not in a room")
        told = await page.evaluate("window.told")
        assert all("not valid any more" in text for text in told), told
        assert len(sockets) == 1
        await page.evaluate(f"location.hash = '#{code}&token={await token_of(tenants, 'acme')}'")
        await expect(page.locator("#join")).to_be_enabled()
        await page.click("#join")
        await page.wait_for_selector("html[data-view=room]")
        await expect(page.locator("#text")).to_have_value("half a sentence")
        await page.press("#text", "Enter")
        await shown.shows("half a sentence")
        await expect(page.locator("#text")).to_have_value("")
