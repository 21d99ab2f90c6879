"""Everybody comes back at once (55): whoever has a valid credential is let in without a question to Redis."""

import asyncio
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest

from bench.measure import cpu_s
from lingua_scheduler.domain.access.principals import Principal
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.services.access.book import CredentialBook
from lingua_scheduler.services.access.doorkeeper import Doorkeeper
from lingua_scheduler.services.access.signing import signing_key_of
from lingua_scheduler.services.access.tokens import TokenReader
from lingua_scheduler.services.access.visits import Shown, Via, Visit
from lingua_scheduler.setting_sections.access import AuthSettings
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind, KeyText
from tests.support.access import MadeKey, made_key, write_keys_file
from tests.support.field_sockets import url_of
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.tokens import claims, token
from tests.support.waiting import until

RECONNECTS = 10_000
SOCKETS = 200
KEYS = 50
HERE = Visit("127.0.0.1", None, is_local=True)
# Older than the tokens that they sign.
OLD_MS = int(time.time() * 1000) - 60_000


def signing_service() -> MadeKey:
    """A service that signs tokens for its users."""
    key = made_key(KeyKind.SERVICE, created_ms=OLD_MS)
    signing_key = signing_key_of(KeyText.parse(key.text).secret)
    return MadeKey(key.text, msgspec.structs.replace(key.credential, signing_key=signing_key))


def token_by(service: MadeKey, user: int) -> str:
    now_s = int(time.time())
    said = claims(
        iss=None, sub=f"user-{user}", jti=f"t-{user}", iat=now_s, exp=now_s + 600, lingua={"tenant": "default"}
    )
    return token(said, bytes.fromhex(service.credential.signing_key), "HS256", service.credential.id)


def calls_of(server: RedisProcess) -> dict[str, int]:
    """How often each command was called so far, without those that ask for it."""
    told = server.command("INFO", "commandstats").decode()
    found = re.findall(r"^cmdstat_([^:]+):calls=(\d+)", told, re.MULTILINE)
    return {name: int(calls) for name, calls in found if name != "info"}


@pytest.fixture
async def book(store: Store) -> CredentialBook:
    found = CredentialBook(store.credentials, wall_ms=lambda: int(time.time() * 1000), publish=lambda _: None)
    await found.open()
    return found


async def test_55_ten_thousand_who_come_back_cost_no_redis_command(book: CredentialBook, server: RedisProcess) -> None:
    service = signing_service()
    keys = [made_key(KeyKind.CLIENT, created_ms=OLD_MS) for _ in range(KEYS)]
    for key in (service, *keys):
        await book.add(key.credential)
    auth = AuthSettings(mode="required")
    reader = TokenReader(book, auth.audience, auth.max_token_ms)
    keeper = Doorkeeper(book, reader, auth, lambda: int(time.time() * 1000))
    texts = [
        token_by(service, number // 2) if number % 2 else keys[number // 2 % KEYS].text for number in range(RECONNECTS)
    ]
    before = calls_of(server)
    for turn in ("the first time", "again"):
        spent_s = {"key": 0.0, "token": 0.0}
        for number, text in enumerate(texts):
            began_s = time.process_time()
            found = keeper.admit(Shown(text, Via.QUERY), HERE, (Scope.SESSION_OPEN,))
            spent_s["token" if number % 2 else "key"] += time.process_time() - began_s
            assert isinstance(found, Principal), found
        for kind, spent in spent_s.items():
            print(f"a {kind} {turn}: {spent / RECONNECTS * 2 * 1e6:.1f} µs of CPU")
    # What it may have put off would come now.
    for _ in range(20):
        await asyncio.sleep(0)
    assert calls_of(server) == before
    await book.add(made_key(KeyKind.CLIENT).credential)
    assert calls_of(server) != before, "the count sees what is asked"


@asynccontextmanager
async def frozen(server: RedisProcess) -> AsyncIterator[None]:
    server.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.signal(signal.SIGCONT)


async def test_55_whoever_comes_back_is_let_in_while_redis_answers_nothing(
    server: RedisProcess, tmp_path: Path
) -> None:
    service, clients = signing_service(), [made_key(KeyKind.CLIENT) for _ in range(KEYS)]
    keys = write_keys_file(tmp_path / "keys.toml", service, *clients)
    changed = ("auth.mode=required", f"auth.keys_file={keys}", "redis.timeout_ms=60000")
    sets = [word for change in changed for word in ("--set", change)]
    async with serve_process(tmp_path, "--redis-url", server.url, *sets) as serving, AsyncExitStack() as stack:
        port, pid = await until(lambda: serving.port, 60), serving.process.pid
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        async with frozen(server):
            for turn in ("the first time", "again"):
                began_s, opened = cpu_s(pid), []
                for number in range(SOCKETS):
                    text = token_by(service, number) if number % 2 else clients[number // 2 % KEYS].text
                    opened.append(await http.ws_connect(url_of(port, "/ws/session", text)))
                spent_s = cpu_s(pid) - began_s
                print(f"a handshake {turn}: {spent_s / SOCKETS * 1e6:.0f} µs of CPU, the connection included")
                assert not any(socket.closed for socket in opened)
                for socket in opened:
                    socket._response.close()
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await http.ws_connect(url_of(port, "/ws/session", made_key(KeyKind.CLIENT).text))
            assert refused.value.status == 401
