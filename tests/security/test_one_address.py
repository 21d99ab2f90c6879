"""Attack H101: one address opens everything it can. Loopback has no limits by default, so these tests set them."""

import asyncio
from contextlib import suppress
from itertools import count
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from lingua_scheduler.domain.guards.rates import Bucket
from lingua_scheduler.gateway import node_socket
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.nodes.http import nodes
from lingua_scheduler.setting_sections.server import ServerSettings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import metrics
from tests.support.fleet import wide_codes
from tests.support.http_nodes import LANGUAGES
from tests.support.peers import Field, field, registration
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

# Callers of another address, or behind a proxy, would need a key; what is tried here comes before that.
OPEN: dict[str, Any] = {"auth__mode": "off"}
PROXY = {"server__trusted_proxies": ["127.0.0.1"], "server__handshakes_per_address_s": 1_000}
ANYBODY: dict[str, Any] = {"server__unmetered_addresses": [], "server__handshakes_per_address_s": 1_000}
STRANGER, OTHER = "203.0.113.7", "203.0.113.8"


class Attacker:
    """Opens sockets from an address, or by way of a proxy that names it."""

    def __init__(self, port: int, local: str = "127.0.0.1", **headers: str) -> None:
        connector = aiohttp.TCPConnector(limit=0, local_addr=(local, 0))
        self._http = aiohttp.ClientSession(connector=connector)
        self._port = port
        self._headers = headers
        self.opened: list[aiohttp.ClientWebSocketResponse] = []
        self.statuses: list[int] = []
        self.retry_after: set[str] = set()

    async def __aenter__(self) -> "Attacker":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def open(self, count: int, path: str = "/ws/session") -> int:
        """How many were let in; after the last one, in order, so that nobody is refused for another's sake."""
        before = len(self.opened)
        for _ in range(count):
            try:
                socket = await self._http.ws_connect(f"http://127.0.0.1:{self._port}{path}", headers=self._headers)
                self.opened.append(socket)
            except aiohttp.WSServerHandshakeError as error:
                self.statuses.append(error.status)
                self.retry_after.add(error.headers.get("Retry-After", "") if error.headers else "")
            except aiohttp.ClientError:
                self.statuses.append(0)
        return len(self.opened) - before


async def honest(peers: Field) -> None:
    await peers.node()
    client = await peers.client()
    await client.utterance(0)
    assert (await client.outcome())["type"] == "translation_result"


def refused(reason: str) -> float:
    return float(metrics.DOOR_REFUSALS.labels(reason)._value.get())


async def test_h101_one_address_behind_a_proxy_gets_200_sockets(server: RedisProcess) -> None:
    before = refused("sockets")
    async with (
        scheduler_on(server.url, **OPEN, **PROXY) as (scheduler, _),
        field(scheduler.port) as peers,
        Attacker(scheduler.port, **{"X-Forwarded-For": f"198.51.100.1, {STRANGER}"}) as stranger,
        Attacker(scheduler.port, **{"X-Forwarded-For": OTHER}) as other,
    ):
        assert await stranger.open(210) == ServerSettings().max_sockets_per_address == 200
        assert stranger.statuses == [429] * 10
        assert stranger.retry_after == {"5"}
        assert refused("sockets") == before + 10
        assert await other.open(5) == 5
        await honest(peers)
        for socket in stranger.opened[:50]:
            await socket.close()
        await until(lambda: scheduler._addresses._places[STRANGER] == 150)
        assert await stranger.open(60) == 50, "places come back"


async def test_h101_connections_are_counted_by_where_they_come_from(server: RedisProcess) -> None:
    few = ANYBODY | {"server__max_sockets_per_address": 10}
    async with scheduler_on(server.url, **OPEN, **few) as (scheduler, _):
        async with Attacker(scheduler.port, local="127.0.0.2") as attacker:
            assert await attacker.open(40) == 10
            # Up to twice the limit it is told why; beyond that nothing is read. Refused ones leave at once.
            assert set(attacker.statuses) <= {429, 0}
            assert attacker.statuses.count(429) >= 10
            async with field(scheduler.port) as peers:
                await honest(peers)
            # Connections that ask for nothing count too.
            silent = [
                await asyncio.open_connection("127.0.0.1", scheduler.port, local_addr=("127.0.0.3", 0))
                for _ in range(30)
            ]
            ended = [reader for reader, _ in silent]
            await until(lambda: sum(reader.at_eof() or reader.exception() is not None for reader in ended) == 10)
            for _, writer in silent:
                writer.transport.abort()
            for _, writer in silent:
                with suppress(ConnectionError):
                    await writer.wait_closed()
        await until(lambda: not scheduler._addresses._places)


