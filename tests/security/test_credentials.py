"""Attacks with keys that are wrong, stolen, revoked or in the wrong place (41 to 47, 54, 72, 73, 75 to 77)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.principals import Denied
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.services.access.visits import Shown, Via, Visit
from lingua_sdk.domain.key_texts import KeyKind, KeyText, fresh_key
from tests.support.access import FakeBook, MadeKey, doorkeeper_of, guarded_scheduler, made_key, write_keys_file
from tests.support.http_nodes import LANGUAGES
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until


class Guarded:
    """A scheduler at which everybody needs a key. An operator has one."""

    def __init__(self, scheduler: Scheduler, http: aiohttp.ClientSession, operator: MadeKey) -> None:
        self.scheduler = scheduler
        self.http = http
        self.operator = operator

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        async with self.http.request(method, path, **more) as response:
            is_json = "json" in response.content_type and method != "HEAD"
            return response.status, await response.json() if is_json else await response.text()

    async def add(self, kind: KeyKind, **about: Any) -> MadeKey:
        key = made_key(kind, **about)
        await self.scheduler.credentials.add(key.credential)
        return key

    async def revoke(self, key: MadeKey) -> None:
        await self.scheduler.credentials.end(key.credential.id, at_ms=1)


@pytest.fixture
async def guarded(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Guarded]:
    operator = made_key(KeyKind.OPERATOR, role=Role.OPERATOR)
    async with (
        guarded_scheduler(server.url, tmp_path, operator, server__unmetered_addresses=()) as (scheduler, _),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http,
    ):
        yield Guarded(scheduler, http, operator)


def guess_at(key: MadeKey) -> str:
    found = KeyText.parse(key.text)
    return str(found._replace(secret=fresh_key(found.kind).secret))


async def test_41_one_wrong_character_is_refused_and_called_a_typing_error(guarded: Guarded) -> None:
    text = guarded.operator.text
    for place in (8, len(text) // 2, len(text) - 1):
        wrong = text[:place] + ("x" if text[place] != "x" else "y") + text[place + 1 :]
        status, body = await guarded.ask("GET", "/v1/nodes", headers={"Authorization": f"Bearer {wrong}"})
        assert (status, body["detail"]) == (401, "the key has a typing error")


async def test_42_a_thousand_guesses_are_slowed_down_and_the_key_works_everywhere(guarded: Guarded) -> None:
    key = guarded.operator
    statuses = []
    for _ in range(1_000):
        status, body = await guarded.ask("GET", "/v1/nodes", headers={"Authorization": f"Bearer {guess_at(key)}"})
        statuses.append(status)
    assert statuses == [401] * 20 + [429] * 980
    assert body["error"] == "RATE_LIMITED"
    assert (await guarded.ask("GET", "/v1/nodes", headers=key.header))[0] == 200
    elsewhere = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{guarded.scheduler.port}", connector=elsewhere) as http:
        async with http.get("/v1/nodes", headers=key.header) as response:
            assert response.status == 200
    # What needs no key is not kept from anybody.
    assert (await guarded.ask("GET", "/health"))[0] == 200


def test_43_the_first_and_the_last_wrong_byte_take_as_long() -> None:
    """A smoke test: the path is the same, and so is the time, within what a machine in use allows."""
    key = made_key(KeyKind.CLIENT)
    secret = KeyText.parse(key.text).secret
    keeper = doorkeeper_of(FakeBook(key), mode="off")
    here = Visit("127.0.0.1", None, is_local=True)

    def turned(place: int) -> Shown:
        other = secret[:place] + ("x" if secret[place] != "x" else "y") + secret[place + 1 :]
        return Shown(str(KeyText.parse(key.text)._replace(secret=other)), Via.HEADER)

    first, last, took = turned(0), turned(len(secret) - 1), {0: list[float](), 1: list[float]()}
    for _ in range(2_000):
        for which, shown in enumerate((first, last)):
            began = perf_counter()
            found = keeper._identify(shown, here)
            took[which].append(perf_counter() - began)
            assert isinstance(found, Denied)
    assert 0.5 < median(took[0]) / median(took[1]) < 2


async def test_44_an_operator_key_in_a_url_is_refused_with_the_reason(guarded: Guarded) -> None:
    status, body = await guarded.ask("GET", f"/v1/nodes?access_token={guarded.operator.text}")
    assert (status, body["error"]) == (401, "UNAUTHENTICATED")
    assert "an operator key must not be in a URL" in body["detail"]
    enrolment = await guarded.add(KeyKind.ENROLMENT)
    status, body = await guarded.ask("POST", f"/v1/node/register?access_token={enrolment.text}", json={})
    assert status == 401
    assert "an enrolment key must not be in a URL" in body["detail"]
    # It may have leaked, so it is audited: whose it is and from where, and never the key.
    await guarded.scheduler.auditor.write_denied()
    entry = (await guarded.scheduler._store.audit.page_back(most=1))[0][0]
    assert "credentials.refused" in entry
    for key, kind in ((guarded.operator, "op"), (enrolment, "en")):
        assert f"lk_{kind}_{key.credential.id}" in entry
        assert key.text not in entry
    assert '"127.0.0.1"' in entry


async def test_47_a_revoked_key_closes_what_it_opened_and_opens_nothing_more(guarded: Guarded) -> None:
    client, node, stays = (
        await guarded.add(KeyKind.CLIENT),
        await guarded.add(KeyKind.NODE),
        await guarded.add(KeyKind.CLIENT),
    )
    viewer = await guarded.add(KeyKind.OPERATOR, role=Role.VIEWER)
    http = guarded.http
    async with (
        asyncio.timeout(30),
        http.ws_connect(f"/ws/session?access_token={client.text}") as talking,
        http.ws_connect("/ws/session", headers=client.header) as too,
        http.ws_connect(f"/ws/node?access_token={node.text}") as working,
        http.ws_connect("/ws/session", headers=stays.header) as other,
        http.get("/v1/watch", headers=viewer.header) as watching,
    ):
        polled = LANGUAGES | {"node_id": "node-h", "boot_id": "boot-h"}
        assert (await guarded.ask("POST", "/v1/node/register", json=polled, headers=node.header))[0] == 200
        assert watching.status == 200
        for key in (client, node, viewer):
            await guarded.revoke(key)
        for socket in (talking, too, working):
            closed = await socket.receive()
            assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, 4004)
            assert closed.extra == "the credential was revoked"
        with pytest.raises(aiohttp.ClientPayloadError):
            await watching.read()
        await until(lambda: not len(guarded.scheduler._http_nodes))
        assert not other.closed
        await other.ping()
        for key, path in ((client, "/ws/session"), (node, "/ws/node"), (viewer, "/v1/nodes")):
            status, body = await guarded.ask("GET", path, headers=key.header)
            assert (status, body["detail"]) == (401, "the credential is not accepted")
        await until(lambda: len(guarded.scheduler._access.live) == 1, 5)
    await until(lambda: not len(guarded.scheduler._access.live), 5)


async def test_a_key_that_expires_closes_its_sockets_after_the_grace(server: RedisProcess, tmp_path: Path) -> None:
    key = made_key(KeyKind.CLIENT)
    lasting = {"auth__expired_grace_ms": 0}
    async with (
        guarded_scheduler(server.url, tmp_path, made_key(KeyKind.CLIENT), **lasting) as (scheduler, _),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http,
        asyncio.timeout(20),
    ):
        await scheduler.credentials.add(key.credential)
        async with http.ws_connect("/ws/session", headers=key.header) as socket:
            await scheduler.credentials.end(key.credential.id, at_ms=scheduler.credentials._wall_ms() + 300)
            closed = await socket.receive()
            assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, 4005)


async def test_54_two_credentials_that_differ_are_refused(guarded: Guarded) -> None:
    one, other = await guarded.add(KeyKind.CLIENT), await guarded.add(KeyKind.CLIENT)
    status, body = await guarded.ask("GET", f"/v1/pools?access_token={other.text}", headers=one.header)
    assert (status, body["error"]) == (400, "INVALID_MESSAGE")
    twice = f"/v1/pools?access_token={one.text}&access_token={other.text}"
    assert (await guarded.ask("GET", twice))[0] == 400
    offered = {"Sec-WebSocket-Protocol": f"lingua.v1, lingua.auth.{one.text}, lingua.auth.{other.text}"}
    assert (await guarded.ask("GET", "/ws/session", headers=offered))[0] == 400


async def test_54b_a_token_as_the_only_subprotocol_is_refused_before_anybody_logs_it(
    server: RedisProcess, tmp_path: Path
) -> None:
    key, planted = made_key(KeyKind.CLIENT), made_key(KeyKind.CLIENT).text
    keys = write_keys_file(tmp_path / "keys.toml", key)
    settings = ("--set", "auth.mode=required", "--set", f"auth.keys_file={keys}", "--set", "logs.level=debug")
    async with (
        serve_process(tmp_path, "--redis-url", server.url, *settings) as serving,
        aiohttp.ClientSession() as http,
    ):
        await until(lambda: serving.port, 60)
        url = f"http://127.0.0.1:{serving.port}/ws/session"
        for text in (planted, key.text):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await http.ws_connect(url, protocols=[f"lingua.auth.{text}"])
            assert refused.value.status == 400
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await http.ws_connect(f"{url}?access_token={planted}")
        async with http.ws_connect(url, protocols=["lingua.v1", f"lingua.auth.{key.text}"]) as socket:
            assert socket.protocol == "lingua.v1"
        await until(lambda: "door.denied" in serving.log)
        assert planted not in serving.log
        assert key.text not in serving.log


async def test_72_nobody_is_who_a_header_says(guarded: Guarded) -> None:
    client = await guarded.add(KeyKind.CLIENT)
    claims = {"X-Lingua-Principal": "admin", "X-Lingua-Scopes": "fleet:operate", "X-Forwarded-For": "127.0.0.1"}
    assert (await guarded.ask("GET", "/v1/nodes", headers=claims))[0] == 401
    assert (await guarded.ask("GET", "/v1/nodes", headers=claims | client.header))[0] == 403
    # An address that only a trusted proxy may name: guesses are counted under the true one.
    for number in range(20):
        sent = {"X-Forwarded-For": f"198.51.100.{number}", "Authorization": "Bearer x"}
        assert (await guarded.ask("GET", "/v1/nodes", headers=sent))[0] == 401
    sent = {"X-Forwarded-For": "198.51.100.99", "Authorization": "Bearer x"}
    assert (await guarded.ask("GET", "/v1/nodes", headers=sent))[0] == 429


async def test_73_head_and_options_follow_the_same_rule_and_tell_nothing(guarded: Guarded) -> None:
    assert await guarded.ask("HEAD", "/v1/nodes") == (401, "")
    assert await guarded.ask("HEAD", "/metrics") == (401, "")
    assert (await guarded.ask("OPTIONS", "/v1/nodes"))[0] == 401
    assert (await guarded.ask("DELETE", "/v1/nodes"))[0] == 401
    assert await guarded.ask("HEAD", "/v1/nodes", headers=guarded.operator.header) == (200, "")
    assert await guarded.ask("OPTIONS", "/v1/nodes", headers=guarded.operator.header) == (204, "")
    # A preflight comes without a credential, and is answered without data.
    assert await guarded.ask("OPTIONS", "/v1/pools") == (204, "")


async def test_75_metrics_need_a_key_that_may_read_them(guarded: Guarded) -> None:
    scraper, client = await guarded.add(KeyKind.METRICS), await guarded.add(KeyKind.CLIENT)
    assert (await guarded.ask("GET", "/metrics"))[0] == 401
    assert (await guarded.ask("GET", "/metrics", headers=client.header))[0] == 403
    status, page = await guarded.ask("GET", "/metrics", headers=scraper.header)
    assert (status, "lingua_door_refusals_total" in page) == (200, True)


@pytest.mark.parametrize(
    "path",
    [
        "//v1/nodes",
        "/v1//nodes",
        "/v1/../v1/nodes",
        "/health/../v1/nodes",
        "/health/%2e%2e/v1/nodes",
        "/%2e/v1/nodes",
        "/v1/node%73",
        "/v1%2Fnodes",
        "/V1/nodes",
        "/v1/nodes/",
        "/v1/nodes;/health",
        "/v1/nodes%00",
        "/dashboard/..%2f..%2fv1%2fnodes",
        "http://127.0.0.1/v1/nodes",
        "*",
    ],
)
async def test_76_no_spelling_of_a_path_gets_past_the_door(guarded: Guarded, path: str) -> None:
    """Sent as it is: a client would tidy it up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", guarded.scheduler.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    assert answer.split()[1] in (b"400", b"401", b"404"), answer
    assert b'"nodes"' not in answer


