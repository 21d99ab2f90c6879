"""Pairing codes in Redis: each is taken once, by one of those who race for it, and expires."""

import asyncio

from lingua_scheduler.store.store import Store
from lingua_sdk.domain.pairing import CODE_MS, Pairing, digest_of_code

CODE, PAIRING = "ABCD2345", Pairing("acme", "gpu-7")


async def test_a_code_is_taken_once_also_by_many_at_once(store: Store) -> None:
    assert await store.pairings.add(CODE, PAIRING)
    found = await asyncio.gather(*(store.pairings.take(CODE) for _ in range(20)))
    assert [one for one in found if one is not None] == [PAIRING]
    assert await store.pairings.take(CODE) is None


async def test_a_code_is_kept_as_a_digest_and_expires(store: Store) -> None:
    await store.pairings.add(CODE, PAIRING)
    key = store.keys.pairing(digest_of_code(CODE))
    assert 0 < await store.line.call("PTTL", key) <= CODE_MS
    assert CODE not in key
    assert CODE not in await store.line.call("GET", key)


async def test_a_code_that_there_is_already_is_not_given_away_again(store: Store) -> None:
    await store.pairings.add(CODE, PAIRING)
    assert not await store.pairings.add(CODE, Pairing("beta", "gpu-8"))
    assert await store.pairings.take(CODE) == PAIRING


async def test_what_cannot_be_read_is_no_pairing(store: Store) -> None:
    await store.line.call("SET", store.keys.pairing(digest_of_code(CODE)), "gpu-7")
    assert await store.pairings.take(CODE) is None