async def test_h101_handshakes_of_one_address_have_a_rate(server: RedisProcess) -> None:
    slow = PROXY | {"server__handshakes_per_address_s": 1}
    before = refused("handshakes")
    async with (
        scheduler_on(server.url, **OPEN, **slow) as (scheduler, _),
        Attacker(scheduler.port, **{"X-Forwarded-For": STRANGER}) as stranger,
        Attacker(scheduler.port, **{"X-Forwarded-For": OTHER}) as other,
    ):
        assert 5 <= await stranger.open(20) <= 10, "five at once, then one each second"
        assert set(stranger.statuses) == {429}
        assert refused("handshakes") >= before + 10
        assert await other.open(1, "/ws/node") == 1


@pytest.mark.parametrize("path", ["/ws/session", "/ws/node"])
async def test_e72_nobody_but_a_trusted_proxy_says_who_calls(server: RedisProcess, path: str) -> None:
    few = ANYBODY | {"server__max_sockets_per_address": 3}
    async with scheduler_on(server.url, **OPEN, **few) as (scheduler, _):
        async with Attacker(scheduler.port, **{"X-Forwarded-For": STRANGER}) as liar:
            assert await liar.open(4, path) == 3
            liar._headers = {"X-Forwarded-For": OTHER}
            assert await liar.open(1, path) == 0


@pytest.mark.parametrize(
    "claimed",
    [
        {"X-Forwarded-For": "127.0.0.1"},
        {"X-Forwarded-For": "10.0.0.1, 127.0.0.1"},
        {"X-Forwarded-For": "::1"},
        {"X-Forwarded-For": "nonsense"},
        {"Forwarded": "for=127.0.0.1", "X-Real-IP": "127.0.0.1", "X-Client-IP": "127.0.0.1"},
    ],
    ids=str,
)
@pytest.mark.parametrize("proxies", [[], ["127.0.0.1"]], ids=["no proxy", "a proxy elsewhere"])
async def test_e72_who_claims_to_be_one_of_us_is_counted_all_the_same(
    server: RedisProcess, claimed: dict[str, str], proxies: list[str]
) -> None:
    """As from the internet: 127.0.0.2 is nobody's here, and 127.0.0.1 has no limits."""
    limits = {
        "server__unmetered_addresses": ["127.0.0.1", "10.0.0.0/8", "::1"],
        "server__trusted_proxies": proxies,
        "server__handshakes_per_address_s": 1,
    }
    async with (
        scheduler_on(server.url, **OPEN, **limits) as (scheduler, _),
        field(scheduler.port) as peers,
        Attacker(scheduler.port, local="127.0.0.2", **claimed) as liar,
    ):
        assert 5 <= await liar.open(20) <= 10, "five at once, then one each second"
        await honest(peers)


async def test_e72_what_a_caller_says_before_the_proxy_does_counts_for_nothing(server: RedisProcess) -> None:
    slow = PROXY | {"server__handshakes_per_address_s": 1}
    async with scheduler_on(server.url, **OPEN, **slow) as (scheduler, _), Attacker(scheduler.port) as stranger:
        opened = 0
        for number in range(20):
            # It says another address each time, one of ours too; the proxy writes its own behind it.
            stranger._headers = {"X-Forwarded-For": f"198.51.100.{number}, 127.0.0.1, 10.0.0.{number}, {STRANGER}"}
            opened += await stranger.open(1)
        assert 5 <= opened <= 10, "five at once, then one each second"


async def test_a_proxy_of_ours_that_is_not_trusted_is_told_of_whoever_sent_the_header_before(
    server: RedisProcess,
) -> None:
    """Behind it nobody is limited, as the documents say, so the log has to say it too."""
    own = {"server__unmetered_addresses": ["127.0.0.1"], "server__handshakes_per_address_s": 1}
    with capture_logs() as logged:
        async with (
            scheduler_on(server.url, **OPEN, **own) as (scheduler, _),
            Attacker(scheduler.port, local="127.0.0.2", **{"X-Forwarded-For": OTHER}) as liar,
            Attacker(scheduler.port, **{"X-Forwarded-For": STRANGER}) as proxy,
        ):
            assert await liar.open(2) == 2
            assert await proxy.open(20) == 20
    told = [
        (event["log_level"], event["event"], event["address"])
        for event in logged
        if event["event"].startswith("proxy.")
    ]
    assert told == [("info", "proxy.ignored", "127.0.0.2"), ("warning", "proxy.not_trusted", "127.0.0.1")]


