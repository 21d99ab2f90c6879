"""Addresses that callers give us cannot be used to reach what stands behind the scheduler (attack F90)."""

import asyncio
import socket
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from lingua_scheduler.console.outside import client_session, refusal_in
from lingua_scheduler.domain.guards.addresses import read_networks
from lingua_scheduler.domain.guards.destinations import Destinations
from tests.support.http_nodes import LANGUAGES, HttpNode, door, http_node, take
from tests.support.peers import Field, answer, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until


class Names(AbstractResolver):
    """Answers with each of the addresses in turn, as a name server that wants to deceive."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        address = self.addresses.pop(0) if len(self.addresses) > 1 else self.addresses[0]
        kind = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=0)]

    async def close(self) -> None:
        pass


async def refused(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.post(url, data=b"{}", allow_redirects=False):
            return False
    except aiohttp.ClientError as error:
        return bool(refusal_in(error))


async def test_f90_a_callback_into_the_network_of_the_scheduler_is_refused_with_the_setting(
    server: RedisProcess,
) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers, door(take) as victim:
        port = victim.url.split(":")[2]
        node = await http_node(peers)
        for host in ("127.0.0.1", "[::1]", "169.254.169.254", "0x7f000001", "localhost", "[::ffff:127.0.0.1]"):
            url = f"http://{host}:{port}"
            for path, body in (
                ("/v1/node/register", LANGUAGES | {"callback_url": url}),
                ("/v1/node/heartbeat", {"node_id": node.node_id, "callback_url": url}),
            ):
                status, told = await peers.post(path, body)
                assert (status, told["error"]) == (400, "INVALID_MESSAGE"), url
                assert "server.allow_calls_to" in told["detail"] or host == "0x7f000001"
        assert victim.calls == []


async def test_f90_a_name_that_leads_inside_is_found_out_when_it_is_called(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job goes to an honest node."""
    resolve = asyncio.get_running_loop().getaddrinfo

    async def deceive(host: Any, port: Any, **more: Any) -> Any:
        return await resolve("127.0.0.1" if host == "evil.example" else host, port, **more)

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", deceive, raising=False)
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers, door(take) as victim:
        url = victim.url.replace("127.0.0.1", "evil.example")
        rogue = await http_node(peers, callback_url=url)
        honest = await peers.node(answer)
        client = await peers.client()
        for index in range(50):
            await client.utterance(index)
            assert (await client.outcome())["type"] == "translation_result"
            if honest.jobs[-1]["attempt_id"] == 2:
                break
        else:
            raise AssertionError(f"nobody ever tried {rogue.node_id}")
        assert victim.calls == []


async def test_f90_a_name_that_changes_its_address_is_judged_by_the_one_that_is_connected_to() -> None:
    async with door(take) as victim:
        port = victim.url.split(":")[2]
        for address in ("127.0.0.1", "::ffff:127.0.0.1"):
            names = Names("127.0.0.1", address)
            async with client_session(Destinations(read_networks(("8.8.8.8",))), names) as http:
                assert await refused(http, f"http://rebinds.example:{port}")
                assert await refused(http, f"http://127.0.0.1:{port}")
        assert victim.calls == []
        # The control: what is allowed is called.
        async with client_session(Destinations(read_networks(("127.0.0.1",))), Names("127.0.0.1")) as http:
            assert not await refused(http, f"http://friend.example:{port}")
        await until(lambda: len(victim.calls) == 1)


async def test_f90_a_stranger_does_not_fetch_the_jobs_of_a_node_over_http(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, _), field(scheduler.port) as peers:
        node = await http_node(peers, boot_id="only-mine")
        client = await peers.client()
        await client.utterance(0)
        connector = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
        async with aiohttp.ClientSession(connector=connector) as http:
            stranger = HttpNode(Field(http, scheduler.port), node.node_id)
            for guess in ({}, {"boot_id": "guessed"}):
                for path in ("/v1/node/poll", "/v1/node/heartbeat"):
                    status, told = await stranger.post(path, **guess)
                    assert (status, told["error"]) == (409, "NODE_ID_CONFLICT")
            job = await node.fetch()
            assert (await stranger.report("done", job, text_asr="a lie"))[0] == 409
            # With its boot_id the node may come from anywhere.
            assert (await stranger.post("/v1/node/heartbeat", boot_id="only-mine"))[0] == 200
        await node.do(job)
        assert (await client.outcome())["text_asr"] == "heard 0"


async def test_f90_a_redirect_is_not_followed(server: RedisProcess) -> None:
    async def redirect(_: Any) -> int:
        return 307

    async with (
        scheduler_on(server.url, server__allow_calls_to=["127.0.0.1"]) as (scheduler, _),
        field(scheduler.port) as peers,
        door(redirect) as opened,
    ):
        await http_node(peers, callback_url=opened.url)
        client = await peers.client()
        await client.utterance(0)
        await until(lambda: opened.calls)
        await until(lambda: not len(scheduler._http_nodes._errands))
        assert opened.calls_elsewhere == 0
