"""`lingua serve` with TLS, as operators and node owners use it: reloads under open sockets, workers, mTLS, mistakes."""

import asyncio
import os
import signal
from asyncio.subprocess import STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from lingua_sdk.client import Client, ClientTls
from lingua_sdk.processes import stop
from tests.support.certificates import HOUR, NODE_URI, Authority, CertFiles, put
from tests.support.forked import fork_command
from tests.support.keyed import created, ended
from tests.support.peers import FakeClient, FakeNode, Socket, answer, heartbeat, registration
from tests.support.schedulers import ServeProcess, serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until

START_S = 60.0


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def options(files: CertFiles, **more: str) -> tuple[str, ...]:
    said = {"tls_cert_file": str(files.cert), "tls_key_file": str(files.key), **more}
    return tuple(word for name, value in said.items() for word in ("--set", f"server.{name}={value}"))


@asynccontextmanager
async def serving(
    folder: Path, server: RedisProcess, files: CertFiles, *words: str
) -> AsyncIterator[tuple[ServeProcess, str]]:
    async with serve_process(folder, "--redis-url", server.url, *options(files), *words) as process:
        port = await until(lambda: process.port, START_S)
        yield process, f"https://localhost:{port}"


@asynccontextmanager
async def trusting(url: str, authority: Authority) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=authority.trusted())
    async with aiohttp.ClientSession(url, connector=connector) as http:
        yield http