async def test_our_own_machine_and_networks_have_no_limits_by_default(peers: Field) -> None:
    async with Attacker(peers.port) as fleet:
        assert await fleet.open(250, "/ws/node") == 250


async def test_nodes_over_http_take_places_of_their_address_too(server: RedisProcess) -> None:
    few = PROXY | {"server__max_sockets_per_address": 3}
    async with scheduler_on(server.url, **OPEN, **few) as (scheduler, _), field(scheduler.port) as peers:

        async def register(address: str, **more: str) -> tuple[int, Any]:
            headers = {"X-Forwarded-For": address}
            return await peers.ask("POST", "/v1/node/register", json=LANGUAGES | more, headers=headers)

        nodes = [{"node_id": f"node-{number}", "boot_id": "b"} for number in range(4)]
        assert [(await register(STRANGER, **node))[0] for node in nodes] == [200, 200, 200, 503]
        assert (await register(STRANGER, **nodes[0]))[0] == 200, "who is here already may come again"
        status, body = await register(STRANGER, **nodes[3])
        assert (status, body["error"]) == (503, "NODE_UNAVAILABLE")
        assert "server.max_sockets_per_address" in body["detail"]
        assert (await register(OTHER))[0] == 200
        async with Attacker(scheduler.port, **{"X-Forwarded-For": STRANGER}) as stranger:
            assert await stranger.open(1, "/ws/node") == 0, "sockets and nodes are counted together"
        await peers.post("/v1/nodes/node-1/evict")
        assert (await register(STRANGER, **nodes[3]))[0] == 200


async def test_a_node_over_http_gives_its_place_back_once_though_redis_went_while_it_registered(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise RedisAway("gone")

    async with scheduler_on(server.url, **OPEN, **PROXY) as (scheduler, _), field(scheduler.port) as peers:

        async def register(node_id: str, health: str) -> int:
            body = LANGUAGES | {"node_id": node_id, "health": health}
            return (await peers.ask("POST", "/v1/node/register", json=body, headers={"X-Forwarded-For": STRANGER}))[0]

        assert await register("node-well", "ok") == 200
        monkeypatch.setattr(scheduler._connected.heartbeats, "take", away)
        assert await register("node-ill", "failing") == 503
        assert scheduler._addresses._places[STRANGER] == 2
        await peers.post("/v1/nodes/node-ill/evict")
        assert scheduler._addresses._places[STRANGER] == 1


async def test_registrations_pass_one_gate_however_they_come(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, **OPEN, server__max_registrations_per_s=10, server__max_nodes=40) as (scheduler, _),
        field(scheduler.port) as peers,
    ):
        before = metrics.REGISTRATIONS.labels("delayed")._value.get()
        over_http = (peers.post("/v1/node/register", LANGUAGES) for _ in range(15))
        answers, _nodes = await asyncio.gather(
            asyncio.gather(*over_http), asyncio.gather(*(peers.node() for _ in range(5)))
        )
        assert {status for status, _ in answers} == {200}
        assert metrics.REGISTRATIONS.labels("delayed")._value.get() > before, "ten at once, the rest wait"
        # All at once: as many as there is room for, not one more.
        scheduler._connected.registry._gate = Bucket(1_000, 1_000)
        more = await asyncio.gather(*(peers.post("/v1/node/register", LANGUAGES) for _ in range(30)))
        assert sorted(status for status, _ in more) == [200] * 20 + [503] * 10


def all_pairs(count: int) -> dict[str, Any]:
    """What a node says that names each of its pairs but one: so it is not any pair."""
    codes = wide_codes(count)
    pairs = [{"src": src, "tgt": tgt} for src in codes for tgt in codes][:-1]
    lists = dict.fromkeys(("asr_languages", "tts_languages", "semantic_languages"), codes)
    return {"language_capabilities": lists | {"nmt_capabilities": pairs}}


