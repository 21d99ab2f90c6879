"""`lingua node --join` as a process: it joins, translates, and is the same node at its next start."""

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.access.principals import LOCAL
from lingua_scheduler.domain.access.scopes import Role
from lingua_sdk.client import Client, Translation
from lingua_sdk.domain.key_texts import KeyKind
from lingua_sdk.joining import JoinString
from lingua_sdk.processes import stop
from tests.support.access import MadeKey, guarded_scheduler, made_key
from tests.support.forked import fork_command
from tests.support.keyed import CLEAN, ended
from tests.support.servers import RedisProcess
from tests.support.waiting import PATIENCE_S, until

NOT_ALLOWED, SETTINGS, SCHEDULER = 8, 2, 5
SERVICE = made_key(KeyKind.SERVICE)
ADMIN = made_key(KeyKind.OPERATOR, role=Role.ADMIN, tenant="*")


class Place:
    def __init__(self, scheduler: Scheduler, folder: Path) -> None:
        self.scheduler = scheduler
        self.url = f"ws://127.0.0.1:{scheduler.port}"
        self.home = {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
        self.states = folder / "state" / "lingua" / "node"

    async def string(self, **about: object) -> tuple[str, MadeKey]:
        key = made_key(KeyKind.ENROLMENT, **{"max_nodes": 1} | about)
        await self.scheduler.credentials.add(key.credential)
        return str(JoinString.parse(key.text, self.url)), key

    @asynccontextmanager
    async def node(self, *arguments: str, **environment: str) -> AsyncIterator[list[str]]:
        """`lingua node`; its words so far."""
        clean = {name: value for name, value in os.environ.items() if name not in CLEAN}
        process = await fork_command(
            *("node", "--engine", "sim", "--delay-ms", "1", *arguments),
            stdout=DEVNULL,
            stderr=PIPE,
            environment=clean | self.home | environment,
        )
        said: list[str] = []

        async def listen() -> None:
            assert process.stderr is not None
            async for line in process.stderr:
                said.append(line.decode())

        listening = asyncio.create_task(listen())
        try:
            yield said
        finally:
            await stop(process, 10.0)
            await listening

    async def connected(self) -> list[str]:
        return [view.node_id for view in await self.scheduler._store.node_views.all()]


@pytest.fixture
async def place(server: RedisProcess, tmp_path: Path) -> AsyncIterator[Place]:
    async with guarded_scheduler(server.url, tmp_path, SERVICE, ADMIN) as (scheduler, _):
        yield Place(scheduler, tmp_path)


async def translated(place: Place) -> str:
    async with Client(place.url, "en", "zh", token=SERVICE.text) as client:
        await client.send(b"\x00\x01" * 8000)
        async with asyncio.timeout(PATIENCE_S):
            result = await anext(client.results())
    assert isinstance(result, Translation), result
    return result.text


async def test_a_node_joins_with_one_string_translates_and_comes_back_without_it(place: Place) -> None:
    string, key = await place.string()
    async with place.node("--join", string) as said:
        await until(place.connected)
        (node_id,) = await place.connected()
        assert await translated(place)
    assert any(f"as {node_id}" in line for line in said)
    assert key.text not in "".join(said)
    assert string not in "".join(said)
    await until(lambda: _is_gone(place))
    async with place.node("--url", place.url):
        await until(place.connected)
        assert await place.connected() == [node_id]
        assert await translated(place)
    await until(lambda: _is_gone(place))
    # The string is used up, and in the unit file it may stay.
    async with place.node(LINGUA_JOIN=string):
        await until(place.connected)
        assert await place.connected() == [node_id]


async def _is_gone(place: Place) -> bool:
    return not await place.connected()


async def test_a_pending_node_waits_and_works_when_it_is_approved(place: Place) -> None:
    string, _ = await place.string(needs_approval=True)
    async with place.node("--join", string, "--id", "gpu-7") as said:
        await until(lambda: any("node waiting" in line for line in said))
        assert any("lingua nodes approve gpu-7" in line for line in said)
        assert await place.connected() == []
        await place.scheduler._access.enrolment.approve(LOCAL, "gpu-7")
        await until(place.connected, within_s=20)
        assert await translated(place)


async def test_a_banned_node_stops_and_says_why(place: Place) -> None:
    string, _ = await place.string()
    async with place.node("--join", string, "--id", "gpu-7") as said:
        await until(place.connected)
        await place.scheduler._access.enrolment.ban(LOCAL, "gpu-7")
        await until(lambda: any("to join again" in line for line in said))
    code, text = await ended("node", "--engine", "sim", "--url", place.url, "--id", "gpu-7", **place.home)
    assert code == NOT_ALLOWED
    assert "banned" in text


async def test_a_file_may_have_the_string(place: Place, tmp_path: Path) -> None:
    string, _ = await place.string()
    (tmp_path / "join").write_text(string + "\n")
    async with place.node("--join", str(tmp_path / "join")):
        await until(place.connected)


async def test_a_bare_key_goes_with_the_url(place: Place) -> None:
    _, key = await place.string()
    async with place.node("--join", key.text, "--url", place.url):
        await until(place.connected)


async def test_what_cannot_be_joined_is_told(place: Place) -> None:
    string, key = await place.string(revoked_ms=1)
    sim = ("node", "--engine", "sim", "--join")
    for arguments, code, says in (
        ((string,), NOT_ALLOWED, "revoked"),
        (("lingua-join_broken",), SETTINGS, "copy it again"),
        (("no-such-file",), SETTINGS, "not a join string"),
        ((string, "--url", "ws://other.example"), SETTINGS, "leave --url out"),
        ((str(JoinString.parse(key.text, "ws://127.0.0.1:9")),), SCHEDULER, "no scheduler answers"),
    ):
        found, text = await ended(*sim, *arguments, **place.home)
        assert (found, says in text) == (code, True), text
        assert key.text not in text
    assert not place.states.exists()