async def serial(url: str, authority: Authority) -> str:
    """Of the certificate that a new connection gets."""
    host, _, port = url.removeprefix("https://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=authority.trusted())
    found: dict[str, Any] = writer.get_extra_info("peercert")
    writer.transport.abort()
    return str(found["serialNumber"])


async def a_pair(http: aiohttp.ClientSession) -> tuple[FakeNode, FakeClient]:
    link = Socket(await http.ws_connect("/ws/node", max_msg_size=0))
    await link.send(registration())
    node = FakeNode(link, (await link.next("node_register_ack"))["node_id"], answer)
    await link.send(heartbeat(node.node_id))
    client = FakeClient(Socket(await http.ws_connect("/ws/session", max_msg_size=0)))
    await client.init()
    return node, client


async def translated(client: FakeClient, index: int) -> None:
    await client.utterance(index)
    assert (await client.outcome())["type"] == "translation_result"


async def figure(http: aiohttp.ClientSession, name: str) -> float:
    async with http.get("/metrics") as response:
        page = await response.text()
    return float(next(line for line in page.splitlines() if line.startswith(f"{name} ")).split()[1])


def events(process: ServeProcess, name: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in process.log.splitlines() if f'"{name}"' in line]


@pytest.mark.expects_surprise("tls.unusable")
async def test_a_certificate_is_replaced_under_open_sockets_and_a_bad_one_is_not(
    server: RedisProcess, tmp_path: Path, authority: Authority
) -> None:
    files = authority.serve()
    async with serving(tmp_path, server, files) as (process, url), trusting(url, authority) as http:
        assert events(process, "scheduler.ready")[0]["address"].startswith("https://")
        node, client = await a_pair(http)
        await translated(client, 0)
        first = await serial(url, authority)
        authority.serve(until=datetime.now(UTC) + 2_000 * HOUR)

        async def is_newer() -> bool:
            return await serial(url, authority) != first

        await until(is_newer)
        second = await serial(url, authority)
        left_s = await figure(http, "lingua_tls_certificate_expires_timestamp_seconds") - datetime.now(UTC).timestamp()
        assert abs(left_s - 2_000 * 3_600) < 3_600
        await translated(client, 1)
        # A key of another certificate.
        put(files.key, authority.serve(name="other").key.read_bytes())
        (unusable,) = await until(lambda: events(process, "tls.unusable"))
        assert "does not belong to the certificate" in unusable["reason"]
        assert await serial(url, authority) == second
        assert await figure(http, 'lingua_tls_reloads_total{outcome="failed"}') == 1

        async def alarm() -> Any:
            async with http.get("/v1/alarms") as response:
                found = await response.json()
            return [one for one in found["alarms"] if one["code"] == "certificate.refused"]

        assert await until(alarm)
        # It is asked for again by the signal, and answered at once.
        process.process.send_signal(signal.SIGHUP)
        await until(lambda: len(events(process, "tls.unusable")) == 2)
        authority.serve()
        process.process.send_signal(signal.SIGHUP)
        # Perhaps it was loaded before the signal came.
        await until(lambda: len(events(process, "tls.loaded")) >= 2)
        assert await serial(url, authority) not in (first, second)
        await translated(client, 2)
        await node.stop()
        secret = files.key.read_text().splitlines()[1]
        assert secret not in process.log
        assert "PRIVATE KEY" not in process.log


async def test_two_workers_serve_tls_and_replace_their_certificates(
    server: RedisProcess, tmp_path: Path, authority: Authority
) -> None:
    files = authority.serve()
    async with serving(tmp_path, server, files, "--workers", "2") as (process, url):
        async with trusting(url, authority) as http:
            node, client = await a_pair(http)
            await translated(client, 0)
            first = await serial(url, authority)
            ends = datetime.now(UTC).replace(microsecond=0) + 1_000 * HOUR
            authority.serve(until=ends)
            await until(lambda: {event["worker"] for event in events(process, "tls.loaded")} == {0, 1})
            # Whichever worker the kernel chooses.
            assert first not in {await serial(url, authority) for _ in range(20)}
            await translated(client, 1)
            # Not the sum of both.
            assert await figure(http, "lingua_tls_certificate_expires_timestamp_seconds") == ends.timestamp()
            await node.stop()
        # New workers read the files too.
        process.process.send_signal(signal.SIGHUP)
        await until(lambda: events(process, "restart.ended"))
        assert await serial(url, authority) != first


async def test_a_start_with_unusable_files_ends_with_one_sentence(
    server: RedisProcess, tmp_path: Path, authority: Authority
) -> None:
    good, now = authority.serve(), datetime.now(UTC)
    expired = authority.serve(name="expired", since=now - 2 * HOUR, until=now - HOUR)
    for files, workers, why in (
        (good._replace(cert=tmp_path / "none.crt"), 1, "none.crt (server.tls_cert_file) cannot be used: No such file"),
        (expired, 2, "the certificate expired"),
        (good._replace(key=expired.key), 1, "the key does not belong to the certificate"),
    ):
        words = ("serve", "--port", "0", "--redis-url", server.url, "--workers", str(workers), *options(files))
        code, output = await ended(
            *words, LINGUA_AUTH_BACKUP_FILE="", LINGUA_PRIVACY_CLUSTER_KEY_FILE=str(tmp_path / "c")
        )
        assert (code, why in output) == (2, True), output
        assert "Traceback" not in output
    code, output = await ended("serve", "--set", f"server.tls_cert_file={good.cert}")
    assert (code, "server.tls_key_file is empty; set both or none" in output) == (2, True)
    code, output = await ended("serve", "--print-config", *options(good))
    assert code == 0
    assert good.key.read_text().splitlines()[1] not in output


async def test_commands_and_the_sdk_trust_a_private_authority(
    server: RedisProcess, tmp_path: Path, authority: Authority
) -> None:
    async with serving(tmp_path, server, authority.serve()) as (_, url):
        trusted = {"SSL_CERT_FILE": str(authority.file)}
        assert (await ended("status", "--url", url, **trusted))[0] == 0
        code, output = await ended("status", "--url", url)
        assert (code, "SSL_CERT_FILE" in output) == (5, True), output
        async with trusting(url, authority) as http:
            node, _ = await a_pair(http)
            async with Client(url, "en", "zh", tls=ClientTls(ca=authority.file)) as client:
                assert client.session_id
            await node.stop()


async def test_commands_find_a_scheduler_with_tls_by_its_data_directory(tmp_path: Path, authority: Authority) -> None:
    folder = ("--data-dir", str(tmp_path / "data"))
    async with serve_process(tmp_path, *folder, *options(authority.serve())) as process:
        await until(lambda: process.port, START_S)
        code, output = await ended("status", *folder, SSL_CERT_FILE=str(authority.file))
        assert code == 0, output


@asynccontextmanager
async def lingua_node(folder: Path, *words: str) -> AsyncIterator[Path]:
    """`lingua node` as a process; its log."""
    log = folder / "node.log"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LINGUA_")}
    with log.open("wb") as output:
        process = await fork_command(
            *("node", "--engine", "sim", *words),
            stdout=output.fileno(),
            stderr=STDOUT,
            environment=environment | {"XDG_STATE_HOME": str(folder)},
        )
    try:
        yield log
    finally:
        await stop(process, 15.0)


async def test_a_node_joins_by_its_certificate_as_soon_as_an_operator_knows_it(
    server: RedisProcess, tmp_path: Path, authority: Authority
) -> None:
    client_ca = ("--set", f"server.tls_client_ca_file={authority.file}", "--set", "auth.mode=required")
    admin = await created(server, "--admin")
    async with serving(tmp_path, server, authority.serve(), *client_ca) as (_, url), trusting(url, authority) as http:
        own = authority.node(NODE_URI)
        words = ("--url", url, "--ca", str(authority.file), "--cert", str(own.cert), "--key", str(own.key))
        async with lingua_node(tmp_path, *words) as log:
            await until(lambda: "lingua keys create --kind node --tenant default --node-id gpu-7" in log.read_text())
            await created(server, "--kind", "node", "--node-id", "gpu-7", "--slots", "2")
            key = {"Authorization": f"Bearer {admin['key']}"}

            async def nodes() -> Any:
                async with http.get("/v1/nodes", headers=key) as response:
                    return (await response.json())["nodes"]

            (node,) = await until(nodes)
            assert node["node_id"] == "gpu-7"
            async with http.post("/v1/nodes/gpu-7/ban", headers=key) as response:
                assert response.status == 200
            await until(lambda: "revoked" in log.read_text())
        # One that was away when its connection was closed learns it when it connects again.
        async with lingua_node(tmp_path, *words) as log:
            await until(lambda: "revoked" in log.read_text())