async def test_77_a_node_without_a_credential_is_refused_before_the_upgrade(guarded: Guarded) -> None:
    """So that existing nodes wait longer each time."""
    for query in ("", "?access_token=", f"?access_token={made_key(KeyKind.NODE).text}"):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await guarded.http.ws_connect(f"/ws/node{query}")
        assert refused.value.status == 401
    key = await guarded.add(KeyKind.NODE)
    async with guarded.http.ws_connect(f"/ws/node?access_token={key.text}"):
        pass


# The start


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--host", "0.0.0.0"), "server.host is 0.0.0.0 and no key exists: lingua keys create --admin"),
        (("--set", "auth.mode=required"), "auth.mode is required and no key exists"),
        (("--set", "auth.keys_file={readable}"), "run chmod 600"),
    ],
)
async def test_46_and_50_a_start_that_lets_in_nobody_or_trusts_a_readable_file_is_refused(
    server: RedisProcess, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    readable = tmp_path / "readable.toml"
    write_keys_file(readable, made_key(KeyKind.CLIENT))
    readable.chmod(0o644)
    given = [word.format(readable=readable) for word in words]
    async with serve_process(tmp_path, "--redis-url", server.url, *given) as serving:
        async with asyncio.timeout(60):
            assert await serving.process.wait() == 2
    assert told in serving.log


async def test_a_start_for_everybody_is_warned_of(server: RedisProcess, tmp_path: Path) -> None:
    words = ("--host", "0.0.0.0", "--set", "auth.mode=off")
    async with serve_process(tmp_path, "--redis-url", server.url, *words) as serving, aiohttp.ClientSession() as http:
        await until(lambda: serving.port, 60)
        async with http.get(f"http://127.0.0.1:{serving.port}/v1/nodes") as response:
            assert response.status == 200
        assert "server.unprotected" in serving.log
