"""Attacks 47 to 49 and 89: a revoked credential ends what it has at all instances, and stays revoked."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.services.sessions.sessions import Session, Sessions
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import MadeKey, guarded_scheduler, made_key
from tests.support.http_nodes import LANGUAGES
from tests.support.peers import (
    FakeClient,
    FakeNode,
    Field,
    Work,
    answer,
    field,
    heartbeat,
    registration,
    result_of,
    stay_silent,
)
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import PATIENCE_S, lateness, until

REFRESH_MS = 2_000
COUNT = 3
# Of a node that says nothing about it.
SLOTS = 4


class Place:
    """One of several instances, and its callers."""

    def __init__(self, scheduler: Scheduler, store: Store, peers: Field) -> None:
        self.scheduler = scheduler
        self.store = store
        self.peers = peers

    async def add(self, kind: KeyKind, **about: Any) -> MadeKey:
        key = made_key(kind, **about)
        await self.scheduler.credentials.add(key.credential)
        return key

    async def knows(self, *keys: MadeKey) -> None:
        book = self.scheduler.credentials
        await until(lambda: all(book.find(key.credential.id) for key in keys))

    async def revoke(self, key: MadeKey) -> None:
        await self.scheduler.credentials.end(key.credential.id, at_ms=1)

    async def node(self, key: MadeKey, work: Work = answer, **said: Any) -> FakeNode:
        socket = await self.peers.socket(f"/ws/node?access_token={key.text}")
        await socket.send(registration(**said))
        node = FakeNode(socket, (await socket.next("node_register_ack"))["node_id"], work)
        await socket.send(heartbeat(node.node_id))
        self.peers.nodes.append(node)
        return node

    async def client(self, key: MadeKey, **init: Any) -> FakeClient:
        client = FakeClient(await self.peers.socket(f"/ws/session?access_token={key.text}"))
        await client.init(**init)
        assert client.session_id, client.ack
        return client

    async def call(self, key: MadeKey) -> tuple[int, Any]:
        """A job over HTTP."""
        body = {"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAEAAQABAAE="}
        return await self.peers.ask("POST", "/v1/dispatch/f2f", json=body, headers=key.header)

    async def status(self, key: MadeKey, path: str) -> int:
        return (await self.peers.ask("GET", path, headers=key.header))[0]


@asynccontextmanager
async def places(server: RedisProcess, folder: Path, count: int = COUNT, **changes: Any) -> AsyncIterator[list[Place]]:
    """Instances on one Redis. Their keys file has an administrator, so that they start."""
    admin = made_key(KeyKind.OPERATOR, role=Role.ADMIN)
    async with AsyncExitStack() as stack:
        found = []
        for number in range(count):
            own = folder / f"i{number}"
            own.mkdir()
            guarded = guarded_scheduler(
                server.url,
                own,
                admin,
                **{"auth__refresh_ms": REFRESH_MS, "server__instance_id": f"i{number}"} | changes,
            )
            scheduler, store = await stack.enter_async_context(guarded)
            found.append(Place(scheduler, store, await stack.enter_async_context(field(scheduler.port))))
        yield found


async def _streamed(response: aiohttp.ClientResponse) -> None:
    with pytest.raises(aiohttp.ClientPayloadError):
        await response.read()


async def _closed(place: Place, client: MadeKey, node: MadeKey, viewer: MadeKey, stack: AsyncExitStack) -> list[Any]:
    """What these keys hold open at an instance, each as something that is over when it is closed."""
    talking, working = await place.client(client), await place.node(node)
    http = await stack.enter_async_context(aiohttp.ClientSession(f"http://127.0.0.1:{place.peers.port}"))
    watching = await stack.enter_async_context(http.get("/v1/watch", headers=viewer.header))
    assert watching.status == 200
    polled = LANGUAGES | {"node_id": f"node-{place.peers.port}", "boot_id": "b"}
    status, body = await place.peers.ask("POST", "/v1/node/register", json=polled, headers=node.header)
    assert status == 200, body
    nodes = place.scheduler._http_nodes
    assert len(nodes) == 1
    return [
        talking.socket.closed(),
        working.socket.closed(),
        _streamed(watching),
        until(lambda: not len(nodes)),
    ]


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "signal lost"])
async def test_47_a_revoked_key_is_closed_at_three_instances(
    server: RedisProcess, tmp_path: Path, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All sockets, streams and HTTP nodes: within a second, and without the signal within `auth.refresh_ms` more."""
    async with places(server, tmp_path) as all_places, AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
        first = all_places[0]
        client, node, stays = (
            await first.add(KeyKind.CLIENT),
            await first.add(KeyKind.NODE),
            await first.add(KeyKind.CLIENT),
        )
        viewer = await first.add(KeyKind.OPERATOR, role=Role.VIEWER)
        ends, others = [], []
        for place in all_places:
            await place.knows(client, node, stays, viewer)
            ends += await _closed(place, client, node, viewer, stack)
            others.append(await place.client(stays))
        if not is_told:
            for place in all_places:
                monkeypatch.setattr(place.scheduler.credentials, "_publish", lambda _: None)
        took: list[float] = []
        revoked_at = monotonic()

        async def timed(end: Any) -> Any:
            closed = await end
            took.append(monotonic() - revoked_at)
            return closed

        async with lateness() as late:
            following = asyncio.gather(*map(timed, ends))
            for key in (client, node, viewer):
                await first.revoke(key)
            codes = await following
        assert [code for code in codes if isinstance(code, int) and code > 1] == [4004] * (2 * COUNT)
        print(f"closed after {max(took):.3f} s (woke {late.most_s:.3f} s late at most)")
        limit_s = 1.0 if is_told else REFRESH_MS / 1000 + 1.0
        # What a busy machine adds to each step of it is not the scheduler's.
        assert max(took) <= limit_s + 10 * late.most_s + 1.0
        for place, other in zip(all_places, others, strict=True):
            assert not other.socket.socket.closed
            assert await place.status(client, "/ws/session") == 401
            assert await place.status(node, "/ws/node") == 401
            assert await place.status(viewer, "/v1/nodes") == 401


