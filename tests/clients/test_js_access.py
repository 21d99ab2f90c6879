"""Keys and tokens of the JavaScript client, at a real scheduler that needs them."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.desks import KEYRING
from tests.support.js_client import js_client
from tests.support.peers import Field, field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.tenants import tenants_at
from tests.support.waiting import until


@asynccontextmanager
async def minting(server: RedisProcess) -> AsyncIterator[Field]:
    """A scheduler that makes tokens for callers of this computer, who need no key."""
    async with scheduler_on(server.url, None, KEYRING) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        yield peers


async def minted(peers: Field, ttl_ms: int = 600_000) -> Any:
    status, body = await peers.post("/v1/tokens", {"subject": "ada", "ttl_ms": ttl_ms})
    assert status == 200
    return body


async def test_a_token_is_refreshed_before_it_expires(built: Path, server: RedisProcess) -> None:
    async with minting(server) as peers:
        short, long = await minted(peers, 8_000), await minted(peers)
        async with js_client(built, peers.port, tokens=[short["token"], long["token"]]) as client:
            client.do(read=None)
            await client.next("open")
            # Without a newer one its socket would be closed 25 s after that.
            await until(lambda: time.time() * 1000 > short["expires_ms"] + 27_000)
            client.do(utterance=None, finish=None)
            assert await client.over() == {"over": True}
            assert client.outcomes == [0]
            assert client.of("resumed") == client.of("restarted") == []


async def test_a_revoked_token_ends_the_session_with_the_reason(built: Path, server: RedisProcess) -> None:
    async with minting(server) as peers:
        given = await minted(peers)
        async with js_client(built, peers.port, tokens=[given["token"]]) as client:
            client.do(read=None, utterance=None)
            await client.next("heard")
            told = {"token_id": given["token_id"], "key_id": ""}
            assert (await peers.post("/v1/revocations", told))[0] == 200
            over = await client.over()
            assert (over["error"], over["code"], over["status"]) == ("AccessDenied", "REVOKED", 4004)


async def test_a_token_that_is_refused_is_an_error_that_says_why(built: Path, server: RedisProcess) -> None:
    async with minting(server) as peers:
        given = await minted(peers)
        async with js_client(built, peers.port, token=f"{given['token'][:-4]}AAAA") as client:
            failed = await client.over()
    assert (failed["failed"], failed["status"]) == ("AccessDenied", 401)
    assert failed["message"]


async def test_one_that_has_no_token_reads_where_to_give_one(built: Path, server: RedisProcess, tmp_path: Path) -> None:
    async with tenants_at(server.url, tmp_path) as tenants, js_client(built, tenants.scheduler.port) as client:
        failed = await client.over()
    assert (failed["failed"], failed["status"]) == ("AccessDenied", 401)
    assert 'the option "token"' in failed["message"]
