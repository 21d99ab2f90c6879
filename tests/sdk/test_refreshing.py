"""Tokens that expire while a client talks to a real scheduler: refreshed in band, fetched for a resume, refused."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.engines.sim import SimEngine
from lingua_scheduler.services.access import standing
from lingua_sdk import access, client, refreshing
from lingua_sdk.access import Access, AccessDenied, Token, TokenNotFetched
from lingua_sdk.client import Client, Translation
from lingua_sdk.domain.backoff import Backoff
from lingua_sdk.domain.key_texts import KeyKind
from lingua_sdk.node import Abilities, Node
from tests.support.access import made_key
from tests.support.desks import KEYRING, Desk, desk_on
from tests.support.peers import Field, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

SPEECH = bytes(3_200)
NEVER_S = 1e6


class Backend:
    """Of an app: mints tokens at a scheduler that needs no key, and counts them."""

    def __init__(self, scheduler: Scheduler, peers: Field) -> None:
        self.address = f"127.0.0.1:{scheduler.port}"
        self.peers = peers
        self.minted: list[Any] = []
        # Of the tokens to come, the first first; the last is used again.
        self.wishes: list[dict[str, Any]] = [{"ttl_ms": 600_000}]

    async def fetch(self) -> str:
        wish = self.wishes.pop(0) if len(self.wishes) > 1 else self.wishes[0]
        status, body = await self.peers.post("/v1/tokens", {"subject": "ada"} | wish)
        assert status == 200
        self.minted.append(body)
        return str(body["token"])

    def client(self, token: Token = None) -> Client:
        return Client(self.address, "en", "zh", token=self.fetch if token is None else token)


@pytest.fixture(autouse=True)
def _in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LINGUA_KEY", "LINGUA_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(access, "FETCH_PAUSES", Backoff(0.01, 0.02))
    monkeypatch.setattr(refreshing, "MIN_PAUSE_S", 0.2)
    monkeypatch.setattr(standing, "REFRESH_GRACE_MS", 500)


@asynccontextmanager
async def backend_on(server: RedisProcess, **changes: Any) -> AsyncIterator[Backend]:
    async with scheduler_on(server.url, None, KEYRING, **changes) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        yield Backend(scheduler, peers)


async def translated(talker: Client) -> None:
    await talker.utterance(SPEECH)
    assert isinstance(await anext(talker.results()), Translation)


async def until_ended(token: Any, grace_ms: int) -> None:
    """Until a socket that was opened with the token, and shows no newer one, has been closed."""
    await until(lambda: time.time() * 1000 > token["expires_ms"] + grace_ms + 2_000)


async def test_a_client_refreshes_its_token_before_it_expires(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Short of that, its socket would be closed; and on a busy machine it may come a little late.
    monkeypatch.setattr(standing, "REFRESH_GRACE_MS", 3_000)
    async with backend_on(server) as backend:
        backend.wishes = [{"ttl_ms": 2_000}, {"ttl_ms": 2_000}, {"ttl_ms": 600_000}]
        async with backend.client() as talker:
            await until(lambda: len(backend.minted) == 3)
            await until_ended(backend.minted[1], 3_000)
            await translated(talker)
            assert talker.times_resumed == 0
    assert len(backend.minted) == 3


async def test_without_a_refresh_in_time_it_fetches_a_token_and_resumes(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refreshing, "MIN_PAUSE_S", NEVER_S)
    async with backend_on(server) as backend:
        backend.wishes = [{"ttl_ms": 1_000}, {"ttl_ms": 600_000}]
        async with backend.client() as talker:
            before = talker.session_id
            await translated(talker)
            await until(lambda: talker.times_resumed)
            await translated(talker)
            assert (talker.session_id, len(backend.minted)) == (before, 2)


async def test_a_token_without_a_function_ends_the_session_with_advice(server: RedisProcess) -> None:
    async with backend_on(server, auth__expired_grace_ms=500) as backend:
        backend.wishes = [{"ttl_ms": 1_000}]
        async with backend.client(await backend.fetch()) as talker:
            with pytest.raises(AccessDenied, match="pass an async function that fetches") as denied:
                await anext(talker.results())
            assert (denied.value.code, denied.value.status) == ("TOKEN_EXPIRED", 401)
            with pytest.raises(AccessDenied):
                await talker.utterance(SPEECH)


async def test_a_revoked_token_ends_the_session_and_no_other_is_fetched(server: RedisProcess) -> None:
    async with backend_on(server) as backend, backend.client() as talker:
        await translated(talker)
        told = {"token_id": backend.minted[0]["token_id"], "key_id": ""}
        assert (await backend.peers.post("/v1/revocations", told))[0] == 200
        with pytest.raises(AccessDenied, match="REVOKED: the key or token was revoked") as denied:
            await anext(talker.results())
        assert (denied.value.code, denied.value.status) == ("REVOKED", 4004)
        assert len(backend.minted) == 1


async def test_a_newer_token_of_another_user_ends_the_session(server: RedisProcess) -> None:
    async with backend_on(server) as backend:
        backend.wishes = [{"ttl_ms": 2_000}, {"subject": "eve"}]
        async with backend.client() as talker:
            with pytest.raises(AccessDenied, match="did not accept the new token") as denied:
                await anext(talker.results())
            assert (denied.value.code, denied.value.status) == ("UNAUTHENTICATED", 4003)
        assert len(backend.minted) == 2


async def test_a_function_that_fails_for_a_while_costs_nothing(server: RedisProcess) -> None:
    failures = iter([OSError("no route"), KeyError("token"), None, *([ValueError("x")] * 5)])

    async with backend_on(server) as backend:
        backend.wishes = [{"ttl_ms": 2_000}, {"ttl_ms": 600_000}]

        async def fetch() -> str:
            if (error := next(failures, None)) is not None:
                raise error
            return await backend.fetch()

        async with backend.client(fetch) as talker:
            await until(lambda: len(backend.minted) == 2)
            await until_ended(backend.minted[0], 500)
            await translated(talker)


async def test_a_function_that_always_fails_is_asked_a_few_times_and_named(server: RedisProcess) -> None:
    asked: list[int] = []

    async def fetch() -> str:
        asked.append(1)
        raise ConnectionError("the backend is down")

    async with backend_on(server) as backend:
        with pytest.raises(TokenNotFetched, match=r"failed 4 times, last with ConnectionError: the backend is down$"):
            async with backend.client(fetch):
                raise AssertionError
    assert len(asked) == access.FETCH_TRIES == 4


async def test_a_function_that_fails_when_the_session_is_resumed_ends_it(
    server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refreshing, "MIN_PAUSE_S", NEVER_S)
    monkeypatch.setattr(client, "RESUME_WITHIN_S", 1.0)
    async with backend_on(server) as backend:
        backend.wishes = [{"ttl_ms": 1_000}]

        async def fetch() -> str:
            if backend.minted:
                raise ConnectionError("the backend is down")
            return await backend.fetch()

        async with backend.client(fetch) as talker:
            with pytest.raises(TokenNotFetched) as failed:
                await anext(talker.results())
            assert isinstance(failed.value.__cause__, ConnectionError)


async def test_a_function_that_hangs_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "FETCH_WITHIN_S", 0.01)

    async def fetch() -> str:
        await asyncio.Event().wait()
        return ""

    with pytest.raises(TokenNotFetched, match="last with TimeoutError"):
        await Access(fetch).headers("ws://a")


async def test_a_refusal_by_the_scheduler_is_not_repeated() -> None:
    asked: list[int] = []

    async def fetch() -> str:
        asked.append(1)
        raise AccessDenied("PERMISSION_DENIED", "no")

    with pytest.raises(AccessDenied, match=r"^PERMISSION_DENIED: no$"):
        await Access(fetch).headers("ws://a")
    assert len(asked) == 1


def always(text: str) -> Callable[[], Awaitable[str]]:
    async def fetch() -> str:
        return text

    return fetch


async def test_neither_a_key_nor_the_same_token_is_sent_in_band() -> None:
    key = made_key(KeyKind.SERVICE).text
    assert await Access(always(key)).newer() == ""
    same = Access(always("a.b.c"))
    assert (await same.newer(), await same.newer()) == ("a.b.c", "")
    shown = Access(always("a.b.c"))
    await shown.headers("ws://a")
    assert await shown.newer() == ""


@pytest.mark.parametrize(
    ("left_s", "dice", "pause_s"),
    [
        (900, 0, 840),
        (900, 1, 756),
        (120, 0, 90),
        (20, 0, 15),
        # A clock that is wrong makes no storm.
        (3, 0, 5),
        (-400, 0, 30),
    ],
)
def test_when_a_newer_token_is_fetched(
    monkeypatch: pytest.MonkeyPatch, left_s: float, dice: float, pause_s: float
) -> None:
    monkeypatch.setattr(refreshing, "MIN_PAUSE_S", 5.0)
    assert refreshing.pause_s(left_s, dice) == pytest.approx(pause_s)


# Nodes


def node_of(desk: Desk, token: Token, events: list[tuple[str, str]]) -> Node:
    abilities = Abilities(("en",), ("zh",), (), slots=1)
    return Node(
        f"127.0.0.1:{desk.scheduler.port}",
        SimEngine(),
        abilities,
        token=token,
        on_event=lambda event, detail: events.append((event, detail)),
    )


async def test_a_node_whose_key_is_revoked_stops_and_says_so(server: RedisProcess, tmp_path: Path) -> None:
    async with desk_on(server.url, tmp_path) as desk:
        made = await desk.made("admin", kind="node", tenant="acme")
        events: list[tuple[str, str]] = []
        running = asyncio.create_task(node_of(desk, made["key"], events).run())
        await until(lambda: running.done() or any(event == "registered" for event, _ in events))
        assert (await desk.post("admin", f"/v1/keys/{made['about']['id']}/revoke")).status == 200
        with pytest.raises(AccessDenied, match="REVOKED: the key or token was revoked; use another key"):
            await running
        assert len([event for event, _ in events if event == "registered"]) == 1


async def test_a_node_outlives_the_failures_of_its_function_and_names_them(
    server: RedisProcess, tmp_path: Path
) -> None:
    async with desk_on(server.url, tmp_path) as desk:
        made = await desk.made("admin", kind="node", tenant="acme")
        asked: list[int] = []

        async def fetch() -> str:
            asked.append(1)
            if len(asked) <= access.FETCH_TRIES + 1:
                raise OSError("the vault is sealed")
            return str(made["key"])

        events: list[tuple[str, str]] = []
        node = node_of(desk, fetch, events)
        running = asyncio.create_task(node.run())
        await until(lambda: running.done() or any(event == "registered" for event, _ in events))
        told = "the function given as token failed 4 times, last with OSError: the vault is sealed"
        assert ("away", told) in events
        await node.stop(0)
        await running