async def test_47_sessions_in_their_grace_period_are_dropped_with_what_is_parked(
    server: RedisProcess, tmp_path: Path
) -> None:
    async with places(server, tmp_path) as all_places:
        first = all_places[0]
        gone, stays, node_key = [await first.add(kind) for kind in (KeyKind.CLIENT, KeyKind.CLIENT, KeyKind.NODE)]
        for place in all_places:
            await place.knows(gone, stays, node_key)
        nodes = [await place.node(node_key, stay_silent) for place in all_places]
        sessions = {}
        for place in all_places:
            for key in (gone, stays):
                client = await place.client(key)
                await client.utterance(0)
                sessions[place, key.text] = client
        await until(lambda: sum(len(node.jobs) for node in nodes) == 2 * COUNT)
        for (place, _), client in sessions.items():
            client.socket.cut()
            session = place.scheduler._intake._sessions.find(client.session_id)
            assert session is not None
            await until(partial(_has_left, session))
        for node in nodes:
            for job in node.jobs:
                await answer(node, job)
        parked = {client.session_id: first.store.keys.parked(client.session_id) for client in sessions.values()}
        await until(lambda: all(server.command("EXISTS", name) == b":1\r\n" for name in parked.values()))
        await first.revoke(gone)
        for (place, shown), client in sessions.items():
            found = place.scheduler._intake._sessions
            name, record = parked[client.session_id], first.store.keys.session(client.session_id)
            if shown == gone.text:
                await until(partial(_is_unknown, found, client.session_id))
                for key_name in (name, record):
                    await until(partial(_is_missing, server, key_name))
            else:
                assert found.find(client.session_id) is not None
                assert server.command("EXISTS", name) == b":1\r\n"


