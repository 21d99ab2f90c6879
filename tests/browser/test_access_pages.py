"""Keys with limits, nodes that join, the audit log, and what each role sees of them, in a real browser."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.scopes import Role
from lingua_sdk.domain.key_texts import KeyKind
from lingua_sdk.joining import JoinString, join
from tests.support.access import MadeKey, guarded_scheduler, made_key
from tests.support.access_pages import SHOTS, dashboard, log_in, shoot
from tests.support.browser import DESKTOP, PHONE, page_of, serious_violations
from tests.support.joining import shows
from tests.support.peers import FakeClient, FakeNode, Socket, answer, heartbeat, registration
from tests.support.servers import RedisProcess

pytestmark = pytest.mark.asyncio(loop_scope="session")

ADMIN = made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="*", name="ops")
ACME = made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="acme", name="acme admin")
VIEWER, OPERATOR, AUDITOR = (
    made_key(KeyKind.OPERATOR, role=role, tenant="*", name=role.value)
    for role in (Role.VIEWER, Role.OPERATOR, Role.AUDITOR)
)
SERVICE = made_key(KeyKind.SERVICE)
KEYS = (ADMIN, ACME, VIEWER, OPERATOR, AUDITOR, SERVICE)
SIZES = [pytest.param(DESKTOP, id="desktop"), pytest.param(PHONE, id="phone")]
HOSTILE = """<img src=x onerror="alert('key')"><script>alert(1)</script>"""


@pytest_asyncio.fixture(loop_scope="session")
async def scheduler(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Scheduler]:
    async with guarded_scheduler(server.url, tmp_path, *KEYS) as (scheduler, _):
        yield scheduler


async def ask(scheduler: Scheduler, key: MadeKey, method: str, path: str, **more: Any) -> Any:
    url = f"http://127.0.0.1:{scheduler.port}{path}"
    async with aiohttp.ClientSession(headers=key.header) as http, http.request(method, url, **more) as response:
        return await response.json()


def row(page: Page, text: str) -> Locator:
    return page.get_by_role("row").filter(has_text=text)


# Keys


@pytest.mark.parametrize("size", SIZES)
async def test_a_key_with_limits_is_made_and_its_secret_is_shown_once(
    scheduler: Scheduler, opened: Browser, size: tuple[int, int]
) -> None:
    async with page_of(opened, size) as page:
        await log_in(page, scheduler, ADMIN, "#/access")
        await page.get_by_role("button", name="Create a key").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_label("Kind", exact=True)).to_be_focused()
        await dialog.get_by_label("Kind", exact=True).select_option("client")
        # Only what a client has.
        await expect(dialog.get_by_label("Role")).to_be_hidden()
        await expect(dialog.get_by_label("May act for")).to_be_hidden()
        await dialog.get_by_label("Name").fill("web page")
        await dialog.get_by_label("Allowed origins").fill("app example")
        await dialog.get_by_label("Language pairs").fill("zh:en, *:fr")
        await dialog.get_by_role("button", name="Create a key").click()
        # What the scheduler says of it is beside the field.
        origins = dialog.locator(".field").filter(has=page.get_by_label("Allowed origins"))
        await expect(origins.get_by_role("alert")).to_contain_text("is none; write one as")
        await expect(dialog.get_by_label("Allowed origins")).to_be_focused()
        assert await serious_violations(page) == []
        await shoot(page, "key-fault")
        await dialog.get_by_label("Allowed origins").fill("https://app.example")
        # Enter is enough.
        await dialog.get_by_label("Allowed origins").press("Enter")
        secrets = page.locator(".secret")
        await expect(secrets).to_have_count(2)
        secret, address = await secrets.all_text_contents()
        assert secret.startswith("lk_cl_")
        assert address == f"ws://127.0.0.1:{scheduler.port}/ws/session?access_token={secret}"
        assert await serious_violations(page) == []
        await shoot(page, "key-secret")
        await page.reload()
        await expect(row(page, "web page")).to_contain_text("https://app.example")
        await expect(row(page, "web page")).to_contain_text("zh:en, *:fr")
        await expect(page.locator("dialog")).to_have_count(0)
        assert secret not in await page.content()
        assert secret not in await page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
        (made,) = [one for one in (await ask(scheduler, ADMIN, "GET", "/v1/keys"))["keys"] if one["name"] == "web page"]
        assert (made["origins"], made["pairs"]) == (["https://app.example"], ["zh:en", "*:fr"])


async def test_an_admin_of_one_tenant_is_told_what_it_may_not_give(scheduler: Scheduler, opened: Browser) -> None:
    async with page_of(opened) as page:
        await log_in(page, scheduler, ACME, "#/access")
        await page.get_by_role("button", name="Create a key").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_label("Tenant")).to_have_value("acme")
        await dialog.get_by_label("Tenant").fill("beta")
        await dialog.get_by_role("button", name="Create a key").click()
        alert = dialog.locator(".field").filter(has=page.get_by_label("Tenant")).get_by_role("alert")
        await expect(alert).to_contain_text("You may not do this")
        # A node that is not private would hear what is said in other tenants.
        await dialog.get_by_label("Tenant").fill("acme")
        await dialog.get_by_label("Kind", exact=True).select_option("node")
        private = dialog.get_by_label("Private")
        await expect(private).to_be_checked()
        await private.uncheck()
        await dialog.get_by_role("button", name="Create a key").click()
        alert = dialog.locator(".field").filter(has=page.get_by_label("Private")).get_by_role("alert")
        await expect(alert).to_contain_text("You may not do this")
        await expect(page.locator(".secret")).to_have_count(0)


# Nodes that join


async def joined_by(page: Page, folder: Path, node_id: str) -> Any:
    """The owner of the node pastes the string that the page shows."""
    string = await page.locator(".secret").text_content()
    assert string
    await page.get_by_role("dialog").get_by_role("button", name="Close").click()
    # A closed dialog has no role any more, and is removed a moment later.
    await expect(page.locator("dialog")).to_have_count(0)
    assert string not in await page.content()
    identity, answered = await join(JoinString.parse(string), folder / f"{node_id}.json", node_id)
    assert not answered.is_approved
    return identity


@asynccontextmanager
async def working(scheduler: Scheduler, identity: Any) -> AsyncIterator[FakeNode]:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http:
        socket = Socket(await http.ws_connect("/ws/node", headers=shows(identity), max_msg_size=0))
        await socket.send(registration(node_id=identity.node_id))
        node = FakeNode(socket, (await socket.next("node_register_ack"))["node_id"], answer)
        await socket.send(heartbeat(node.node_id))
        yield node
        await node.stop()


async def knock(scheduler: Scheduler, identity: Any) -> int:
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{scheduler.port}/ws/node", headers=shows(identity)) as response,
    ):
        return response.status


@pytest.mark.parametrize("size", SIZES)
async def test_a_node_is_invited_approved_works_and_is_banned(
    scheduler: Scheduler, opened: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with page_of(opened, size) as page:
        await log_in(page, scheduler, ADMIN, "#/joining")
        await expect(page.get_by_text("No node has a credential.")).to_be_visible()
        await shoot(page, "joining-empty")
        await page.get_by_role("button", name="Invite a node").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_label("Name")).to_be_focused()
        await dialog.get_by_label("Name").fill("Ada's GPUs")
        await dialog.get_by_label("Nodes at most").fill("2")
        await dialog.get_by_label("Nodes wait for approval").check()
        await dialog.get_by_label("Slots at most").fill("2")
        await dialog.get_by_label("Region").fill("eu")
        await dialog.get_by_label("Others").fill("rack")
        await dialog.get_by_role("button", name="Make the string").click()
        await expect(dialog.get_by_role("alert").filter(has_text="name=value")).to_be_visible()
        await dialog.get_by_label("Others").fill("rack=7")
        assert await serious_violations(page) == []
        await shoot(page, "invite")
        await dialog.get_by_role("button", name="Make the string").click()
        await expect(page.locator(".secret")).to_contain_text("lingua-join_")
        await shoot(page, "join-string")
        identity = await joined_by(page, tmp_path, "gpu-7")
        await expect(row(page, "Ada's GPUs")).to_contain_text("with approval")
        assert await knock(scheduler, identity) == 403
        waiting = page.locator("section").filter(has=page.get_by_role("heading", name="Waiting for approval"))
        await expect(waiting.get_by_role("row").filter(has_text="gpu-7")).to_contain_text("region=eu")
        assert await serious_violations(page) == []
        await shoot(page, "joining-pending")
        await waiting.get_by_role("button", name="Approve gpu-7").click()
        await shoot(page, "approve")
        await dialog.get_by_role("button", name="Approve").click()
        await expect(waiting).to_be_hidden()
        async with working(scheduler, identity):
            await expect(row(page, "gpu-7")).to_contain_text("ready")
            await translated(scheduler)
            assert await serious_violations(page) == []
            await shoot(page, "joining")
            await row(page, "gpu-7").get_by_role("button", name="Ban gpu-7").click()
            await shoot(page, "ban")
            await dialog.get_by_label("Revoke its invitation too").check()
            await dialog.get_by_role("button", name="Ban").click()
            await expect(row(page, "gpu-7")).to_have_count(0)
            await expect(row(page, "Ada's GPUs")).to_have_count(0)
        assert await knock(scheduler, identity) == 401


async def translated(scheduler: Scheduler) -> None:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http:
        client = FakeClient(Socket(await http.ws_connect("/ws/session", headers=SERVICE.header)))
        await client.init()
        await client.utterance(0)
        assert (await client.outcome())["type"] == "translation_result"


# What a role sees


ACTIONS = (
    "Drain",
    "Resume",
    "Evict",
    "Release",
    "Acknowledge",
    "Silence",
    "Create a key",
    "Rotate",
    "Revoke",
    "Approve",
)


@pytest.mark.parametrize(
    ("key", "tabs", "drains"),
    [
        pytest.param(VIEWER, [], False, id="viewer"),
        pytest.param(OPERATOR, [], True, id="operator"),
        pytest.param(AUDITOR, ["audit"], False, id="auditor"),
        pytest.param(ADMIN, ["access", "joining", "audit"], True, id="admin"),
    ],
)
async def test_a_role_sees_what_it_may_do_and_no_more(
    server: RedisProcess, tmp_path: Path, opened: Browser, key: MadeKey, tabs: list[str], drains: bool
) -> None:
    node = made_key(KeyKind.NODE, node_id="gpu-1")
    async with (
        guarded_scheduler(server.url, tmp_path, *KEYS, node) as (scheduler, _),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http,
        page_of(opened) as page,
    ):
        socket = Socket(await http.ws_connect("/ws/node", headers=node.header, max_msg_size=0))
        await socket.send(registration(node_id="gpu-1"))
        worker = FakeNode(socket, (await socket.next("node_register_ack"))["node_id"], answer)
        await log_in(page, scheduler, key, "#/nodes/gpu-1")
        await expect(page.get_by_role("heading", name="gpu-1")).to_be_visible()
        buttons = page.locator("main").get_by_role("button")
        if drains:
            await expect(buttons.filter(has_text="Drain")).to_be_visible()
        await expect(page.get_by_role("link", name="Access")).to_have_count(int(bool(tabs)))
        for route in ("nodes/gpu-1", "nodes", "overview", "jobs", "instances", "access", "joining", "audit"):
            await page.goto(dashboard(scheduler, f"#/{route}"))
            is_lost = route in ("access", "joining", "audit") and route not in tabs
            lost = page.get_by_role("heading", name="There is no such page")
            await expect(lost).to_have_count(int(is_lost))
            await expect(page.locator("h1")).to_be_visible()
            if not drains:
                for action in ACTIONS:
                    await expect(page.get_by_role("button", name=action)).to_have_count(0)
        await worker.stop()


async def test_an_action_that_is_refused_all_the_same_says_so_plainly(
    server: RedisProcess, tmp_path: Path, opened: Browser
) -> None:
    """The page was told of rights that the key does not have."""
    node = made_key(KeyKind.NODE, node_id="gpu-1")
    async with (
        guarded_scheduler(server.url, tmp_path, *KEYS, node) as (scheduler, _),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http,
        page_of(opened) as page,
    ):
        socket = Socket(await http.ws_connect("/ws/node", headers=node.header, max_msg_size=0))
        await socket.send(registration(node_id="gpu-1"))
        worker = FakeNode(socket, (await socket.next("node_register_ack"))["node_id"], answer)
        lied = {"kind": "operator", "tenant": "*", "key_id": "k", "subject": "", "role": "operator", "expires_ms": 0}
        lied |= {"scopes": ["fleet:read", "fleet:operate"], "is_login": True, "auth_mode": "required"}
        await log_in(page, scheduler, VIEWER)
        await page.route("**/v1/whoami", lambda route: route.fulfill(json=lied))
        await page.goto(dashboard(scheduler, "#/nodes/gpu-1"))
        await page.reload()
        await page.get_by_role("button", name="Drain").click()
        await page.get_by_role("dialog").get_by_role("button", name="Drain").click()
        alert = page.get_by_role("dialog").get_by_role("alert")
        await expect(alert).to_have_text("You may not do this: the credential lacks the scope fleet:operate")
        await worker.stop()


# The audit log


@pytest.mark.parametrize("size", SIZES)
async def test_an_auditor_finds_who_did_it(scheduler: Scheduler, opened: Browser, size: tuple[int, int]) -> None:
    for number in range(55):
        await ask(scheduler, ADMIN, "POST", "/v1/keys", json={"kind": "client", "name": f"c{number}", "tenant": "acme"})
    await ask(scheduler, OPERATOR, "POST", "/v1/nodes/gpu-9/drain")
    async with page_of(opened, size) as page:
        await log_in(page, scheduler, AUDITOR)
        await page.get_by_role("link", name="Access").click()
        await expect(page.get_by_role("heading", name="Audit log")).to_be_visible()
        await expect(row(page, "nodes.drain").first).to_contain_text("gpu-9")
        assert await serious_violations(page) == []
        await shoot(page, "audit")
        await expect(page.locator("tbody tr")).to_have_count(50)
        await page.get_by_role("button", name="Show older").click()
        await expect(row(page, "c0").last).to_be_visible()
        await page.get_by_label("Actions").select_option("nodes")
        await expect(row(page, "keys.create")).to_have_count(0)
        assert "action=nodes" in page.url
        await page.get_by_label("Object: node, key").fill("nowhere")
        await expect(page.get_by_text("There are no such entries.")).to_be_visible()
        await page.reload()
        await expect(page.get_by_text("There are no such entries.")).to_be_visible()


# What others say


async def test_12_names_labels_and_tenants_are_shown_as_text(scheduler: Scheduler, opened: Browser) -> None:
    made = await ask(
        scheduler, ADMIN, "POST", "/v1/keys", json={"kind": "enrol", "name": HOSTILE, "tenant": "acme", "max_nodes": 0}
    )
    assert made["about"]["name"] == HOSTILE
    keys = (await ask(scheduler, ADMIN, "GET", "/v1/keys"))["keys"]
    # No scheduler keeps such labels and tenants; the page must not depend on that.
    keys += [
        one | {"id": f"k{place}", "tenant": HOSTILE, "labels": {HOSTILE: HOSTILE}, "origins": [HOSTILE], "role": None}
        for place, one in enumerate(keys[:2])
    ]
    node: dict[str, Any] = {
        "node_id": HOSTILE,
        "credential_id": HOSTILE,
        "tenant": HOSTILE,
        "labels": {HOSTILE: HOSTILE},
        "is_approved": False,
        "is_ephemeral": True,
        "max_slots": 0,
        "enrolled_with": made["about"]["id"],
        "created_ms": 1,
        "expires_ms": 0,
    }
    entry: dict[str, Any] = {
        "seq": 1,
        "at_ms": 1,
        "action": HOSTILE,
        "object": HOSTILE,
        "outcome": HOSTILE,
        "request_id": "",
        "actor": dict.fromkeys(("kind", "key_id", "tenant", "address"), HOSTILE),
        "values": {HOSTILE: HOSTILE},
    }
    async with page_of(opened) as page:
        asked: list[str] = []
        page.on("dialog", lambda dialog: asked.append(dialog.message))
        await page.route("**/v1/keys?*", lambda route: route.fulfill(json={"keys": keys}))
        await page.route("**/v1/enrolments", lambda route: route.fulfill(json={"nodes": [node]}))
        await page.route("**/v1/audit?*", lambda route: route.fulfill(json={"entries": [entry], "next_before": 0}))
        await log_in(page, scheduler, ADMIN)
        for route in ("access", "joining", "audit"):
            await page.goto(dashboard(scheduler, f"#/{route}"))
            await expect(page.locator("tbody")).not_to_have_count(0)
            await expect(page.locator("main")).to_contain_text(HOSTILE)
            assert await page.locator("img[src=x], main script, dialog script").count() == 0
        await page.goto(dashboard(scheduler, "#/joining"))
        for button in ("Approve", "Reject"):
            await page.get_by_role("button", name=button).click()
            await expect(page.get_by_role("dialog").get_by_role("heading")).to_contain_text(HOSTILE)
            assert await page.locator("img[src=x], dialog script").count() == 0
            await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        assert asked == []


# To look at


@pytest.mark.skipif(not SHOTS, reason="pictures are made with SHOTS=a folder")
@pytest.mark.parametrize("language", ["en-GB", "zh-CN"])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
async def test_pictures(scheduler: Scheduler, opened: Browser, language: str, theme: str, width: int) -> None:
    labels = {"region": "eu-central", "trust": "high", "owner": "ada@translate.example"}
    wishes: list[dict[str, Any]] = [
        {"kind": "enrol", "name": "Ada's GPUs in the cellar", "labels": labels, "needs_approval": True, "max_nodes": 3},
        {"kind": "enrol", "name": "", "max_nodes": 0, "is_ephemeral": True, "nodes_live_ms": 86_400_000 * 30},
        {"kind": "client", "name": "web page", "origins": ["https://app.example"], "pairs": ["zh:en", "*:fr"]},
        {
            "kind": "service",
            "name": "backend of the conference app",
            "act_for": ["acme", "beta"],
            "expires_in_ms": 10**9,
        },
        {"kind": "node", "node_id": "gpu-legacy-1", "max_slots": 4, "networks": ["10.0.0.0/8"], "labels": labels},
    ]
    made = [await ask(scheduler, ADMIN, "POST", "/v1/keys", json={"tenant": "acme"} | wish) for wish in wishes]
    for place, key in ((0, "0a" * 32), (1, "0b" * 32), (1, "0c" * 32)):
        holder = MadeKey(made[place]["key"], ADMIN.credential)
        body = {"public_key": key, "node_id": f"gpu-{key[:4]}"}
        await ask(scheduler, holder, "POST", "/v1/nodes/enrol", json=body)
    name = f"{language[:2]}-{theme}"
    async with page_of(opened, (width, 844), theme=theme, language=language) as page:
        await log_in(page, scheduler, ADMIN)
        for route in ("access", "joining", "audit"):
            await page.goto(dashboard(scheduler, f"#/{route}"))
            await expect(page.locator("tbody tr").first).to_be_visible()
            await page.screenshot(path=f"{SHOTS}/{name}-{route}-{width}.png", full_page=True)
            assert await serious_violations(page) == []
            await page.locator(".heading .primary").first.click() if route != "audit" else None
            if route == "audit":
                continue
            if route == "access":
                await page.locator("dialog select").first.select_option("client")
            await page.screenshot(path=f"{SHOTS}/{name}-{route}-form-{width}.png")
            assert await serious_violations(page) == []
            await page.keyboard.press("Escape")
