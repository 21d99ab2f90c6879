"""Nodes with certificates, and those who pretend to be one: by their own TLS, through a proxy, or beside a key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import MadeKey, guarded_scheduler, made_key
from tests.support.certificates import NODE_URI, Authority, CertFiles
from tests.support.peers import Socket, heartbeat, registration
from tests.support.servers import RedisProcess
from tests.support.waiting import until

HEADER = "X-Forwarded-Client-Cert"


class Certified:
    """A scheduler that asks for certificates, and an authority it trusts."""

    def __init__(self, scheduler: Scheduler, authority: Authority, admin: MadeKey, scheme: str = "https") -> None:
        self.scheduler = scheduler
        self.authority = authority
        self.admin = admin
        self.url = f"{scheme}://localhost:{scheduler.port}"

    async def knows(self, node_id: str = "gpu-7", **about: Any) -> MadeKey:
        made = made_key(KeyKind.NODE, node_id=node_id, **about)
        await self.scheduler.credentials.add(made.credential)
        return made

    @asynccontextmanager
    async def http(self, shown: CertFiles | None = None) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.TCPConnector(ssl=self.authority.trusted(shown))
        async with aiohttp.ClientSession(self.url, connector=connector) as http:
            yield http

    async def knock(self, shown: CertFiles | None = None, headers: dict[str, str] | None = None) -> tuple[int, str]:
        """How a handshake is answered: the status, and the error code before the upgrade. 0: TLS fails."""
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        async with self.http(shown) as http:
            try:
                async with http.get("/ws/node", headers=upgrade | (headers or {})) as response:
                    return response.status, "" if response.status == 101 else (await response.json())["error"]
            except (aiohttp.ClientError, ConnectionError):
                return 0, ""


@asynccontextmanager
async def certified(url: str, folder: Path, **changes: Any) -> AsyncIterator[Certified]:
    authority = Authority(folder / "authority")
    files = authority.serve()
    own = {
        "server__tls_cert_file": str(files.cert),
        "server__tls_key_file": str(files.key),
        "server__tls_client_ca_file": str(authority.file),
    }
    admin = made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="*")
    async with guarded_scheduler(url, folder, admin, **(own | changes)) as (scheduler, _):
        yield Certified(scheduler, authority, admin)


@pytest.fixture
async def here(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Certified]:
    async with certified(server.url, tmp_path) as found:
        yield found


async def test_a_certified_node_is_that_node_with_its_limits(here: Certified) -> None:
    await here.knows(max_slots=3)
    async with here.http(here.authority.node(NODE_URI)) as http:
        node = Socket(await http.ws_connect("/ws/node"))
        await node.send(registration(node_id=None, max_concurrent_jobs=64))
        ack = await node.next("node_register_ack")
        assert ack["node_id"] == "gpu-7"
        await node.send(heartbeat("gpu-7"))
        views = here.scheduler._store.node_views

        async def slots() -> int:
            return next((one.max_jobs for one in await views.all() if one.node_id == "gpu-7"), 0)

        assert await until(slots) == 3
        # It may do what nodes may, and nothing else.
        async with http.get("/v1/nodes") as response:
            assert response.status == 403
        await node.close()


async def test_another_nodes_id_is_not_its_own(here: Certified) -> None:
    await here.knows()
    async with here.http(here.authority.node(NODE_URI)) as http:
        node = Socket(await http.ws_connect("/ws/node"))
        await node.send(registration(node_id="gpu-8"))
        assert (await node.next())["code"] == "PERMISSION_DENIED"
        await node.close()


async def test_what_is_no_certificate_of_a_known_node_is_refused_before_the_upgrade(here: Certified) -> None:
    await here.knows()
    node, now = here.authority.node, datetime.now(UTC)
    stranger = Authority(here.authority.folder / "stranger")
    assert await here.knock(node(NODE_URI, name="good")) == (101, "")
    for shown, expected in (
        (None, (401, "UNAUTHENTICATED")),
        (node(name="none"), (401, "UNAUTHENTICATED")),
        (node("spiffe://other/default/node/gpu-7", name="cluster"), (401, "UNAUTHENTICATED")),
        (node(NODE_URI, "spiffe://lingua/default/node/gpu-8", name="two"), (401, "UNAUTHENTICATED")),
        (node(NODE_URI, is_ca=True, name="ca"), (401, "UNAUTHENTICATED")),
        (node("spiffe://lingua/default/node/gpu-9", name="unknown"), (403, "NODE_NOT_APPROVED")),
        (node("spiffe://lingua/acme/node/gpu-7", name="tenant"), (403, "NODE_NOT_APPROVED")),
        (node(NODE_URI, until=now - timedelta(hours=1), name="expired"), (0, "")),
        (stranger.node(NODE_URI), (0, "")),
    ):
        assert await here.knock(shown) == expected, shown
    # Browsers and apps have no certificate, and need none where no credential is needed.
    async with here.http() as http, http.get("/health") as response:
        assert response.status == 200
    # What is open is open to all that TLS lets in.
    async with here.http(node(name="none")) as http, http.get("/health") as response:
        assert response.status == 200


async def test_a_ban_closes_its_connection_and_its_certificate_is_worth_nothing(here: Certified) -> None:
    await here.knows()
    shown = here.authority.node(NODE_URI)
    async with here.http(shown) as http, here.http() as operators:
        node = Socket(await http.ws_connect("/ws/node"))
        await node.send(registration(node_id="gpu-7"))
        await node.next("node_register_ack")
        async with operators.post("/v1/nodes/gpu-7/ban", headers=here.admin.header) as response:
            assert response.status == 200
        assert await node.closed() == CloseCode.REVOKED
    assert await here.knock(shown) == (401, "UNAUTHENTICATED")
    assert await here.knock(here.authority.node(NODE_URI, name="newer")) == (401, "UNAUTHENTICATED")
    await here.knows()
    assert await here.knock(shown) == (101, "")


async def test_a_node_that_waits_for_approval_waits(here: Certified) -> None:
    await here.knows(needs_approval=True)
    shown = here.authority.node(NODE_URI)
    assert await here.knock(shown) == (403, "NODE_NOT_APPROVED")
    async with here.http() as http, http.post("/v1/nodes/gpu-7/approve", headers=here.admin.header) as response:
        assert response.status == 200
    assert await here.knock(shown) == (101, "")


async def test_54_a_certificate_and_another_credential_must_be_of_one_node(here: Certified) -> None:
    own, other = await here.knows(), await here.knows("gpu-8")
    service = made_key(KeyKind.SERVICE)
    await here.scheduler.credentials.add(service.credential)
    shown = here.authority.node(NODE_URI)
    assert await here.knock(shown, own.header) == (101, "")
    for key in (other, service, here.admin):
        assert await here.knock(shown, key.header) == (400, "INVALID_MESSAGE")
    wrong = {"Authorization": f"Bearer {own.text[:-8]}{made_key(KeyKind.NODE).text[-8:]}"}
    assert (await here.knock(shown, wrong))[0] == 401
    # Also without a certificate, as before.
    assert await here.knock(None, own.header) == (101, "")


async def test_an_http_node_shows_its_certificate_with_each_request(here: Certified) -> None:
    await here.knows()
    async with here.http(here.authority.node(NODE_URI)) as http:
        async with http.post("/v1/node/register", json=registration(node_id="gpu-7")) as response:
            assert response.status == 200, await response.text()
    async with here.http() as http:
        async with http.post("/v1/node/register", json=registration(node_id="gpu-7")) as response:
            assert response.status == 401


async def test_a_header_of_a_certificate_is_ignored_unless_a_trusted_proxy_sends_it(
    server: RedisProcess, tmp_path: Path
) -> None:
    plain = {"server__tls_cert_file": "", "server__tls_key_file": "", "server__tls_client_ca_file": ""}
    cases: list[tuple[dict[str, Any], tuple[int, str]]] = [
        ({"server__trusted_proxies": ("127.0.0.1",)}, (401, "UNAUTHENTICATED")),
        ({"server__trusted_proxies": ("192.0.2.1",), "server__client_cert_header": True}, (401, "UNAUTHENTICATED")),
        ({"server__trusted_proxies": ("127.0.0.1",), "server__client_cert_header": True}, (101, "")),
    ]
    for number, (changes, expected) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with certified(server.url, folder, **(plain | changes)) as here:
            here.url = f"http://127.0.0.1:{here.scheduler.port}"
            await here.knows()
            assert await here.knock(None, {HEADER: f"URI={NODE_URI}", "X-Forwarded-For": "198.51.100.9"}) == expected
            server.flush()


async def test_what_a_trusted_proxy_forwards_is_judged_as_a_certificate_is(
    server: RedisProcess, tmp_path: Path
) -> None:
    proxied = {
        "server__tls_cert_file": "",
        "server__tls_key_file": "",
        "server__tls_client_ca_file": "",
        "server__trusted_proxies": ("127.0.0.1",),
        "server__client_cert_header": True,
    }
    async with certified(server.url, tmp_path, **proxied) as here:
        here.url = f"http://127.0.0.1:{here.scheduler.port}"
        await here.knows(networks=("198.51.100.0/24",))
        caller = {"X-Forwarded-For": "198.51.100.9"}
        for header, expected in (
            (f"Hash=1;URI={NODE_URI}", (101, "")),
            (f"URI={NODE_URI},URI={NODE_URI}", (401, "UNAUTHENTICATED")),
            (f"URI={NODE_URI};URI=spiffe://lingua/default/node/gpu-8", (401, "UNAUTHENTICATED")),
            ("URI=spiffe://other/default/node/gpu-7", (401, "UNAUTHENTICATED")),
            ("Hash=1", (401, "UNAUTHENTICATED")),
            ("rubbish", (401, "UNAUTHENTICATED")),
            ('Cert=""', (401, "UNAUTHENTICATED")),
        ):
            assert await here.knock(None, {HEADER: header} | caller) == expected, header
        # Its credential may be used from one network.
        assert (await here.knock(None, {HEADER: f"URI={NODE_URI}", "X-Forwarded-For": "203.0.113.9"}))[0] == 403