async def test_47_running_and_waiting_jobs_of_a_revoked_client_are_cancelled(
    server: RedisProcess, tmp_path: Path
) -> None:
    """Of sessions and of HTTP calls, at every instance. Others keep theirs, and get the slots."""
    async with places(server, tmp_path, dispatch__queue_wait_ms=60_000) as all_places:
        first = all_places[0]
        gone, stays, node_key = [await first.add(kind) for kind in (KeyKind.SERVICE, KeyKind.SERVICE, KeyKind.NODE)]
        for place in all_places:
            await place.knows(gone, stays, node_key)
        _, second, third = all_places
        node = await first.node(node_key, stay_silent)
        talking, other = await second.client(gone), await second.client(stays)
        for client in (talking, other):
            await client.utterance(0)
        placed = [await third.call(key) for key in (gone, stays)]
        assert [status for status, _ in placed] == [200, 200]
        await until(lambda: len(node.jobs) == SLOTS)
        for client in (talking, other):
            await client.utterance(1)
        waiting = asyncio.create_task(third.call(gone))
        await until(lambda: len(second.scheduler._waiting) == 2 and len(third.scheduler._waiting) == 1)
        await first.revoke(gone)
        # One that gets a slot which was freed elsewhere, before its own instance knows, is cancelled there.
        status, body = await waiting
        assert status == 200 or (status, body["detail"]) == (503, "cancelled"), body
        most = SLOTS + 2

        def cancelled() -> list[str]:
            return [one["job_id"] for one in node.socket.of_type("job_cancel")]

        await until(lambda: {placed[0][1]["job_id"].partition(".")[0]} <= set(cancelled()))
        # The slots go to who is still wanted.
        await until(lambda: sum(job["session_id"] == other.known_as(node.node_id) for job in node.jobs) == 2)
        await until(lambda: not any(map(len, (second.scheduler._waiting, third.scheduler._waiting))))
        await until(lambda: len(node.jobs) - len(cancelled()) == 3)
        assert len(node.jobs) <= most
        for job in node.jobs:
            await answer(node, job)
        assert [(await other.outcome())["type"] for _ in range(2)] == ["translation_result"] * 2
        path = f"/v1/jobs/{placed[1][1]['job_id']}/result?wait_ms=5000"
        _, result = await third.peers.ask("GET", path, headers=stays.header)
        assert result["state"] == "DONE"
        await until(lambda: not second.scheduler._intake.job_count)
        for job_id in cancelled():
            record = await first.store.jobs.find(job_id)
            assert record is not None
            assert record.state == "CANCELLED"


