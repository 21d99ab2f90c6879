"""Logins and login codes in Redis."""

import asyncio

from lingua_scheduler.domain.access.logins import CODE_MS, Login, digest_of
from lingua_scheduler.store.store import Store

KEY_ID = "k3jPq0aZ81Ty"
DIGEST = digest_of("secret")
LOGIN = Login(id="0123456789abcdef", key_id=KEY_ID, expires_ms=5_000)


async def test_a_login_is_found_until_it_is_removed(store: Store) -> None:
    assert await store.logins.find(DIGEST) is None
    await store.logins.add(DIGEST, LOGIN, 60_000)
    assert await store.logins.find(DIGEST) == LOGIN
    assert 0 < await store.line.call("PTTL", store.keys.login(DIGEST)) <= 60_000
    for _ in range(2):
        await store.logins.remove(DIGEST)
        assert await store.logins.find(DIGEST) is None


async def test_one_that_is_used_lives_on_and_one_that_ended_does_not_come_back(store: Store) -> None:
    await store.logins.add(DIGEST, LOGIN, 60_000)
    assert await store.logins.keep(DIGEST, 600_000)
    assert await store.line.call("PTTL", store.keys.login(DIGEST)) > 60_000
    await store.logins.remove(DIGEST)
    assert not await store.logins.keep(DIGEST, 600_000)
    assert await store.logins.find(DIGEST) is None


async def test_what_cannot_be_read_is_no_login(store: Store) -> None:
    for rubbish in ("", "{}", "[]", '{"id":"x","key_id":"y","expires_ms":1}', "\ud800".encode(errors="replace")):
        await store.line.call("SET", store.keys.login(DIGEST), rubbish)
        assert await store.logins.find(DIGEST) is None, rubbish


async def test_of_racing_callers_one_gets_the_code(store: Store) -> None:
    await store.logins.add_code(DIGEST, KEY_ID)
    assert 0 < await store.line.call("PTTL", store.keys.login_code(DIGEST)) <= CODE_MS
    taken = await asyncio.gather(*(store.logins.take_code(DIGEST) for _ in range(20)))
    assert sorted(taken, key=str) == [None] * 19 + [KEY_ID]
    assert await store.logins.take_code(DIGEST) is None


async def test_of_racing_callers_one_ends_a_login_at_a_provider(store: Store) -> None:
    await store.logins.add_flow(DIGEST)
    taken = await asyncio.gather(*(store.logins.take_flow(DIGEST) for _ in range(20)))
    assert sorted(taken) == [False] * 19 + [True]
    assert not await store.logins.take_flow("unknown")
    # A code is no such login, and the other way round.
    await store.logins.add_code(DIGEST, "k3jPq0aZ81Ty")
    assert not await store.logins.take_flow(DIGEST)
