"""Attacks A1 to A9: web pages of strangers, open in the browser of somebody who runs a scheduler."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict

from lingua_scheduler.telemetry import metrics
from tests.support.browser import browser
from tests.support.peers import Field, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess

EVIL = "http://evil.example"
SOCKETS = ("/ws/session", "/ws/node")


def refused(reason: str) -> float:
    return float(metrics.DOOR_REFUSALS.labels(reason)._value.get())


async def knock(port: int, path: str, **headers: str) -> tuple[int, dict[str, Any]]:
    """The status a handshake is answered with: 101 when there is a socket."""
    upgrade = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
    }
    sent = {name.replace("_", "-"): value for name, value in headers.items()} | upgrade
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{port}{path}", headers=sent, allow_redirects=False) as response,
    ):
        if response.status == 101:
            return 101, {}
        return response.status, await response.json()


async def honest(peers: Field) -> None:
    """A client beside the attacker is served as ever."""
    client = await peers.client()
    await client.utterance(0)
    assert (await client.outcome())["type"] == "translation_result"


@pytest.mark.parametrize("path", SOCKETS)
@pytest.mark.parametrize(
    "origin",
    [
        EVIL,  # A1 and A2
        "null",  # A3, a sandboxed frame
        "http://localhost.evil.example",  # A4
        "http://127.0.0.1.evil.example",
        "http://evil.example#localhost",
        "http://localhost@evil.example",
        "file://",
        "",
    ],
)
async def test_a1_to_a4_a_page_from_elsewhere_gets_no_socket(peers: Field, path: str, origin: str) -> None:
    before = refused("origin")
    status, body = await knock(peers.port, path, Origin=origin)
    assert (status, body["error"]) == (403, "ORIGIN_NOT_ALLOWED")
    assert ("web server" if origin == "null" else "server.allowed_origins") in body["detail"]
    assert origin in body["detail"]
    assert refused("origin") == before + 1


async def test_a5_an_allowed_origin_may_be_spelled_otherwise(server: RedisProcess) -> None:
    allowed = ["https://App.Example", "http://other.example:80"]
    async with scheduler_on(server.url, server__allowed_origins=allowed) as (scheduler, _):
        for origin in ("https://app.example", "HTTPS://APP.EXAMPLE", "https://app.example:443", "http://other.example"):
            assert (await knock(scheduler.port, "/ws/session", Origin=origin))[0] == 101, origin
        for origin in (
            "http://app.example",
            "https://app.example:8443",
            "https://an.app.example",
            "https://app.example.org",
        ):
            assert (await knock(scheduler.port, "/ws/session", Origin=origin))[0] == 403, origin


async def test_any_origin_may_be_allowed(server: RedisProcess) -> None:
    async with scheduler_on(server.url, server__allowed_origins=["*"]) as (scheduler, _):
        for origin in (EVIL, "null"):
            assert (await knock(scheduler.port, "/ws/session", Origin=origin))[0] == 101


@pytest.mark.parametrize("path", SOCKETS)
async def test_a6_programs_and_pages_of_this_machine_need_no_setting(peers: Field, path: str) -> None:
    assert (await knock(peers.port, path))[0] == 101
    own = f"http://127.0.0.1:{peers.port}"
    for origin in (own, "http://localhost:9001", "http://127.0.0.1:9001", "http://[::1]:9001", "https://localhost"):
        assert (await knock(peers.port, path, Origin=origin))[0] == 101, origin


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:5010", "localhost.evil.example", "192.0.2.1", "a@localhost"]
)
async def test_a7_a_name_pointed_at_loopback_is_refused(peers: Field, host: str) -> None:
    """DNS rebinding: the page and the scheduler are of the same origin then, as the browser sees it."""
    before = refused("host")
    for path in (*SOCKETS, "/v1/nodes", "/health", "/dashboard"):
        status, body = await knock(peers.port, path, Host=host, Origin=f"http://{host}")
        assert (status, body["error"]) == (421, "MISDIRECTED"), path
        assert "server.allowed_hosts" in body["detail"]
    assert refused("host") == before + 5
    for ours in ("localhost", "LOCALHOST:1", "127.0.0.1", "127.1.2.3:80", "[::1]:5010", "localhost."):
        assert (await peers.ask("GET", "/health", headers={"Host": ours}))[0] == 200, ours


async def test_who_listens_elsewhere_answers_to_every_name_unless_some_are_listed(server: RedisProcess) -> None:
    everywhere: dict[str, Any] = {"server__host": "0.0.0.0", "auth__mode": "off"}
    async with scheduler_on(server.url, **everywhere) as (scheduler, _), field(scheduler.port) as peers:
        same = {"Host": "translate.example", "Origin": "https://translate.example"}
        assert (await peers.ask("GET", "/health", headers={"Host": "any.example"}))[0] == 200
        assert (await knock(peers.port, "/ws/session", **same))[0] == 101
        assert (await knock(peers.port, "/ws/session", Host="translate.example", Origin=EVIL))[0] == 403
    named = everywhere | {"server__allowed_hosts": ["Translate.example"]}
    async with scheduler_on(server.url, **named) as (scheduler, _), field(scheduler.port) as peers:
        for host, status in (
            ("translate.example:443", 200),
            ("localhost", 200),
            ("127.0.0.1", 200),
            ("any.example", 421),
        ):
            assert (await peers.ask("GET", "/health", headers={"Host": host}))[0] == status, host


async def test_a8_a_cross_site_form_drains_nobody(peers: Field) -> None:
    node = await peers.node()
    before = refused("origin") + refused("fetch_site")
    for headers in (
        {"Origin": EVIL, "Sec-Fetch-Site": "cross-site"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": EVIL},  # A9: a browser without Sec-Fetch
    ):
        form = {"Content-Type": "text/plain"} | headers
        status, body = await peers.ask("POST", f"/v1/nodes/{node.node_id}/drain", data=b"", headers=form)
        assert (status, body["error"]) == (403, "ORIGIN_NOT_ALLOWED"), headers
    assert refused("origin") + refused("fetch_site") == before + 5
    await honest(peers)
    own = {"Origin": f"http://127.0.0.1:{peers.port}", "Sec-Fetch-Site": "same-origin"}
    assert (await peers.ask("POST", f"/v1/nodes/{node.node_id}/drain", headers=own))[0] == 200


async def test_a9_every_operation_that_changes_anything_asks_where_the_page_is_from(peers: Field) -> None:
    _, document = await peers.get("/openapi.json")
    unsafe = [(method, path) for path, methods in document["paths"].items() for method in methods if method != "get"]
    assert len(unsafe) > 8
    for method, path in unsafe:
        status, body = await peers.ask(method.upper(), path.replace("{", "").replace("}", ""), headers={"Origin": EVIL})
        assert (status, body["error"]) == (403, "ORIGIN_NOT_ALLOWED"), path
    # Nothing can be read across origins; and who is asked by such a page does not trust it as it trusts itself.
    assert (await peers.ask("GET", "/v1/nodes", headers={"Origin": EVIL}))[0] == 401
    assert (await peers.ask("GET", "/v1/nodes"))[0] == 200


async def test_a_page_from_elsewhere_holds_no_stream_open(server: RedisProcess) -> None:
    """A page cannot read a stream of ours, but it could take the place of somebody who can."""
    async with scheduler_on(server.url, watch__max_watchers=2) as (scheduler, _), aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{scheduler.port}/v1/watch"
        for headers in ({"Origin": EVIL}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "Same-Site"}) * 2:
            async with http.get(url, headers=headers) as response:
                assert response.status == 403, headers
                assert (await response.json())["error"] == "ORIGIN_NOT_ALLOWED"
        own = {"Origin": f"http://127.0.0.1:{scheduler.port}", "Sec-Fetch-Site": "same-origin"}
        async with http.get(url, headers=own) as response, http.get(url) as program:
            assert (response.status, program.status) == (200, 200)


async def test_the_words_of_a_browser_may_be_spelled_otherwise_and_several_origins_are_none(peers: Field) -> None:
    drain = f"/v1/nodes/{(await peers.node()).node_id}/drain"
    own = f"http://127.0.0.1:{peers.port}"
    for headers in (
        [("Sec-Fetch-Site", "Cross-Site")],
        [("Origin", own), ("Origin", EVIL)],
        [("Origin", EVIL), ("Origin", own), ("Sec-Fetch-Site", "same-origin")],
    ):
        status, body = await peers.ask("POST", drain, headers=CIMultiDict(headers))
        assert (status, body["error"]) == (403, "ORIGIN_NOT_ALLOWED"), headers
    assert (await peers.ask("POST", drain, headers={"Origin": own, "Sec-Fetch-Site": "Same-Origin"}))[0] == 200


# The same with a real browser


@asynccontextmanager
async def evil_page() -> AsyncIterator[int]:
    """A web server of somebody else; the browser finds it under its name."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>kittens</title>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