async def test_47_a_session_that_opens_while_its_key_is_revoked_is_dropped(
    server: RedisProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with places(server, tmp_path, 1) as (only,):
        key = await only.add(KeyKind.CLIENT)
        openings = only.scheduler._intake.openings
        is_opening, may_open, write = asyncio.Event(), asyncio.Event(), openings.records.open

        async def slowly(*arguments: Any) -> bool:
            is_opening.set()
            await may_open.wait()
            return await write(*arguments)

        monkeypatch.setattr(openings.records, "open", slowly)
        socket = await only.peers.socket(f"/ws/session?access_token={key.text}")
        await socket.send(
            {"type": "session_init", "client_version": "1", "platform": "web", "src_lang": "en", "tgt_lang": "zh"}
        )
        await is_opening.wait()
        await only.revoke(key)
        may_open.set()
        assert await socket.closed() == 4004
        await until(lambda: not len(openings.sessions))


@pytest.fixture
def own_server() -> Iterator[RedisProcess]:
    """One that may be killed."""
    server = RedisProcess(str(binaries()["valkey"]))
    yield server
    server.stop()


async def test_48_nothing_is_revoked_while_redis_is_away_and_a_repeat_revokes(
    own_server: RedisProcess, tmp_path: Path
) -> None:
    async with places(own_server, tmp_path, 1, redis__timeout_ms=500) as (only,):
        key = await only.add(KeyKind.CLIENT)
        client = await only.client(key)
        own_server.kill()
        with pytest.raises(RedisAway):
            await only.revoke(key)
        assert not client.socket.socket.closed
        own_server.start()

        async def is_revoked() -> bool:
            try:
                await only.revoke(key)
            except RedisAway:
                return False
            return True

        await until(is_revoked)
        assert await client.socket.closed() == 4004
        assert await only.status(key, "/ws/session") == 401


async def test_49_an_emptied_redis_lets_nobody_in_and_locks_nobody_out(server: RedisProcess, tmp_path: Path) -> None:
    async with places(server, tmp_path) as all_places:
        first = all_places[0]
        gone, stays = await first.add(KeyKind.CLIENT), await first.add(KeyKind.CLIENT)
        operator = await first.add(KeyKind.OPERATOR, role=Role.OPERATOR)
        for place in all_places:
            await place.knows(gone, stays, operator)
        talking = await all_places[2].client(stays)
        await first.revoke(gone)
        books = [place.scheduler.credentials for place in all_places]
        await until(lambda: all(_is_ended(book.find(gone.credential.id)) for book in books))
        server.flush()
        for _ in range(2):
            # At once, and when all is written back.
            for place in all_places:
                assert await place.status(gone, "/ws/session") == 401
                assert await place.status(operator, "/v1/nodes") == 200
                await (await place.client(stays)).socket.close()
            assert await first.status(made_key(KeyKind.OPERATOR, role=Role.ADMIN), "/v1/nodes") == 401
            await until(lambda: _has_all(first.store, gone, stays, operator))
        stored = await first.store.credentials.read()
        assert stored.credentials[gone.credential.id].revoked_ms
        assert not talking.socket.socket.closed
        # An instance that starts now reads what was written back.
        (tmp_path / "later").mkdir()
        async with places(server, tmp_path / "later", 1, server__instance_id="later") as (later,):
            assert await later.status(gone, "/ws/session") == 401
            assert await later.status(operator, "/v1/nodes") == 200


def _has_left(session: Session) -> bool:
    return session.peer is None


def _is_unknown(sessions: Sessions, session_id: str) -> bool:
    return sessions.find(session_id) is None


def _is_missing(server: RedisProcess, key_name: str) -> bool:
    return server.command("EXISTS", key_name) == b":0\r\n"


def _is_ended(found: Credential | None) -> bool:
    return found is not None and found.revoked_ms > 0


async def _has_all(store: Store, *keys: MadeKey) -> bool:
    stored = await store.credentials.read()
    return all(key.credential.id in stored.credentials for key in keys)


@pytest.mark.parametrize("count", [1, 2], ids=["one instance", "two instances"])
async def test_89_jobs_of_a_revoked_node_end_elsewhere_once(server: RedisProcess, tmp_path: Path, count: int) -> None:
    async with places(server, tmp_path, count) as all_places:
        first, last = all_places[0], all_places[-1]
        key, bad, good = [await first.add(kind) for kind in (KeyKind.CLIENT, KeyKind.NODE, KeyKind.NODE)]
        for place in all_places:
            await place.knows(key, bad, good)
        revoked = await last.node(bad, stay_silent)
        client = await first.client(key)
        for index in range(3):
            await client.utterance(index)
        await until(lambda: len(revoked.jobs) == 3)
        helper = await first.node(good)
        await first.revoke(bad)
        outcomes = [await client.outcome() for _ in range(3)]
        assert [(one["type"], one["utterance_index"]) for one in outcomes] == [
            ("translation_result", n) for n in range(3)
        ]
        assert await revoked.socket.closed() == 4004
        assert len(helper.jobs) == 3
        # What it says afterwards is heard by nobody, and it does not come back.
        with pytest.raises(aiohttp.ClientConnectionError):
            await revoked.socket.send(result_of(revoked.jobs[0], revoked.node_id))
        assert await last.status(bad, "/ws/node") == 401
        await until(lambda: last.scheduler._connected.links.find(revoked.node_id) is None)
        assert len(client.socket.of_type("translation_result")) == 3
