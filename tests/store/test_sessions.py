"""Sessions in Redis: owned by one at a time, claimed with their token, gone when nobody needs them."""

import asyncio

from lingua_scheduler.domain.survival import OpenOutcome, OwnedOutcome
from lingua_scheduler.store.store import Store

LONG_MS = 60_000


async def opened(store: Store, keep_ms: int = LONG_MS) -> None:
    assert await store.sessions.open("s-1", "a 1", "token", '{"x":1}', keep_ms) is OpenOutcome.OPENED


async def test_who_claims_a_session_learns_what_was_written_about_it(store: Store) -> None:
    await opened(store)
    await store.sessions.note("s-1", "a 1", "[[0]]", "node-1 3", LONG_MS)
    await store.sessions.park("s-1", "a 1", ["one", "two"], most=10, keep_ms=LONG_MS)
    assert await store.sessions.claim("s-1", "b 1", "token", LONG_MS) == (
        '{"x":1}',
        2,
        "[[0]]",
        "node-1 3",
        ("one", "two"),
    )


async def test_a_wrong_token_claims_nothing(store: Store) -> None:
    await opened(store)
    assert await store.sessions.claim("s-1", "b 1", "tokem", LONG_MS) is None
    assert await store.sessions.claim("s-2", "b 1", "token", LONG_MS) is None
    assert await store.sessions.note("s-1", "a 1", "", "", LONG_MS) is OwnedOutcome.NOTED


async def test_the_token_itself_is_not_in_redis(store: Store) -> None:
    await opened(store)
    assert "token" not in (await store.line.call("HVALS", store.keys.session("s-1")))


async def test_the_former_owner_can_change_nothing_any_more(store: Store) -> None:
    await opened(store)
    await store.sessions.claim("s-1", "b 1", "token", LONG_MS)
    assert await store.sessions.note("s-1", "a 1", "[]", "", LONG_MS) is OwnedOutcome.TAKEN
    assert await store.sessions.park("s-1", "a 1", ["x"], most=10, keep_ms=LONG_MS) is OwnedOutcome.TAKEN
    assert await store.sessions.close("s-1", "a 1") is OwnedOutcome.TAKEN
    assert await store.sessions.claim("s-1", "b 2", "token", LONG_MS) == ('{"x":1}', 3, "", "", ())


async def test_of_many_who_claim_at_once_the_last_owns_it_and_all_are_told_apart(store: Store) -> None:
    await opened(store)
    owners = [f"i-{number} 1" for number in range(20)]
    records = await asyncio.gather(*(store.sessions.claim("s-1", owner, "token", LONG_MS) for owner in owners))
    assert sorted(record.generation for record in records if record) == list(range(2, 22))
    notes = await asyncio.gather(*(store.sessions.note("s-1", owner, "[]", "", LONG_MS) for owner in owners))
    assert notes.count(OwnedOutcome.NOTED) == 1


async def test_what_is_parked_is_bounded_and_said_twice_it_is_there_once(store: Store) -> None:
    await opened(store)
    for frame in ("1", "2", "3", "3", "4"):
        await store.sessions.park("s-1", "a 1", [frame], most=3, keep_ms=LONG_MS)
    record = await store.sessions.claim("s-1", "b 1", "token", LONG_MS)
    assert record is not None
    assert record.outcomes == ("2", "3", "4")


async def test_a_session_that_is_over_leaves_nothing_behind(store: Store) -> None:
    await opened(store)
    await store.sessions.park("s-1", "a 1", ["x"], most=3, keep_ms=LONG_MS)
    assert await store.sessions.close("s-1", "a 1") is OwnedOutcome.CLOSED
    assert await store.line.call("EXISTS", store.keys.session("s-1"), store.keys.parked("s-1")) == 0


async def test_everything_about_a_session_expires_by_itself(store: Store) -> None:
    await opened(store, keep_ms=5_000)
    await store.sessions.park("s-1", "a 1", ["x"], most=3, keep_ms=2_000)
    assert 0 < await store.line.call("PTTL", store.keys.session("s-1")) <= 5_000
    assert 0 < await store.line.call("PTTL", store.keys.parked("s-1")) <= 2_000
