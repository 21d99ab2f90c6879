"""Attack H99 through the proxies of deploy/: what never becomes a request ends, and an honest conversation goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median, quantiles

import pytest

from tests.security.test_slow_peers import BODY, HALF_A_HEAD, Wire, hang_up, is_gone, speak, wires
from tests.support.bare import handshake
from tests.support.instances import instances
from tests.support.peers import Field, field
from tests.support.proxies import SAMPLES, proxy
from tests.support.servers import RedisProcess

EACH = 20
# They have 10 s in both samples. nginx gives them 60 s unless it is told otherwise.
GONE_WITHIN_S = 45
HALF_A_HANDSHAKE = handshake("/ws/session")[:-2]
BODY_IN_CHUNKS = BODY.replace(b"Content-Length: 99", b"Transfer-Encoding: chunked").replace(b"{", b"1\r\n{\r\n")


@asynccontextmanager
async def proxied(name: str, server: RedisProcess, folder: Path) -> AsyncIterator[Field]:
    (folder / name).mkdir()
    async with (
        instances(
            folder, server.url, 3, server__body_timeout_ms=1_000, server__trusted_proxies="127.0.0.1", auth__mode="off"
        ) as started,
        proxy(name, [instance.port for instance in started], folder / name) as ports,
        field(ports.port) as peers,
    ):
        yield peers


async def status_of(wire: Wire) -> bytes:
    status = await wire[0].readline()
    await hang_up([wire])
    return status


@pytest.mark.parametrize("name", SAMPLES)
async def test_h99_what_never_becomes_a_request_ends_at_a_proxy_too(
    name: str, server: RedisProcess, tmp_path: Path
) -> None:
    async with proxied(name, server, tmp_path) as peers:
        # At each instance one, so that the conversation finds one wherever it is.
        for _ in range(3):
            await peers.node()
        client = await peers.client()
        await speak(client, 0, 1)
        before = await speak(client, 1, 50)
        half = [wire for first in (b"", HALF_A_HEAD, HALF_A_HANDSHAKE) for wire in await wires(peers.port, EACH, first)]
        bodies = [wire for first in (BODY, BODY_IN_CHUNKS) for wire in await wires(peers.port, EACH, first)]
        ends = asyncio.gather(*map(is_gone, half))
        during = await speak(client, 51, 50)
        answers = await asyncio.gather(*map(status_of, bodies))
        async with asyncio.timeout(GONE_WITHIN_S):
            assert all(await ends)
        print(
            f"{name}: median {median(before):.1f} ms before, {median(during):.1f} during: "
            f"x {median(during) / median(before):.2f}; p99 {quantiles(before, n=100)[98]:.1f} before, "
            f"{quantiles(during, n=100)[98]:.1f} during"
        )
        assert all(answer.startswith(b"HTTP/1.1 408") for answer in answers), set(answers)
        # A new caller comes through as before.
        await speak(await peers.client(), 0, 1)
