"""Attacks 38 and 39: tokens that expire while their user talks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.services.access import standing
from tests.support.desks import KEYRING
from tests.support.peers import FakeClient, FakeNode, Field, Frame, field, result_of
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess


class Scene:
    def __init__(self, scheduler: Scheduler, peers: Field) -> None:
        self.scheduler = scheduler
        self.peers = peers

    async def token(self, subject: str = "ada", **more: Any) -> Any:
        status, body = await self.peers.post("/v1/tokens", {"subject": subject} | more)
        assert status == 200
        return body

    async def client(self, token: str, **init: Any) -> FakeClient:
        client = FakeClient(await self.peers.socket(f"/ws/session?access_token={token}"))
        await client.init(**init)
        return client


@asynccontextmanager
async def scene_on(server: RedisProcess, grace_ms: int = 60_000) -> AsyncIterator[Scene]:
    changes = {"auth__expired_grace_ms": grace_ms}
    async with scheduler_on(server.url, None, KEYRING, **changes) as (scheduler, _), field(scheduler.port) as peers:
        yield Scene(scheduler, peers)


async def refresh(client: FakeClient, token: str) -> None:
    await client.socket.send({"type": "token_refresh", "token": token})


async def test_38_an_expired_client_that_refreshes_goes_on(server: RedisProcess) -> None:
    async with scene_on(server, grace_ms=1_500) as scene:
        await scene.peers.node()
        first = await scene.token(ttl_ms=1_000)
        client = await scene.client(first["token"])
        assert client.ack["expires_at_ms"] == first["expires_ms"]
        # Another, who does not refresh, shows that the end has come.
        stays_behind = await scene.client(first["token"])
        second = await scene.token(ttl_ms=600_000)
        await refresh(client, second["token"])
        told = await client.socket.next("token_refreshed", "error")
        assert told == {"type": "token_refreshed", "expires_at_ms": second["expires_ms"]}
        assert await stays_behind.socket.closed() == 4005
        await client.utterance(0)
        assert (await client.socket.next("translation_result", "missing_result"))["type"] == "translation_result"
        assert not client.socket.socket.closed


async def test_38_a_refresh_with_another_subject_tenant_or_nonsense_closes_with_4003(server: RedisProcess) -> None:
    async with scene_on(server) as scene:
        mine = await scene.token()
        foreign = await scene.token("eve")
        dispatching = await scene.token(grants=["dispatch"])
        wrong = mine["token"][:-8] + ("AAAAAAAA" if not mine["token"].endswith("AAAAAAAA") else "BBBBBBBB")
        for newer in (foreign["token"], dispatching["token"], wrong, "nonsense", "lk_cl_x"):
            client = await scene.client(mine["token"])
            await refresh(client, newer)
            assert await client.socket.closed() == 4003, newer
            assert not client.socket.of_type("token_refreshed")
        # The control.
        client = await scene.client(mine["token"])
        await refresh(client, mine["token"])
        await client.socket.next("token_refreshed")


async def test_38_a_revoked_token_renews_nothing(server: RedisProcess) -> None:
    async with scene_on(server) as scene:
        mine, newer = await scene.token(), await scene.token()
        client = await scene.client(mine["token"])
        revoked = {"token_id": newer["token_id"], "key_id": newer["key_id"]}
        assert (await scene.peers.post("/v1/revocations", revoked))[0] == 200
        await refresh(client, newer["token"])
        assert await client.socket.closed() == 4003


async def test_38_after_a_refresh_the_newer_token_is_the_one_that_can_be_revoked(server: RedisProcess) -> None:
    async with scene_on(server) as scene:
        mine, newer = await scene.token(), await scene.token()
        client = await scene.client(mine["token"])
        await refresh(client, newer["token"])
        await client.socket.next("token_refreshed")
        await scene.peers.post("/v1/revocations", {"token_id": mine["token_id"], "key_id": ""})
        await client.socket.send({"type": "client_heartbeat", "session_id": client.session_id})
        await client.socket.next("server_heartbeat")
        await scene.peers.post("/v1/revocations", {"token_id": newer["token_id"], "key_id": ""})
        assert await client.socket.closed() == 4004


async def test_39_without_a_refresh_the_socket_is_closed_and_the_last_utterance_delivered(
    server: RedisProcess,
) -> None:
    may_answer = asyncio.Event()

    async def hold(node: FakeNode, job: Frame) -> None:
        if job["utterance_index"]:
            await may_answer.wait()
        await node.socket.send(result_of(job, node.node_id))

    async with scene_on(server, grace_ms=1_000) as scene:
        await scene.peers.node(hold)
        client = await scene.client((await scene.token(ttl_ms=1_000))["token"])
        await client.utterance(0)
        assert (await client.socket.next("translation_result"))["utterance_index"] == 0
        await client.utterance(1)
        assert await client.socket.closed() == 4005
        may_answer.set()
        later = (await scene.token())["token"]
        back = await scene.client(later, resume_token=client.ack["resume_token"], last_utterance_index=0)
        assert (back.session_id, back.ack["resumed"]) == (client.session_id, True)
        assert (await back.socket.next("translation_result"))["utterance_index"] == 1


@pytest.mark.parametrize("announces", [True, False])
async def test_39_a_client_that_can_refresh_and_does_not_is_closed_soon(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch, announces: bool
) -> None:
    monkeypatch.setattr(standing, "REFRESH_GRACE_MS", 500)
    async with scene_on(server, grace_ms=3_600_000) as scene:
        first, short = await scene.token(ttl_ms=600_000), await scene.token(ttl_ms=1_000)
        if announces:
            client = await scene.client(short["token"], refreshes_token=True)
        else:
            client = await scene.client(first["token"])
            await refresh(client, short["token"])
            await client.socket.next("token_refreshed")
        stays = await scene.client(short["token"])
        assert await client.socket.closed() == 4005
        # One that never said so is not asked to do what it cannot.
        await stays.socket.send({"type": "client_heartbeat", "session_id": stays.session_id})
        await stays.socket.next("server_heartbeat")
        later = (await scene.token())["token"]
        back = await scene.client(later, resume_token=client.ack["resume_token"], refreshes_token=True)
        assert (back.session_id, back.ack["resumed"]) == (client.session_id, True)


async def test_38_one_that_announced_it_and_refreshes_goes_on(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "REFRESH_GRACE_MS", 500)
    async with scene_on(server, grace_ms=3_600_000) as scene:
        short = await scene.token(ttl_ms=1_000)
        client = await scene.client(short["token"], refreshes_token=True)
        stays_behind = await scene.client(short["token"], refreshes_token=True)
        await refresh(client, (await scene.token(ttl_ms=600_000))["token"])
        await client.socket.next("token_refreshed")
        assert await stays_behind.socket.closed() == 4005
        await client.socket.send({"type": "client_heartbeat", "session_id": client.session_id})
        await client.socket.next("server_heartbeat")
        # Of the same user alone, as for any other.
        await refresh(client, (await scene.token("eve"))["token"])
        assert await client.socket.closed() == 4003


async def test_who_has_no_token_that_expires_is_told_of_no_end(server: RedisProcess) -> None:
    async with scene_on(server) as scene:
        client = await scene.peers.client()
        assert "expires_at_ms" not in client.ack
        # There is nothing to refresh.
        await refresh(client, (await scene.token())["token"])
        assert await client.socket.closed() == 4003