def delayed() -> float:
    return float(metrics.REGISTRATIONS.labels("delayed")._value.get())


@pytest.fixture
def costly(monkeypatch: pytest.MonkeyPatch) -> None:
    """To read what a node says when it comes takes a while."""
    ticks = count()
    for module in (node_socket, nodes):
        monkeypatch.setattr(module, "thread_time", lambda: next(ticks) * 0.4, raising=False)


@pytest.mark.usefixtures("costly")
async def test_an_address_that_registers_and_leaves_again_and_again_waits_for_what_it_costs(
    server: RedisProcess,
) -> None:
    async with (
        scheduler_on(server.url, **OPEN, **PROXY) as (scheduler, _),
        Attacker(scheduler.port, **{"X-Forwarded-For": STRANGER}) as stranger,
        Attacker(scheduler.port, **{"X-Forwarded-For": OTHER}) as other,
    ):
        before = delayed()

        async def register(attacker: Attacker) -> None:
            await attacker.open(1, "/ws/node")
            await attacker.opened[-1].send_json(registration())
            assert (await attacker.opened[-1].receive_json())["type"] == "node_register_ack"

        await register(stranger)
        await stranger.opened[-1].close()
        assert delayed() == before
        again = asyncio.create_task(register(stranger))
        await until(lambda: delayed() == before + 1)
        await register(other)
        assert not again.done()
        assert delayed() == before + 1
        await again


@pytest.mark.usefixtures("costly")
async def test_an_address_that_registers_over_http_again_and_again_waits_for_what_it_costs(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scheduler_on(server.url, **OPEN, **PROXY) as (scheduler, _), field(scheduler.port) as peers:
        before = delayed()

        async def register(address: str) -> int:
            headers = {"X-Forwarded-For": address}
            return (await peers.ask("POST", "/v1/node/register", json=LANGUAGES, headers=headers))[0]

        assert [await register(address) for address in (STRANGER, OTHER)] == [200, 200]
        assert delayed() == before
        assert await register(STRANGER) == 200
        assert delayed() == before + 1
        monkeypatch.setattr("lingua_scheduler.services.nodes.toll.LONGEST_WAIT_S", 0.0)
        assert await register(STRANGER) == 503


@pytest.mark.usefixtures("costly")
async def test_a_node_that_waits_too_long_for_what_its_address_costs_is_told_to_come_back(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        scheduler_on(server.url, **OPEN, **PROXY) as (scheduler, _),
        Attacker(scheduler.port, **{"X-Forwarded-For": STRANGER}) as stranger,
    ):
        monkeypatch.setattr("lingua_scheduler.services.nodes.toll.LONGEST_WAIT_S", 0.0)
        await stranger.open(2, "/ws/node")
        for socket in stranger.opened:
            await socket.send_json(registration())
            await socket.receive_json()
        assert (await stranger.opened[1].receive()).data == CloseCode.TRY_LATER


@pytest.mark.usefixtures("costly")
async def test_who_waits_for_its_turn_is_not_closed_for_its_silence_but_who_talks_rubbish_is(
    server: RedisProcess,
) -> None:
    soon = PROXY | {"nodes__register_within_ms": 500}
    async with (
        scheduler_on(server.url, **OPEN, **soon) as (scheduler, _),
        Attacker(scheduler.port, **{"X-Forwarded-For": STRANGER}) as stranger,
    ):
        for place in range(2):
            await stranger.open(1, "/ws/node")
            await stranger.opened[place].send_json(registration())
            assert (await stranger.opened[place].receive_json())["type"] == "node_register_ack"
        await stranger.open(1, "/ws/node")
        await stranger.opened[2].send_json({"type": "rubbish"})
        assert (await stranger.opened[2].receive()).data == CloseCode.TRY_LATER


async def test_an_honest_node_with_99_languages_registers_at_once(server: RedisProcess) -> None:
    async with (
        scheduler_on(server.url, **OPEN, **PROXY) as (scheduler, _),
        Attacker(scheduler.port, **{"X-Forwarded-For": STRANGER}) as node,
    ):
        before = delayed()
        await node.open(1, "/ws/node")
        await node.opened[0].send_json(registration(**all_pairs(99)))
        assert (await node.opened[0].receive_json())["type"] == "node_register_ack"
        assert delayed() == before
