"""The credential of a request: where it is found, and what happens before a socket is accepted."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.domain.access.scopes import Role
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import MadeKey, guarded_scheduler, made_key
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess

UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}
PROTOCOL = "Sec-WebSocket-Protocol"


class House:
    """A scheduler at which everybody needs a key, and keys for it."""

    def __init__(self, port: int, http: aiohttp.ClientSession, keys: dict[str, MadeKey]) -> None:
        self.port = port
        self._http = http
        self.keys = keys

    def text(self, who: str) -> str:
        return self.keys[who].text

    async def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], Any]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._http.request(method, path, headers=sent) as response:
            is_json = "json" in response.content_type and method != "HEAD"
            return response.status, dict(response.headers), await response.json() if is_json else None

    async def knock(self, path: str, **headers: str) -> tuple[int, dict[str, str], Any]:
        return await self.ask(path, **{name.replace("-", "_"): value for name, value in UPGRADE.items()}, **headers)


@pytest.fixture
async def house(server: RedisProcess, tmp_path: Path) -> AsyncIterator[House]:
    keys = {
        "client": made_key(KeyKind.CLIENT),
        "other": made_key(KeyKind.CLIENT),
        "node": made_key(KeyKind.NODE),
        "viewer": made_key(KeyKind.OPERATOR, role=Role.VIEWER),
        "service": made_key(KeyKind.SERVICE),
    }
    async with (
        guarded_scheduler(server.url, tmp_path, *keys.values()) as (scheduler, _),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http,
    ):
        yield House(scheduler.port, http, keys)


async def test_a_socket_opens_with_a_key_in_the_header_the_query_or_the_subprotocol(house: House) -> None:
    key = house.text("client")
    assert (await house.knock("/ws/session", Authorization=f"Bearer {key}"))[0] == 101
    assert (await house.knock("/ws/session", Authorization=f"bearer  {key} "))[0] == 101
    assert (await house.knock(f"/ws/session?access_token={key}"))[0] == 101
    status, headers, _ = await house.knock("/ws/session", Sec_WebSocket_Protocol=f"lingua.v1, lingua.auth.{key}")
    assert (status, headers[PROTOCOL]) == (101, "lingua.v1")
    node = house.text("node")
    assert (await house.knock(f"/ws/node?access_token={node}"))[0] == 101
    assert (await house.knock(f"/ws/session?access_token={house.text('service')}"))[0] == 101


@pytest.mark.parametrize("path", ["/ws/session", "/ws/node"])
async def test_without_a_good_credential_there_is_no_upgrade(house: House, path: str) -> None:
    status, headers, body = await house.knock(path)
    assert (status, body["error"]) == (401, "UNAUTHENTICATED")
    assert headers["WWW-Authenticate"].startswith("Bearer")
    stranger = made_key(KeyKind.CLIENT).text
    status, headers, body = await house.knock(path, Authorization=f"Bearer {stranger}")
    assert (status, body["detail"]) == (401, "the credential is not accepted")
    status, _, body = await house.knock(path, Authorization=f"Bearer {house.text('viewer')}")
    assert (status, body["error"]) == (403, "PERMISSION_DENIED")


async def test_a_subprotocol_that_is_no_credential_is_as_ever(house: House) -> None:
    key = house.text("client")
    assert (await house.knock("/ws/session", Authorization=f"Bearer {key}", Sec_WebSocket_Protocol="lingua.v1"))[
        0
    ] == 101
    assert (await house.knock("/ws/session", Sec_WebSocket_Protocol="lingua.v1"))[0] == 401
    # It counts only where a browser can send nothing else.
    assert (await house.ask("/v1/pools", Sec_WebSocket_Protocol=f"lingua.v1, lingua.auth.{key}"))[0] == 401


async def test_another_scheme_is_for_somebody_else(house: House) -> None:
    assert (await house.ask("/v1/nodes", Authorization="Basic dXNlcjpwYXNz"))[0] == 401
    key = house.text("client")
    assert (await house.ask(f"/v1/pools?access_token={key}", Authorization="Basic dXNlcjpwYXNz"))[0] == 200


async def test_a_percent_encoded_name_hides_no_second_credential(house: House) -> None:
    one, other = house.text("client"), house.text("other")
    status, _, body = await house.ask(f"/v1/pools?access%5Ftoken={other}", Authorization=f"Bearer {one}")
    assert (status, body["error"]) == (400, "INVALID_MESSAGE")


async def test_the_same_credential_twice_is_one(house: House) -> None:
    key = house.text("client")
    assert (await house.ask(f"/v1/pools?access_token={key}", Authorization=f"Bearer {key}"))[0] == 200


async def test_an_operator_key_in_the_query_is_refused_even_if_a_header_has_it_too(house: House) -> None:
    key = house.text("viewer")
    status, _, body = await house.ask(f"/v1/nodes?access_token={key}", Authorization=f"Bearer {key}")
    assert status == 401
    assert "must not be in a URL" in body["detail"]
    assert key not in str(body)


async def test_an_operation_takes_no_notice_of_the_token_in_its_query(house: House) -> None:
    key = house.text("service")
    status, _, body = await house.ask(f"/v1/jobs/x/result?wait_ms=0&access_token={key}")
    assert (status, body["error"]) == (404, "NOT_FOUND")
    status, _, body = await house.ask(f"/v1/jobs/x/result?nonsense=1&access_token={key}")
    assert (status, body["error"]) == (400, "INVALID_MESSAGE")
    assert key not in str(body)


async def test_browsers_may_ask_whether_they_may_send_a_credential(server: RedisProcess, tmp_path: Path) -> None:
    page, key = "https://app.example", made_key(KeyKind.CLIENT)
    allowed = {"server__allowed_origins": [page]}
    async with (
        guarded_scheduler(server.url, tmp_path, key, **allowed) as (scheduler, _),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http,
    ):
        asked = {"Origin": page, "Access-Control-Request-Headers": "authorization"}
        async with http.options("/v1/pools", headers=asked) as response:
            assert response.status == 204
            assert "Authorization" in response.headers["Access-Control-Allow-Headers"]
        async with http.get("/v1/pools", headers={"Origin": page}) as response:
            # So that the page can read why.
            assert response.status == 401
            assert response.headers["Access-Control-Allow-Origin"] == page
            assert "WWW-Authenticate" in response.headers["Access-Control-Expose-Headers"]
        async with http.get("/v1/pools", headers={"Origin": page, **key.header}) as response:
            assert response.status == 200


# Who needs none


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:5010"}, 200),
        ({"Host": "[::1]"}, 200),
        ({"Origin": "http://localhost:9001"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 200),  # a link that somebody clicks
        ({"X-Forwarded-For": "203.0.113.7"}, 401),
        ({"X-Forwarded-For": "127.0.0.1"}, 401),
        ({"Forwarded": "for=127.0.0.1"}, 401),
        ({"Via": "1.1 proxy"}, 401),
        ({"Origin": "https://evil.example"}, 401),
        ({"Host": "translate.example"}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
    ],
)
async def test_only_who_is_certainly_on_this_computer_needs_no_key(
    server: RedisProcess, headers: dict[str, str], status: int
) -> None:
    named = {"server__allowed_hosts": ["translate.example"]}
    async with scheduler_on(server.url, **named) as (scheduler, _), aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{scheduler.port}/v1/nodes"
        async with http.get(url, headers=headers) as response:
            assert response.status == status
        async with http.get(f"http://127.0.0.1:{scheduler.port}/health", headers=headers) as response:
            assert response.status == 200


@pytest.mark.parametrize("trusted", [[], ["127.0.0.1"]])
async def test_a_caller_behind_a_proxy_learns_what_to_do(server: RedisProcess, trusted: list[str]) -> None:
    changes = {"server__trusted_proxies": trusted}
    async with scheduler_on(server.url, **changes) as (scheduler, _), aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{scheduler.port}/v1/nodes"
        async with http.get(url, headers={"X-Forwarded-For": "203.0.113.7"}) as response:
            detail = (await response.json())["detail"]
        assert detail.startswith("the request came through a proxy, so it needs a credential")
        assert "lingua keys create" in detail
        async with http.get(url, headers={"Origin": "https://evil.example"}) as response:
            assert "proxy, at a loopback name" in (await response.json())["detail"]


async def test_a_header_of_a_trusted_proxy_makes_nobody_local(server: RedisProcess) -> None:
    trusted = {"server__trusted_proxies": ["127.0.0.1"]}
    async with scheduler_on(server.url, **trusted) as (scheduler, _), aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{scheduler.port}/v1/nodes"
        async with http.get(url, headers={"X-Forwarded-For": "127.0.0.1"}) as response:
            assert response.status == 401


async def test_a_place_that_a_refused_handshake_took_is_free_again(server: RedisProcess, tmp_path: Path) -> None:
    key = made_key(KeyKind.CLIENT)
    changes = {"server__trusted_proxies": ["127.0.0.1"], "server__max_sockets_per_address": 1}
    async with (
        guarded_scheduler(server.url, tmp_path, key, **changes) as (scheduler, _),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http,
    ):
        there = {"X-Forwarded-For": "203.0.113.7"}
        for _ in range(3):
            async with http.get("/ws/session", headers=UPGRADE | there) as response:
                assert response.status == 401
        async with http.ws_connect("/ws/session", headers=there | key.header):
            pass


# What is written down


async def test_a_token_in_a_url_or_alone_in_a_subprotocol_is_in_no_log(
    house: House, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """aiohttp would warn of a sub-protocol that is not answered, and name it."""
    caplog.set_level(logging.DEBUG)
    planted = made_key(KeyKind.SERVICE).text
    for carrier in (f"lingua.auth.{planted}", f"chat, lingua.auth.{planted}"):
        status, _, body = await house.knock("/ws/session", Sec_WebSocket_Protocol=carrier)
        assert (status, body["error"]) == (400, "INVALID_MESSAGE")
        assert planted not in str(body)
    for path in ("/ws/session", "/v1/nodes", "/v1/nowhere", "/metrics", "/v1/watch", "/dashboard/", "/v1/status"):
        await house.ask(f"{path}?access_token={planted}")
        await house.ask(path, Authorization=f"Bearer {planted}")
    reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
    writer.write(f"GET /v1/nodes?access_token={planted} HTTP/9.9\r\nrubbish\r\n\r\n".encode())
    await reader.read(100)
    writer.close()
    written = caplog.text + "".join(capfd.readouterr())
    assert "door.denied" in written
    assert planted not in written
    assert planted.rpartition("_")[2] not in written
