"""The scheduler's own TLS under attack: slow handshakes, old versions, plain requests, and what browsers are told."""

import asyncio
import base64
import gc
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.gateway.connections import Connection
from lingua_scheduler.telemetry import metrics
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import guarded_scheduler, made_key
from tests.support.certificates import Authority
from tests.support.peers import (
    FakeClient,
    FakeNode,
    Frame,
    Socket,
    Work,
    answer,
    heartbeat,
    registration,
    result_of,
)
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

# The beginning of a ClientHello that says it is longer.
HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32)
SLOW = 200


def tls(authority: Authority, **more: Any) -> dict[str, Any]:
    files = authority.serve()
    return {"server__tls_cert_file": str(files.cert), "server__tls_key_file": str(files.key), **more}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def trusting(scheduler: Scheduler, authority: Authority) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=authority.trusted())
    url, no_cookies = f"https://localhost:{scheduler.port}", aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(url, connector=connector, cookie_jar=no_cookies) as http:
        yield http


async def a_node(
    http: aiohttp.ClientSession, node_id: str = "node-1", work: Work = answer, **registered: Any
) -> FakeNode:
    link = Socket(await http.ws_connect("/ws/node", max_msg_size=0))
    await link.send(registration(node_id=node_id, **registered))
    node = FakeNode(link, (await link.next("node_register_ack"))["node_id"], work)
    await link.send(heartbeat(node.node_id))
    return node


async def a_client(http: aiohttp.ClientSession, **init: Any) -> FakeClient:
    client = FakeClient(Socket(await http.ws_connect("/ws/session", max_msg_size=0)))
    await client.init(**init)
    return client


async def spoken(client: FakeClient, first: int, count: int, **more: Any) -> float:
    """The median time of an utterance, in ms."""
    took = []
    for index in range(first, first + count):
        began_s = monotonic()
        await client.utterance(index, **more)
        assert (await client.outcome())["type"] == "translation_result"
        took.append((monotonic() - began_s) * 1000)
    return median(took)


def cut(reason: str) -> float:
    return float(metrics.CONNECTIONS_CUT.labels(reason)._value.get())


async def is_gone(link: socket.socket) -> bool:
    loop = asyncio.get_running_loop()
    try:
        while await loop.sock_recv(link, 4_096):
            pass
    except ConnectionError:
        pass
    link.close()
    return True


def slow_peers(port: int) -> list[socket.socket]:
    """Half of them say nothing, half of them begin to say hello."""
    opened = []
    for number in range(SLOW):
        link = socket.create_connection(("127.0.0.1", port))
        link.setblocking(False)
        if number % 2:
            link.send(HALF_A_HELLO)
        opened.append(link)
    return opened


async def test_h99_slow_handshakes_end_at_the_deadline_and_others_do_not_notice(
    server: RedisProcess, authority: Authority
) -> None:
    slow = tls(authority, server__header_timeout_ms=2_000)
    async with scheduler_on(server.url, **slow) as (scheduler, _), trusting(scheduler, authority) as http:
        node = await a_node(http)
        client = await a_client(http)
        before_ms, before = await spoken(client, 0, 40), cut("handshake")
        began_s = monotonic()
        ends = asyncio.gather(*map(is_gone, slow_peers(scheduler.port)))
        during_ms = await spoken(client, 40, 40)
        # A new caller is served meanwhile.
        async with trusting(scheduler, authority) as other, other.get("/health") as response:
            assert response.status == 200
            new_s = monotonic() - began_s
        assert all(await ends)
        print(
            f"an utterance took {before_ms:.1f} ms before and {during_ms:.1f} ms beside {SLOW} slow handshakes, a new"
            f" connection was served after {new_s:.2f} s, and all were cut off after {monotonic() - began_s:.2f} s"
        )
        assert cut("handshake") == before + SLOW
        assert not client.socket.socket.closed
        await node.stop()


