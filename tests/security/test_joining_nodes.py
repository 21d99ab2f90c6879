"""Attacks by and on nodes that join: 40, 77, 80, 81, 82, 85 and 86, at a scheduler where everybody needs a key."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind
from lingua_sdk.identity import KeyPair, NodeIdentity
from tests.support.access import MadeKey, guarded_scheduler, made_key
from tests.support.joining import identity_of, shows
from tests.support.peers import FakeClient, FakeNode, Socket, answer, heartbeat, registration
from tests.support.servers import RedisProcess
from tests.support.waiting import until


class Guarded:
    def __init__(self, scheduler: Scheduler, store: Store, http: aiohttp.ClientSession, admin: MadeKey) -> None:
        self.scheduler = scheduler
        self.store = store
        self.http = http
        self.admin = admin

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        async with self.http.request(method, path, **more) as response:
            return response.status, await response.json()

    async def key(self, kind: KeyKind = KeyKind.ENROLMENT, **about: Any) -> MadeKey:
        made = made_key(kind, **about)
        await self.scheduler.credentials.add(made.credential)
        return made

    async def enrol(self, key: MadeKey, pair: KeyPair | None = None, **more: Any) -> tuple[int, Any]:
        body = {"public_key": (pair or KeyPair()).public_text} | more
        return await self.ask("POST", "/v1/nodes/enrol", json=body, headers=key.header)

    async def joined(self, key: MadeKey, **more: Any) -> NodeIdentity:
        pair = KeyPair()
        status, said = await self.enrol(key, pair, **more)
        assert status == 200, said
        return identity_of(said["credential_id"], pair, said["audience"], said["node_id"])

    async def knock(self, headers: dict[str, str], path: str = "/ws/node") -> int:
        """What is answered to a handshake."""
        try:
            socket = await self.http.ws_connect(path, headers=headers)
        except aiohttp.WSServerHandshakeError as refused:
            return refused.status
        await socket.close()
        return 101

    async def node(self, identity: NodeIdentity, **said: Any) -> FakeNode:
        socket = Socket(await self.http.ws_connect("/ws/node", headers=shows(identity), max_msg_size=0))
        await socket.send(registration(**{"node_id": identity.node_id} | said))
        node = FakeNode(socket, (await socket.next("node_register_ack"))["node_id"], answer)
        await socket.send(heartbeat(node.node_id))
        return node

    async def view(self, node_id: str) -> Any:
        return next((one for one in await self.store.node_views.all() if one.node_id == node_id), None)

    async def act(self, verb: str, node_id: str, key: MadeKey | None = None) -> tuple[int, Any]:
        return await self.ask("POST", f"/v1/nodes/{node_id}/{verb}", headers=(key or self.admin).header)


@pytest.fixture
async def guarded(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Guarded]:
    admin = made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="*")
    async with (
        guarded_scheduler(server.url, tmp_path, admin) as (scheduler, store),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http,
    ):
        yield Guarded(scheduler, store, http, admin)


async def test_a_node_that_joined_works(guarded: Guarded) -> None:
    me = await guarded.joined(await guarded.key(), node_id="gpu-7")
    node = await guarded.node(me)
    service = await guarded.key(KeyKind.SERVICE)
    client = FakeClient(Socket(await guarded.http.ws_connect("/ws/session", headers=service.header)))
    await client.init()
    await client.utterance(0)
    assert (await client.outcome())["type"] == "translation_result"
    await node.stop()


async def test_40_a_captured_token_is_of_no_use(guarded: Guarded) -> None:
    me = await guarded.joined(await guarded.key())
    used = shows(me)
    assert await guarded.knock(used) == 101
    assert await guarded.knock(used) == 401
    assert await guarded.knock(shows(me, now_s=1_000_000)) == 401
    other = identity_of(me.credential_id, KeyPair(me.private_key), "lingua/another")
    assert await guarded.knock(shows(other)) == 401
    assert await guarded.knock(shows(me)) == 101


async def test_40_the_token_of_a_node_opens_nothing_else(guarded: Guarded) -> None:
    me = await guarded.joined(await guarded.key())
    for method, path in (("GET", "/v1/nodes"), ("GET", "/v1/enrolments"), ("POST", "/v1/nodes/enrol")):
        status, said = await guarded.ask(method, path, headers=shows(me))
        assert (status, said["error"]) == (403, "PERMISSION_DENIED"), path
    assert await guarded.knock(shows(me), "/ws/session") == 403


async def test_77_nothing_but_a_credential_of_a_node_opens_its_socket(guarded: Guarded) -> None:
    enrolment = await guarded.key()
    assert await guarded.knock({}) == 401
    assert await guarded.knock(enrolment.header) == 403
    stranger = identity_of("unknown00000", KeyPair())
    assert await guarded.knock(shows(stranger)) == 401


async def test_80_a_single_use_key_that_is_raced_by_20_lets_one_in(guarded: Guarded) -> None:
    once = await guarded.key(max_nodes=1)
    found = await asyncio.gather(*(guarded.enrol(once) for _ in range(20)))
    assert sorted(status for status, _ in found) == [200] + [403] * 19
    assert {said["error"] for status, said in found if status == 403} == {"ENROLMENT_REFUSED"}
    _, listed = await guarded.ask("GET", "/v1/enrolments", headers=guarded.admin.header)
    assert len(listed["nodes"]) == 1


@pytest.mark.parametrize(
    ("about", "why"),
    [({"expires_ms": 1}, "expired"), ({"revoked_ms": 1}, "revoked"), ({"max_nodes": 1}, "used up")],
)
async def test_81_a_key_that_ended_says_why(guarded: Guarded, about: dict[str, Any], why: str) -> None:
    key = await guarded.key(**about)
    if "max_nodes" in about:
        await guarded.joined(key)
    status, said = await guarded.enrol(key)
    assert (status, said["error"]) == (403, "ENROLMENT_REFUSED")
    assert why in said["detail"]
    # One who guesses the secret learns nothing.
    wrong = made_key(KeyKind.ENROLMENT)
    assert (await guarded.enrol(wrong))[0] == 401


async def test_an_enrolment_key_in_the_url_is_refused(guarded: Guarded) -> None:
    key = await guarded.key()
    body = {"public_key": KeyPair().public_text}
    status, said = await guarded.ask("POST", f"/v1/nodes/enrol?access_token={key.text}", json=body)
    assert status == 401
    assert "must not be in a URL" in said["detail"]


@pytest.mark.parametrize("public_key", ["", "0f", "G" * 64, "0F" * 32, "0f" * 32 + "\n", 7, None])
async def test_what_is_no_public_key_is_refused(guarded: Guarded, public_key: Any) -> None:
    key = await guarded.key()
    assert (await guarded.ask("POST", "/v1/nodes/enrol", json={"public_key": public_key}, headers=key.header))[0] == 400


@pytest.mark.parametrize("node_id", ["", "gpu-7\n", "gpu 7", "g" * 65, "../x", 7])
async def test_what_is_no_node_id_is_refused(guarded: Guarded, node_id: Any) -> None:
    status, said = await guarded.enrol(await guarded.key(), node_id=node_id)
    assert (status, "node_id" in said["detail"]) == (400, True)


async def test_82_a_pending_node_gets_no_job_before_it_is_approved(guarded: Guarded) -> None:
    me = await guarded.joined(await guarded.key(needs_approval=True), node_id="waits")
    async with guarded.http.get("/ws/node", headers=shows(me)) as response:
        said = await response.json()
    assert (response.status, said["error"]) == (403, "NODE_NOT_APPROVED")
    assert "lingua nodes approve" in said["detail"]
    assert await guarded.view("waits") is None
    for role in (Role.OPERATOR, Role.VIEWER, Role.AUDITOR):
        key = await guarded.key(KeyKind.OPERATOR, role=role)
        assert (await guarded.act("approve", "waits", key))[0] == 403
        assert (await guarded.act("ban", "waits", key))[0] == 403
    foreign = await guarded.key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="beta")
    assert (await guarded.act("approve", "waits", foreign))[0] == 404
    assert await guarded.knock(shows(me)) == 403
    status, said = await guarded.act("approve", "waits")
    assert (status, said["is_approved"]) == (200, True)
    node = await guarded.node(me)
    assert await guarded.view("waits") is not None
    await node.stop()


async def test_85_a_node_that_says_another_region_is_where_its_credential_says(guarded: Guarded) -> None:
    me = await guarded.joined(await guarded.key(labels={"region": "us"}), node_id="n1")
    lie: dict[str, Any] = {"region": "moon-1", "labels": {"region": "moon-1"}}
    node = await guarded.node(me, **lie)
    _, said = await guarded.ask("GET", "/v1/enrolments", headers=guarded.admin.header)
    assert [one["labels"] for one in said["nodes"]] == [{"region": "us"}]
    for path in ("/v1/nodes", "/v1/nodes/n1", "/v1/enrolments"):
        _, said = await guarded.ask("GET", path, headers=guarded.admin.header)
        assert "moon-1" not in json.dumps(said)
    # Nor when it joins.
    _, said = await guarded.enrol(await guarded.key(), **lie)
    _, said = await guarded.ask("GET", "/v1/enrolments", headers=guarded.admin.header)
    assert sorted(map(str, (one["labels"] for one in said["nodes"]))) == ["{'region': 'us'}", "{}"]
    await node.stop()


async def test_86_a_node_that_joined_has_the_slots_of_the_key(guarded: Guarded) -> None:
    me = await guarded.joined(await guarded.key(max_slots=3), node_id="n1")
    node = await guarded.node(me, max_concurrent_jobs=256)
    assert (await guarded.view("n1")).max_jobs == 3
    await node.stop()


async def test_78_a_node_that_joined_registers_as_no_other(guarded: Guarded) -> None:
    key = await guarded.key()
    real, rogue = await guarded.joined(key, node_id="real"), await guarded.joined(key, node_id="rogue")
    node = await guarded.node(real)
    socket = Socket(await guarded.http.ws_connect("/ws/node", headers=shows(rogue)))
    await socket.send(registration(node_id="real"))
    assert (await socket.next("error"))["code"] == "PERMISSION_DENIED"
    assert not node.socket.socket.closed
    await node.stop()


async def test_79_a_token_from_outside_the_networks_of_its_credential_is_refused(guarded: Guarded) -> None:
    pair = KeyPair()
    me = await guarded.joined(await guarded.key(networks=("127.0.0.0/8",)))
    assert await guarded.knock(shows(me)) == 101
    elsewhere = made_key(KeyKind.NODE, networks=("192.0.2.0/24",), public_key=pair.public_text, node_id="n9")
    await guarded.scheduler.credentials.add(elsewhere.credential)
    assert await guarded.knock(shows(identity_of(elsewhere.credential.id, pair))) == 403


async def test_a_banned_node_is_gone_at_once(guarded: Guarded) -> None:
    key = await guarded.key()
    me = await guarded.joined(key, node_id="bad")
    node = await guarded.node(me)
    status, said = await guarded.act("ban", "bad")
    assert (status, said["outcome"], said["enrolled_with"]) == (200, "banned", [key.credential.id])
    await until(lambda: node.socket.socket.closed)
    assert node.socket.socket.close_code == CloseCode.REVOKED
    assert await guarded.knock(shows(me)) == 401
    assert (await guarded.act("ban", "bad"))[0] == 404
    assert (await guarded.enrol(key, KeyPair(me.private_key)))[0] == 403
