"""Attacks on the logins of operators (10, 13 to 16)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.domain.access.logins import digest_of
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import guarded_scheduler, made_key
from tests.support.logins import OWN_PAGE, Guarded, logging_in
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import PATIENCE_S, until

LOCAL, SECURE = "lingua", "__Host-lingua"
# As a proxy that ends TLS sends it.
HTTPS = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}


@pytest.fixture
async def guarded(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Guarded]:
    async with logging_in(server.url, tmp_path) as found:
        yield found


async def test_10_a_cookie_changes_something_only_from_our_own_page(guarded: Guarded) -> None:
    cookie = await guarded.log_in()
    port = guarded.scheduler.port
    own, other = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"

    async def sent(**headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return (await guarded.ask("POST", "/v1/nodes/node-1/drain", cookie, headers=named))[0]

    # Let in: there is no such node.
    assert await sent(Sec_Fetch_Site="same-origin") == 404
    assert await sent(Sec_Fetch_Site="same-origin", Origin=own) == 404
    assert await sent(Origin=own) == 404
    for headers in (
        {},
        {"Origin": other},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "none"},
        # What the browser says of itself counts, not what could be guessed.
        {"Sec_Fetch_Site": "same-site", "Origin": own},
    ):
        assert await sent(**headers) == 403, headers
    # Programs send no cookie, and need none of these headers.
    assert (await guarded.ask("POST", "/v1/nodes/node-1/drain", headers=guarded.operator.header))[0] == 404


async def test_10_a_cookie_reads_without_further_headers(guarded: Guarded) -> None:
    cookie = await guarded.log_in()
    assert (await guarded.ask("GET", "/v1/nodes", cookie))[0] == 200
    assert (await guarded.ask("GET", "/v1/nodes"))[0] == 401
    assert (await guarded.ask("GET", "/v1/nodes", f"{LOCAL}=guess"))[0] == 401


async def test_13_the_cookie_is_for_this_host_over_https_alone(guarded: Guarded) -> None:
    async with guarded.http.post("/v1/login", json={"key": guarded.operator.text}, headers=HTTPS) as response:
        (cookie,) = response.headers.getall("Set-Cookie")
    words = {word.strip().lower() for word in cookie.split(";")[1:]}
    assert words >= {"secure", "httponly", "samesite=strict", "path=/", "max-age=43200"}
    assert not any(word.startswith("domain") for word in words)
    assert cookie.startswith(f"{SECURE}=")
    secret = cookie.partition(";")[0].partition("=")[2]
    assert len(secret) >= 43
    assert (await guarded.ask("GET", "/v1/nodes", f"{SECURE}={secret}", headers=HTTPS))[0] == 200
    # Over http, and under the other name, it does not count.
    plain = HTTPS | {"X-Forwarded-Proto": "http"}
    assert (await guarded.ask("GET", "/v1/nodes", f"{SECURE}={secret}", headers=plain))[0] == 401
    assert (await guarded.ask("GET", "/v1/nodes", f"{SECURE}={secret}"))[0] == 401
    assert (await guarded.ask("GET", "/v1/nodes", f"{LOCAL}={secret}", headers=HTTPS))[0] == 401
    assert (await guarded.ask("GET", "/v1/nodes", f"{LOCAL}={secret}", headers=plain))[0] == 401


async def test_13_on_this_computer_the_cookie_has_another_name(guarded: Guarded) -> None:
    async with guarded.http.post("/v1/login", json={"key": guarded.operator.text}) as response:
        (cookie,) = response.headers.getall("Set-Cookie")
    words = {word.strip().lower() for word in cookie.split(";")[1:]}
    assert cookie.startswith(f"{LOCAL}=")
    assert words >= {"httponly", "samesite=strict", "path=/"}
    assert "secure" not in words


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-For": "203.0.113.7"},
        {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "http"},
        {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https, http"},
        {"Via": "1.1 proxy"},
        {"Host": "translate.example"},
    ],
    ids=["no-scheme", "http", "http-behind-https", "via", "host"],
)
async def test_13_who_would_send_the_cookie_in_the_clear_cannot_log_in(
    server: RedisProcess, tmp_path: Path, headers: dict[str, str]
) -> None:
    operator = made_key(KeyKind.OPERATOR, role=Role.ADMIN)
    settings = {"server__trusted_proxies": ("127.0.0.1",), "server__allowed_hosts": ("translate.example",)}
    async with (
        guarded_scheduler(server.url, tmp_path, operator, **settings) as (scheduler, _),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http,
        http.post("/v1/login", json={"key": operator.text}, headers=headers) as response,
    ):
        assert response.status == 403
        assert "https" in (await response.json())["detail"]
        assert "Set-Cookie" not in response.headers


async def test_13_a_stranger_cannot_claim_to_come_over_https(server: RedisProcess, tmp_path: Path) -> None:
    operator = made_key(KeyKind.OPERATOR, role=Role.ADMIN)
    async with (
        guarded_scheduler(server.url, tmp_path, operator) as (scheduler, _),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http,
        http.post("/v1/login", json={"key": operator.text}, headers=HTTPS) as response,
    ):
        assert response.status == 403


async def test_14_a_login_link_works_once(guarded: Guarded) -> None:
    code = await guarded.code()
    cookie = await guarded.log_in(code=code)
    assert (await guarded.ask("GET", "/v1/nodes", cookie))[0] == 200
    status, answer = await guarded.ask("POST", "/v1/login", json={"code": code})
    assert (status, answer["error"]) == (401, "UNAUTHENTICATED")


async def test_14_a_login_link_is_too_old_after_a_minute(guarded: Guarded) -> None:
    code = await guarded.code()
    key = guarded.store.keys.login_code(digest_of(code))
    assert 55_000 < await guarded.store.line.call("PTTL", key) <= 60_000
    # The minute is over.
    await guarded.store.line.call("PEXPIRE", key, 1)
    await until(lambda: is_gone(guarded.store, key), 5, "the code expired")
    assert (await guarded.ask("POST", "/v1/login", json={"code": code}))[0] == 401


async def is_gone(store: Store, key: str) -> bool:
    return await store.line.call("GET", key) is None


async def test_14_a_link_of_a_revoked_key_is_dead(guarded: Guarded) -> None:
    code = await guarded.code()
    await guarded.scheduler.credentials.end(guarded.operator.credential.id, at_ms=1)
    assert (await guarded.ask("POST", "/v1/login", json={"code": code}))[0] == 401


async def test_a_login_cannot_make_links_and_so_live_for_ever(guarded: Guarded) -> None:
    cookie = await guarded.log_in()
    assert (await guarded.ask("POST", "/v1/login/codes", cookie, headers=OWN_PAGE))[0] == 403


async def test_wrong_keys_are_slowed_down_at_the_login_too(guarded: Guarded) -> None:
    wrong = made_key(KeyKind.OPERATOR, role=Role.ADMIN)
    statuses = [(await guarded.ask("POST", "/v1/login", json={"key": wrong.text}))[0] for _ in range(22)]
    assert statuses[0] == 401
    assert statuses[-1] == 429
    # The right one still works.
    await guarded.log_in()


async def watch(guarded: Guarded, cookie: str) -> aiohttp.ClientResponse:
    response = await guarded.http.get("/v1/watch", headers={"Cookie": cookie})
    assert response.status == 200
    await response.content.readline()
    return response


async def ended(stream: aiohttp.ClientResponse) -> None:
    """Its reader sees the end of the connection, not of the answer; how soon is tested in test_revocation."""
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(aiohttp.ClientPayloadError):
            await stream.read()


async def test_15_a_logout_closes_the_streams_of_that_login_alone(guarded: Guarded) -> None:
    cookie, another = await guarded.log_in(), await guarded.log_in()
    stream, stays = await watch(guarded, cookie), await watch(guarded, another)
    async with guarded.http.post("/v1/logout", headers=OWN_PAGE | {"Cookie": cookie}) as response:
        assert response.status == 200
        assert "max-age=0" in response.headers["Set-Cookie"].lower()
    await ended(stream)
    assert (await guarded.ask("GET", "/v1/nodes", cookie))[0] == 401
    assert (await guarded.ask("GET", "/v1/nodes", another))[0] == 200
    assert await stays.content.readline()
    stays.close()


async def test_15_a_logout_at_one_instance_closes_streams_at_another(server: RedisProcess, tmp_path: Path) -> None:
    operator = made_key(KeyKind.OPERATOR, role=Role.VIEWER)
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    jar = aiohttp.DummyCookieJar()
    async with (
        guarded_scheduler(server.url, folders[0], operator) as (one, store),
        guarded_scheduler(server.url, folders[1], operator) as (other, _),
        aiohttp.ClientSession(f"http://127.0.0.1:{one.port}", cookie_jar=jar) as here,
        aiohttp.ClientSession(f"http://127.0.0.1:{other.port}", cookie_jar=jar) as there,
    ):
        cookie = await Guarded(one, store, here, operator).log_in()
        stream = await watch(Guarded(other, store, there, operator), cookie)
        async with here.post("/v1/logout", headers=OWN_PAGE | {"Cookie": cookie}) as response:
            assert response.status == 200
        await ended(stream)


async def test_15_revoking_the_key_ends_its_logins_and_their_streams(guarded: Guarded) -> None:
    cookie = await guarded.log_in()
    stream = await watch(guarded, cookie)
    await guarded.scheduler.credentials.end(guarded.operator.credential.id, at_ms=1)
    await ended(stream)
    assert (await guarded.ask("GET", "/v1/nodes", cookie))[0] == 401


@pytest.mark.parametrize("path", ["/ws/session", "/ws/node"])
async def test_16_a_cookie_opens_no_socket(guarded: Guarded, path: str) -> None:
    cookie = await guarded.log_in()
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await guarded.http.ws_connect(path, headers={"Cookie": cookie})
    assert refused.value.status == 401


async def test_requests_with_a_cookie_do_not_ask_redis_who_sends_them(guarded: Guarded) -> None:
    cookie = await guarded.log_in()
    asked: list[str] = []
    find = guarded.store.logins.find

    async def counted(digest: str) -> Any:
        asked.append(digest)
        return await find(digest)

    guarded.store.logins.find = counted  # type: ignore[method-assign]
    for _ in range(20):
        assert (await guarded.ask("GET", "/v1/nodes", cookie))[0] == 200
        assert (await guarded.ask("GET", "/v1/nodes", f"{LOCAL}=stale"))[0] == 401
    assert len(asked) == 1


async def test_a_stale_cookie_locks_nobody_out_where_no_key_is_needed(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url) as (scheduler, store),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http,
    ):
        local = Guarded(scheduler, store, http, made_key(KeyKind.OPERATOR, role=Role.VIEWER))
        assert (await local.ask("GET", "/v1/nodes", f"{LOCAL}=stale"))[0] == 200
        # Nobody needs a login here.
        assert (await local.ask("POST", "/v1/login/codes"))[1] == {"code": "", "expires_ms": 0}