OPEN = """([url]) => new Promise(done => {
    const socket = new WebSocket(url);
    socket.onopen = () => { socket.close(); done("open"); };
    socket.onerror = () => done("refused");
})"""
OPEN_IN_SANDBOX = """([url]) => new Promise(done => {
    addEventListener("message", told => done(`${told.origin} ${told.data}`));
    const frame = document.createElement("iframe");
    frame.sandbox = "allow-scripts";
    frame.srcdoc = `<script>const socket = new WebSocket("${url}");
        socket.onopen = () => parent.postMessage("open", "*");
        socket.onerror = () => parent.postMessage("refused", "*");</script>`;
    document.body.append(frame);
})"""
POST = """([url]) => fetch(url, {method: "POST", mode: "no-cors", body: ""}).then(() => "sent", () => "failed")"""


async def test_a1_to_a3_a7_a8_in_a_real_browser(peers: Field) -> None:
    node = await peers.node()
    here = f"127.0.0.1:{peers.port}"
    before = {reason: refused(reason) for reason in ("origin", "host")}
    async with evil_page() as port, browser("--host-resolver-rules=MAP evil.example 127.0.0.1") as opened:
        page = await opened.new_page()
        await page.goto(f"http://evil.example:{port}/")
        for path in SOCKETS:
            assert await page.evaluate(OPEN, [f"ws://{here}{path}"]) == "refused"
        assert await page.evaluate(OPEN_IN_SANDBOX, [f"ws://{here}/ws/session"]) == "null refused"
        assert refused("origin") == before["origin"] + 3
        # A7: its own name, pointed at us.
        assert await page.evaluate(OPEN, [f"ws://evil.example:{peers.port}/ws/session"]) == "refused"
        assert refused("host") == before["host"] + 1
        # A8: sent it is, but not obeyed.
        await page.evaluate(POST, [f"http://{here}/v1/nodes/{node.node_id}/drain"])
        assert refused("origin") == before["origin"] + 4
        await honest(peers)
        # The existing page: another port of this machine, by name and by address. And our own pages.
        for at in (f"http://localhost:{port}/", f"http://127.0.0.1:{port}/", f"http://{here}/talk"):
            await page.goto(at)
            for host in ("127.0.0.1", "localhost"):
                url = f"ws://{host}:{peers.port}/ws/session"
                if "/talk" not in at or host == "127.0.0.1":  # our pages may speak with their own server alone
                    assert await page.evaluate(OPEN, [url]) == "open", (at, url)
