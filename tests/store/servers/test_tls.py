"""TLS to real servers with an authority of our own: one server, a Cluster, and through Sentinel."""

import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.servers.local_cluster import LocalServerError
from lingua_scheduler.store.store import Store, StoreError
from tests.support.clusters import MASTER_NAME, Certificates, Cluster, Sentinels, Server, start
from tests.support.fleet import dispatch, entry, join, order
from tests.support.peers import field
from tests.support.schedulers import scheduler_on
from tests.support.servers import binaries


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make certificates with")
    folder = tmp_path_factory.mktemp("certificates")
    files = Certificates(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")

    def run(words: str) -> None:
        subprocess.run([openssl, *words.split()], cwd=folder, check=True, capture_output=True)

    authority = "-addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign"
    run(f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test-ca -keyout ca.key -out ca.pem {authority}")
    run("req -newkey rsa:2048 -nodes -subj /CN=redis -keyout server.key -out server.csr")
    run("x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem")
    return files


@pytest.fixture(scope="module")
def binary(certificates: Certificates) -> str:
    """The first server on this machine that was built with TLS."""
    for program in filter(None, binaries().values()):
        try:
            Server(program, certificates=certificates).stop()
        except LocalServerError:
            continue
        return program
    pytest.skip("no server on this machine speaks TLS")


@pytest.fixture(scope="module")
def server(binary: str, certificates: Certificates) -> Iterator[Server]:
    started = start(binary, certificates=certificates)
    yield started
    started.stop()


@asynccontextmanager
async def store_on(url: str) -> AsyncIterator[Store]:
    # A handshake costs much on a busy machine.
    store = Store(url, key_prefix="lingua:v1", timeout_ms=30_000)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def works(store: Store) -> None:
    await join(store, entry("n1"))
    await dispatch(store, order(1))


async def test_the_authority_named_in_the_address_is_trusted(server: Server, certificates: Certificates) -> None:
    async with store_on(f"rediss://{server.address}?ssl_ca_certs={certificates.ca}") as store:
        await works(store)


async def test_an_utterance_goes_its_whole_way_over_tls(server: Server, certificates: Certificates) -> None:
    server.command("FLUSHALL")
    url = f"rediss://{server.address}?ssl_ca_certs={certificates.ca}"
    async with scheduler_on(url, redis__timeout_ms=30_000) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        client = await peers.client()
        await client.utterance(0)
        assert (await client.outcome())["type"] == "translation_result"


async def test_a_server_nobody_vouches_for_is_not_trusted(server: Server) -> None:
    with pytest.raises(RedisAway, match="CERTIFICATE_VERIFY_FAILED"):
        async with store_on(f"rediss://{server.address}"):
            pass


async def test_a_certificate_for_another_name_is_not_trusted(server: Server, certificates: Certificates) -> None:
    with pytest.raises(RedisAway, match="Hostname mismatch"):
        async with store_on(f"rediss://localhost:{server.port}?ssl_ca_certs={certificates.ca}"):
            pass


async def test_names_need_not_be_compared_and_nothing_need_be_verified(
    server: Server, certificates: Certificates
) -> None:
    for trust in (f"ssl_ca_certs={certificates.ca}&ssl_check_hostname=false", "ssl_cert_reqs=none"):
        async with store_on(f"rediss://localhost:{server.port}?{trust}") as store:
            assert store.is_ready


async def test_an_authority_that_cannot_be_read_is_named(server: Server, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nothing\.pem, which cannot be read: No such file"):
        async with store_on(f"rediss://{server.address}?ssl_ca_certs={tmp_path / 'nothing.pem'}"):
            pass


async def test_a_plain_address_of_a_tls_server_does_not_hang(server: Server) -> None:
    with pytest.raises(RedisAway):
        async with store_on(f"redis://{server.address}"):
            pass


async def test_every_member_of_a_cluster_is_spoken_to_over_tls(binary: str, certificates: Certificates) -> None:
    cluster = Cluster(binary, options=("--tls-cluster", "yes"), certificates=certificates)
    try:
        async with store_on(f"rediss+cluster://{cluster.hosts}?ssl_ca_certs={certificates.ca}") as store:
            await works(store)
            assert len(store.line.servers()) == 3
    finally:
        cluster.stop()


async def test_sentinels_and_the_master_they_name_are_spoken_to_over_tls(
    binary: str, certificates: Certificates
) -> None:
    watched = Sentinels(binary, certificates=certificates)
    try:
        url = f"rediss+sentinel://{watched.hosts}/{MASTER_NAME}?ssl_ca_certs={certificates.ca}"
        async with store_on(url) as store:
            await works(store)
    finally:
        watched.stop()
