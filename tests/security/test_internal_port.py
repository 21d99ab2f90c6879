"""The internal port (75): what each port serves, to whom, and under which names."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest

from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.store.servers.local_cluster import free_port
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import MadeKey, guarded_scheduler, made_key
from tests.support.schedulers import scheduler_on, serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until

UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


class TwoPorts(NamedTuple):
    public: aiohttp.ClientSession
    internal: aiohttp.ClientSession
    keys: dict[str, MadeKey]

    async def ask(self, path: str, who: str = "", method: str = "GET", **headers: str) -> tuple[int, int]:
        """The answers of the public and the internal port."""
        sent = (self.keys[who].header if who else {}) | {name.replace("_", "-"): one for name, one in headers.items()}
        found = []
        for http in (self.public, self.internal):
            async with http.request(method, path, headers=sent) as response:
                found.append(response.status)
        return found[0], found[1]


@pytest.fixture
async def ports(server: RedisProcess, tmp_path: Path) -> AsyncIterator[TwoPorts]:
    keys = {
        "admin": made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="*"),
        "metrics": made_key(KeyKind.METRICS),
        "service": made_key(KeyKind.SERVICE),
        "client": made_key(KeyKind.CLIENT),
        "node": made_key(KeyKind.NODE),
    }
    internal = free_port()
    async with (
        guarded_scheduler(server.url, tmp_path, *keys.values(), server__internal_port=internal) as (scheduler, _),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as public_http,
        aiohttp.ClientSession(f"http://127.0.0.1:{internal}") as internal_http,
    ):
        yield TwoPorts(public_http, internal_http, keys)


async def test_75_metrics_need_a_key_at_the_public_port_and_none_at_the_internal_one(ports: TwoPorts) -> None:
    assert await ports.ask("/metrics") == (401, 200)
    assert await ports.ask("/metrics", method="HEAD") == (401, 200)
    # With a key too it is served at the internal port alone.
    assert await ports.ask("/metrics", "metrics") == (404, 200)


async def test_75_health_is_served_at_both(ports: TwoPorts) -> None:
    assert await ports.ask("/health") == (200, 200)
    assert await ports.ask("/health/ready") == (200, 200)


async def test_75_the_console_is_served_at_the_internal_port_alone(ports: TwoPorts) -> None:
    assert await ports.ask("/dashboard") == (404, 200)
    assert await ports.ask("/v1/nodes") == (401, 401)
    assert await ports.ask("/v1/nodes", "admin") == (404, 200)
    assert await ports.ask("/v1/keys", "admin") == (404, 200)
    login = {"key": ports.keys["admin"].text}
    async with ports.public.post("/v1/login", json=login) as response:
        assert response.status == 404
    async with ports.internal.post("/v1/login", json=login) as response:
        assert response.status == 200


async def test_75_a_stolen_key_of_an_operator_opens_nothing_at_the_public_port(ports: TwoPorts) -> None:
    assert await ports.ask("/v1/whoami", "admin") == (403, 200)
    header = ports.keys["admin"].header
    async with ports.public.post("/v1/tokens", json={"subject": "user-7"}, headers=header) as response:
        assert response.status == 403


async def test_75_sockets_and_operations_of_apps_are_not_served_at_the_internal_port(ports: TwoPorts) -> None:
    assert await ports.ask("/ws/session", "client", **UPGRADE) == (101, 404)
    assert await ports.ask("/ws/node", "node", **UPGRADE) == (101, 404)
    assert await ports.ask("/ws/session", **UPGRADE) == (401, 401)
    assert await ports.ask("/v1/jobs", "service") == (200, 403)
    assert await ports.ask("/talk/") == (200, 404)


async def test_75_names_and_pages_are_checked_at_both(ports: TwoPorts) -> None:
    # DNS rebinding: both listen on loopback.
    assert await ports.ask("/metrics", Host="evil.example") == (421, 421)
    evil = {"Origin": "https://evil.example"}
    assert await ports.ask("/v1/nodes/node-1/drain", "admin", "POST", **evil) == (403, 403)


async def test_75_without_authentication_too_each_port_serves_its_own(server: RedisProcess) -> None:
    internal = free_port()
    async with (
        scheduler_on(server.url, server__internal_port=internal, auth__mode="off") as (scheduler, _),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as public_http,
        aiohttp.ClientSession(f"http://127.0.0.1:{internal}") as internal_http,
    ):
        ports = TwoPorts(public_http, internal_http, {})
        assert await ports.ask("/ws/session", **UPGRADE) == (101, 404)
        assert await ports.ask("/v1/nodes") == (404, 200)
        assert await ports.ask("/metrics") == (404, 200)


async def test_75_an_internal_port_on_loopback_is_no_local_mode_while_the_other_is_open(
    server: RedisProcess, tmp_path: Path
) -> None:
    key, internal = made_key(KeyKind.SERVICE), free_port()
    changes = {"auth__mode": "auto", "server__host": "0.0.0.0", "server__internal_port": internal}
    async with (
        guarded_scheduler(server.url, tmp_path, key, **changes),
        aiohttp.ClientSession(f"http://127.0.0.1:{internal}") as http,
    ):
        async with http.get("/v1/nodes") as response:
            assert response.status == 401
        async with http.get("/metrics", headers={"Host": "evil.example"}) as response:
            assert response.status == 421


async def test_75_all_workers_serve_the_internal_port(tmp_path: Path) -> None:
    internal = free_port()
    more = ("--data-dir", str(tmp_path), "--workers", "2", "--set", f"server.internal_port={internal}")
    async with serve_process(tmp_path, *more) as process, aiohttp.ClientSession() as http:
        await until(lambda: process.port, 60)
        for _ in range(8):
            async with http.get(f"http://127.0.0.1:{internal}/metrics", headers={"Connection": "close"}) as response:
                assert response.status == 200
                # Of both workers together.
                assert "lingua_workers 2.0" in await response.text()
            async with http.get(f"http://127.0.0.1:{process.port}/metrics") as response:
                assert response.status == 404


async def test_75_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    internal = free_port()
    more = ("--data-dir", str(tmp_path), "--set", f"server.internal_port={internal}")
    async with serve_process(tmp_path, *more) as process:
        await until(lambda: process.port, 60)
        other = tmp_path / "other"
        other.mkdir()
        more = ("--data-dir", str(other), "--set", f"server.internal_port={internal}")
        async with serve_process(other, *more) as second:
            assert await second.process.wait() == 4
            assert f"127.0.0.1:{internal} is in use" in second.log
            assert "server.internal_port" in second.log
