"""Operators whom a proxy names in a header."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.setting_sections.access import OidcSettings
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import guarded_scheduler, made_key
from tests.support.logins import OWN_PAGE
from tests.support.oidc import ROLES
from tests.support.servers import RedisProcess

USER, GROUPS = "X-Forwarded-User", "X-Forwarded-Groups"
ALICE = {USER: "alice", GROUPS: "staff, lingua-ops", "X-Forwarded-For": "203.0.113.7"}
KEY = made_key(KeyKind.OPERATOR, role=Role.VIEWER, tenant="beta")


@asynccontextmanager
async def proxied(server: RedisProcess, folder: Path, **changes: Any) -> AsyncIterator[aiohttp.ClientSession]:
    settings: dict[str, Any] = {
        "auth__proxy_user_header": USER,
        "auth__oidc": OidcSettings(roles=ROLES),
        "server__trusted_proxies": ("127.0.0.1",),
    }
    async with (
        guarded_scheduler(server.url, folder, KEY, **settings | changes) as (scheduler, _),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}", cookie_jar=aiohttp.DummyCookieJar()) as http,
    ):
        yield http


@pytest.fixture
async def http(server: RedisProcess, tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    async with proxied(server, tmp_path) as session:
        yield session


async def asked(http: aiohttp.ClientSession, headers: Any, method: str = "GET", path: str = "/v1/whoami") -> Any:
    async with http.request(method, path, headers=headers) as response:
        return response.status, await response.json()


async def test_whom_a_trusted_proxy_names_has_the_role_of_a_group(http: aiohttp.ClientSession) -> None:
    status, who = await asked(http, ALICE)
    assert status == 200
    assert (who["kind"], who["role"], who["tenant"]) == ("operator", "operator", "acme")
    assert (who["subject"], who["key_id"], who["is_login"]) == ("proxy:alice", "", False)


@pytest.mark.parametrize(
    "headers",
    [{USER: "alice"}, {USER: "alice", GROUPS: "staff"}, {USER: "alice", GROUPS: ""}],
    ids=["no-groups", "other-groups", "empty"],
)
async def test_without_a_group_of_the_table_there_is_no_role(http: aiohttp.ClientSession, headers: Any) -> None:
    status, told = await asked(http, headers)
    assert (status, told["error"]) == (403, "PERMISSION_DENIED")
    assert "auth.oidc.roles" in told["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        [(USER, "alice"), (USER, "mallory"), (GROUPS, "lingua-admins")],
        [(USER, " "), (GROUPS, "lingua-admins")],
        [(GROUPS, "lingua-admins")],
    ],
    ids=["two-names", "empty", "no-name"],
)
async def test_a_header_that_is_not_clear_names_no_one(http: aiohttp.ClientSession, headers: Any) -> None:
    assert (await asked(http, headers))[0] == 401


async def test_two_lists_of_groups_are_none(http: aiohttp.ClientSession) -> None:
    assert (await asked(http, [(USER, "alice"), (GROUPS, "staff"), (GROUPS, "lingua-admins")]))[0] == 403


async def test_a_header_of_any_other_peer_is_ignored(server: RedisProcess, tmp_path: Path) -> None:
    for proxies in ((), ("127.0.0.2", "203.0.113.7")):
        async with proxied(server, tmp_path, server__trusted_proxies=proxies) as http:
            for headers in (ALICE, {USER: "alice", GROUPS: "lingua-admins"}):
                assert (await asked(http, headers))[0] == 401
            # A credential still counts beside it.
            assert (await asked(http, ALICE | KEY.header))[0] == 200


async def test_a_header_that_is_not_configured_is_ignored(server: RedisProcess, tmp_path: Path) -> None:
    async with proxied(server, tmp_path, auth__proxy_user_header="") as http:
        assert (await asked(http, ALICE))[0] == 401


async def test_in_local_mode_it_does_not_open_more_than_its_role(server: RedisProcess, tmp_path: Path) -> None:
    async with proxied(server, tmp_path, auth__mode="auto") as http:
        assert (await asked(http, {}))[1]["kind"] == "local"
        status, who = await asked(http, {USER: "alice", GROUPS: "lingua-viewers"})
        assert (status, who["role"]) == (200, "viewer")
        assert (await asked(http, {USER: "alice", GROUPS: "staff"}))[0] == 403
        # What is not clear came through the proxy, so it is not from this computer.
        assert (await asked(http, [(USER, "alice"), (USER, "mallory")]))[0] == 401


async def test_only_own_pages_change_something(http: aiohttp.ClientSession) -> None:
    path = "/v1/nodes/node-1/drain"

    async def sent(**headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return int((await asked(http, ALICE | named, "POST", path))[0])

    assert await sent(**OWN_PAGE) == 404
    assert await sent(Origin=str(http._base_url).rstrip("/")) == 404
    for headers in (
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
    ):
        assert await sent(**headers) == 403, headers
    # A program with a key is no browser: it lacks the scope, and that is what it hears.
    status, told = await asked(http, ALICE | KEY.header, "POST", path)
    assert (status, "scope" in told["detail"]) == (403, True)


async def test_a_key_and_a_login_count_before_the_header(http: aiohttp.ClientSession) -> None:
    assert (await asked(http, ALICE | KEY.header))[1]["tenant"] == "beta"
    assert (await asked(http, ALICE | {"Authorization": "Bearer wrong"}))[0] == 401
    https = ALICE | {"X-Forwarded-Proto": "https"}
    async with http.post("/v1/login", json={"key": KEY.text}, headers=https | OWN_PAGE) as response:
        assert response.status == 200
        cookie = response.headers["Set-Cookie"].partition(";")[0]
    assert (await asked(http, https | {"Cookie": cookie}))[1]["tenant"] == "beta"
    # A login that has ended locks no one out.
    assert (await asked(http, https | {"Cookie": "__Host-lingua=stale"}))[1]["tenant"] == "acme"


@pytest.mark.parametrize("path", ["/ws/session", "/ws/node"])
async def test_it_opens_no_socket(http: aiohttp.ClientSession, path: str) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await http.ws_connect(path, headers=ALICE)
    assert refused.value.status == 401


async def test_it_makes_no_login_code(http: aiohttp.ClientSession) -> None:
    assert (await asked(http, ALICE | OWN_PAGE, "POST", "/v1/login/codes"))[0] == 403