async def test_h101_handshakes_count_into_the_connections_of_an_address(
    server: RedisProcess, authority: Authority
) -> None:
    few = {"server__unmetered_addresses": (), "server__max_sockets_per_address": 20}
    async with scheduler_on(server.url, **tls(authority, **few, server__header_timeout_ms=120_000)) as (scheduler, _):
        before = cut("sockets")
        links = slow_peers(scheduler.port)
        # Twice as many as may be have a place, and all others are closed without an answer.
        await until(lambda: cut("sockets") == before + SLOW - 40)
        assert scheduler._addresses._places["127.0.0.1"] == 40
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))) as other,
            other.get(f"https://127.0.0.1:{scheduler.port}/health", ssl=authority.trusted()) as response,
        ):
            assert response.status == 200, "another address has its own places"
        for link in links:
            link.close()
        await until(lambda: scheduler._addresses._places["127.0.0.1"] == 0)


async def test_old_versions_and_plain_requests_are_not_spoken(server: RedisProcess, authority: Authority) -> None:
    async with scheduler_on(server.url, **tls(authority)) as (scheduler, _):
        old = authority.trusted()
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("localhost", scheduler.port, ssl=old)
        reader, writer = await asyncio.open_connection("localhost", scheduler.port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"HTTP" not in await reader.read(1_000)
        writer.close()


async def test_the_internal_port_stays_plain(server: RedisProcess, authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with scheduler_on(server.url, **tls(authority, server__internal_port=port)) as (scheduler, _):
        async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/metrics") as response:
            page = await response.text()
            assert "Strict-Transport-Security" not in response.headers
        assert "\nlingua_tls_certificate_expires_timestamp_seconds " in page
        async with trusting(scheduler, authority) as http, http.get("/health/ready") as response:
            assert response.status == 200


async def test_browsers_are_told_to_keep_to_tls_and_get_a_secure_cookie(
    server: RedisProcess, authority: Authority, tmp_path: Path
) -> None:
    admin = made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="*")
    own = tls(authority, server__allowed_hosts=("translate.example", "localhost"))
    async with guarded_scheduler(server.url, tmp_path, admin, **own) as (scheduler, _):
        async with trusting(scheduler, authority) as http:
            named = {"Host": "translate.example", "Origin": "https://translate.example"}
            async with http.post("/v1/login", json={"key": admin.text}, headers=named) as response:
                assert (response.status, response.headers["Strict-Transport-Security"]) == (200, "max-age=31536000")
                (cookie,) = response.headers.getall("Set-Cookie")
            assert cookie.startswith("__Host-lingua=")
            assert {"secure", "httponly", "samesite=strict"} <= {one.strip().lower() for one in cookie.split(";")}
            login = cookie.partition(";")[0]
            async with http.get("/v1/nodes", headers=named | {"Cookie": login}) as response:
                assert response.status == 200
            # Refusals and files say it too, and a loopback name belongs to other programs as well.
            async with http.get("/v1/nodes", headers={"Host": "translate.example"}) as response:
                assert (response.status, "Strict-Transport-Security" in response.headers) == (401, True)
            async with http.get("/v1/nodes") as response:
                assert (response.status, "Strict-Transport-Security" in response.headers) == (401, False)


async def test_without_tls_nothing_of_it_is_said(server: RedisProcess) -> None:
    async with scheduler_on(server.url, server__allowed_hosts=("*",)) as (scheduler, _):
        url = f"http://127.0.0.1:{scheduler.port}/health"
        async with aiohttp.ClientSession() as http, http.get(url, headers={"Host": "translate.example"}) as response:
            assert "Strict-Transport-Security" not in response.headers


LENGTHY = base64.b64encode(bytes(300_000)).decode()
UTTERANCES = 60
OUTBOX_BYTES = 500_000

Ask = Callable[[int], Awaitable[None]]


async def speak_at_length(node: FakeNode, job: Frame) -> None:
    await node.socket.send(result_of(job, node.node_id, tts_audio=LENGTHY, tts_format="pcm16"))


async def deaf_session(http: aiohttp.ClientSession) -> Ask:
    """It asks for long answers itself."""
    client = await a_client(http)
    client.socket.fall_silent()

    return client.utterance


async def deaf_listener(http: aiohttp.ClientSession) -> Ask:
    """Others in its room speak."""
    speaker, listener = await a_client(http), await a_client(http)
    await speaker.socket.send({"type": "room_create", "preferred_lang": "en", "room_events": True, "client_ts": 1})
    code = (await speaker.socket.next("room_create_ack"))["room_code"]
    await listener.socket.send({"type": "room_join", "room_code": code, "preferred_lang": "zh", "room_events": True})
    await listener.socket.next("room_members")
    listener.socket.fall_silent()

    async def ask(index: int) -> None:
        await speaker.utterance(index)
        assert (await speaker.outcome())["type"] == "translation_result"

    return ask


async def deaf_node(http: aiohttp.ClientSession) -> Ask:
    """It alone serves a pair, in which much is said."""
    node = await a_node(http, node_id="deaf", languages=("en", "fr"), max_concurrent_jobs=UTTERANCES)
    speaker = await a_client(http, tgt_lang="fr")
    node.socket.fall_silent()

    return partial(speaker.utterance, audio=bytes(300_000), tgt_lang="fr")


@pytest.mark.parametrize("deaf", [deaf_session, deaf_listener, deaf_node])
async def test_who_never_reads_over_tls_is_closed_and_others_do_not_notice(
    server: RedisProcess, authority: Authority, deaf: Callable[[aiohttp.ClientSession], Awaitable[Ask]]
) -> None:
    little = tls(
        authority, server__outbox_max_bytes=OUTBOX_BYTES, nodes__believed_slots=0, job__reservation_ttl_ms=120_000
    )
    async with scheduler_on(server.url, **little) as (scheduler, _), trusting(scheduler, authority) as http:
        nodes = [
            await a_node(http, work=speak_at_length, max_concurrent_jobs=50),
            await a_node(http, node_id="node-2", languages=("en", "ja")),
        ]
        ask, honest = await deaf(http), await a_client(http, tgt_lang="ja")
        before_ms, before = await spoken(honest, 0, 20, tgt_lang="ja"), metrics.OVERFLOWS._value.get()
        during: list[float] = []
        outboxes = list(scheduler._sockets._outboxes)
        while metrics.OVERFLOWS._value.get() == before:
            assert len(during) < UTTERANCES, "nothing bounds it"
            await ask(len(during))
            during.append(await spoken(honest, 20 + len(during), 1, tgt_lang="ja"))
            most = max(outbox.look() for outbox in outboxes)
            # Its own limit, and the one message that did not fit.
            assert most <= OUTBOX_BYTES + len(LENGTHY)
        print(f"an utterance took {before_ms:.1f} ms before and {median(during):.1f} ms beside {deaf.__name__}")
        (closed,) = (outbox for outbox in outboxes if not outbox.is_open)
        # Its peer does not read the goodbye either.
        await until(closed._transport.is_closing)
        await spoken(honest, 20 + len(during), 1, tgt_lang="ja")
        assert metrics.OVERFLOWS._value.get() == before + 1
        for node in nodes:
            await node.stop()


@pytest.mark.parametrize("is_tls", [True, False], ids=["tls", "plain"])
async def test_peers_that_ask_much_and_read_nothing_leave_nothing_behind(
    server: RedisProcess, authority: Authority, is_tls: bool
) -> None:
    """Without the help of the garbage collector, which looks at old objects only in quiet moments."""

    def ask(port: int) -> socket.socket:
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        plain.connect(("127.0.0.1", port))
        link = authority.trusted().wrap_socket(plain, server_hostname="localhost") if is_tls else plain
        link.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40)
        return link

    def connections() -> list[Connection]:
        return [one for one in gc.get_objects() if type(one) is Connection]

    settings = tls(authority) if is_tls else {}
    async with scheduler_on(server.url, **settings) as (scheduler, _):
        gc.collect()
        before = len(connections())
        gc.disable()
        try:
            for _ in range(5):
                link = await asyncio.to_thread(ask, scheduler.port)
                await until(lambda: any(one.transport and one._paused for one in connections()), 30, "it waits")
                link.close()
            await until(lambda: len(connections()) <= before, 30, "connections are freed")
        finally:
            gc.enable()
