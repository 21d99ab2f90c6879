"""Certificates of callers: of their own connection, or of the header of a trusted proxy and of no other."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp import web

from lingua_scheduler.domain.guards.addresses import AddressBook
from lingua_scheduler.gateway.fair_queue import FairQueue
from lingua_scheduler.gateway.peer_certificates import PeerCertificates
from lingua_scheduler.gateway.sites import Listening, Runner, listen
from lingua_scheduler.gateway.tls_files import TlsFiles
from lingua_scheduler.gateway.tls_listener import Tls
from lingua_scheduler.setting_sections.server import ServerSettings
from tests.support.certificates import NODE_URI, Authority, CertFiles

OTHER_URI = "spiffe://lingua/default/node/gpu-8"
Asked = Callable[..., Any]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def finding(settings: ServerSettings, trusted: tuple[str, ...] = ()) -> AsyncIterator[str]:
    """The address of a server that tells which certificate it finds."""
    book = AddressBook(trusted, (), 100, 100, 1.0)
    found = PeerCertificates(settings, book)

    async def page(request: web.Request) -> web.Response:
        certificate = found.find(request)
        return web.json_response(None if certificate is None else [certificate.uris, certificate.expires_ms])

    app = web.Application()
    app.router.add_get("/", page)
    runner = Runner(app, book, FairQueue(1.0), settings, shutdown_timeout=0.1)
    await runner.setup()
    tls = None
    if settings.tls_cert_file:
        files = TlsFiles(settings, lambda: datetime.now(UTC).timestamp())
        files.load()
        tls = Tls(files.context, 10.0)
    ((_, port),) = await listen(runner, Listening("127.0.0.1", 0), tls)
    yield f"{'https' if tls else 'http'}://localhost:{port}/"
    await runner.cleanup()


async def asked(url: str, trust: ssl.SSLContext | None = None, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession() as http,
        http.get(url, ssl=trust if trust is not None else True, headers=named) as response,
    ):
        return await response.json()


def server(authority: Authority, **more: Any) -> ServerSettings:
    files = authority.serve()
    about = {"tls_client_ca_file": str(authority.file), **more}
    return ServerSettings(tls_cert_file=str(files.cert), tls_key_file=str(files.key), **about)


def ends_ms(until: datetime) -> int:
    return int(until.timestamp()) * 1000


async def test_the_names_and_the_end_of_a_connections_own_certificate_are_found(authority: Authority) -> None:
    until = datetime.now(UTC) + timedelta(hours=5)
    cases: dict[CertFiles | None, Any] = {
        None: None,
        authority.node(NODE_URI, name="one", until=until): [[NODE_URI], ends_ms(until)],
        authority.node(NODE_URI, OTHER_URI, name="two", until=until): [[NODE_URI, OTHER_URI], ends_ms(until)],
        authority.node(name="none", until=until): [[], ends_ms(until)],
        authority.node(NODE_URI, name="ca", until=until, is_ca=True): [[], ends_ms(until)],
    }
    async with finding(server(authority)) as url:
        for shown, expected in cases.items():
            assert await asked(url, authority.trusted(shown), X_Forwarded_Client_Cert=f"URI={NODE_URI}") == expected


async def test_of_another_authority_and_expired_ones_never_reach_a_handler(authority: Authority) -> None:
    now = datetime.now(UTC)
    stranger = Authority(authority.folder / "stranger")
    for shown in (stranger.node(NODE_URI), authority.node(NODE_URI, until=now - timedelta(hours=1))):
        async with finding(server(authority)) as url:
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await asked(url, authority.trusted(shown))


async def test_without_an_authority_none_is_asked_for(authority: Authority) -> None:
    async with finding(server(authority, tls_client_ca_file="")) as url:
        assert await asked(url, authority.trusted(authority.node(NODE_URI))) is None


async def test_a_trusted_proxys_header_counts_and_its_own_certificate_does_not(authority: Authority) -> None:
    settings = server(authority, client_cert_header=True)
    async with finding(settings, trusted=("127.0.0.0/8",)) as url:
        own = authority.trusted(authority.node(OTHER_URI))
        assert await asked(url, own) is None
        assert await asked(url, own, X_Forwarded_Client_Cert=f"URI={NODE_URI}") == [[NODE_URI], 0]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (f"Hash=1;URI={NODE_URI}", [[NODE_URI], 0]),
        (f"URI={NODE_URI};URI={OTHER_URI}", [[NODE_URI, OTHER_URI], 0]),
        (f"URI={NODE_URI},URI={NODE_URI}", [[], 0]),
        ("Hash=1", [[], 0]),
        ("rubbish", [[], 0]),
        ('Cert="rubbish"', [[], 0]),
        ('Cert=""', None),
        ("", None),
    ],
)
async def test_what_the_header_of_a_proxy_says(header: str, expected: Any) -> None:
    settings = ServerSettings(client_cert_header=True)
    async with finding(settings, trusted=("127.0.0.1/32",)) as url:
        assert await asked(url, X_Forwarded_Client_Cert=header) == expected


async def test_a_whole_certificate_in_the_header_is_read(authority: Authority) -> None:
    until = datetime.now(UTC) + timedelta(hours=5)
    pem = quote(authority.node(NODE_URI, until=until).cert.read_text())
    async with finding(ServerSettings(client_cert_header=True), trusted=("127.0.0.1",)) as url:
        found = await asked(url, X_Forwarded_Client_Cert=f'Cert="{pem}";URI={OTHER_URI}')
    assert found == [[NODE_URI], ends_ms(until)]


async def test_the_header_is_ignored_from_others_and_without_the_setting() -> None:
    for settings, trusted in (
        (ServerSettings(client_cert_header=True), ("192.0.2.0/24",)),
        (ServerSettings(), ("127.0.0.1",)),
    ):
        async with finding(settings, trusted) as url:
            assert await asked(url, X_Forwarded_Client_Cert=f"URI={NODE_URI}") is None
