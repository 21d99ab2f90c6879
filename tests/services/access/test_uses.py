"""When keys were last used, as all instances know it."""

from lingua_scheduler.services.access.uses import FORGET_UNKNOWN_MS, KeyUses
from lingua_scheduler.store.store import Store

KNOWN = {"a", "b"}


class Times:
    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


async def test_a_use_is_known_everywhere_once_it_was_shared(store: Store) -> None:
    times = Times()
    one, other = KeyUses(store.credentials, times), KeyUses(store.credentials, times)
    one.note("a")
    assert (one.last_ms("a"), other.last_ms("a")) == (times.now_ms, 0)
    await one.share(KNOWN)
    await other.share(KNOWN)
    assert (other.last_ms("a"), other.last_ms("b")) == (times.now_ms, 0)


async def test_the_latest_use_counts_whoever_writes_last(store: Store) -> None:
    times = Times()
    one, other = KeyUses(store.credentials, times), KeyUses(store.credentials, times)
    one.note("a")
    times.now_ms += 5_000
    other.note("a")
    await other.share(KNOWN)
    await one.share(KNOWN)
    assert await store.credentials.uses() == {"a": times.now_ms}
    assert one.last_ms("a") == other.last_ms("a") == times.now_ms


async def test_only_what_was_used_since_is_written_again(store: Store) -> None:
    times = Times()
    uses = KeyUses(store.credentials, times)
    uses.note("a")
    await uses.share(KNOWN)
    await store.line.call("DEL", store.keys.key_uses)
    await uses.share(KNOWN)
    assert await store.credentials.uses() == {}
    uses.note("b")
    await uses.share(KNOWN)
    assert await store.credentials.uses() == {"b": times.now_ms}


async def test_keys_that_no_longer_exist_are_forgotten_in_time(store: Store) -> None:
    times = Times()
    uses = KeyUses(store.credentials, times)
    uses.note("gone")
    await uses.share(KNOWN)
    times.now_ms += FORGET_UNKNOWN_MS
    await uses.share(KNOWN)
    assert uses.last_ms("gone")
    times.now_ms += 1
    await uses.share(KNOWN)
    assert await store.credentials.uses() == {}
    assert uses.last_ms("gone") == 0


async def test_what_is_no_time_is_skipped(store: Store) -> None:
    await store.line.call("HSET", store.keys.key_uses, "a", "soon", "b", "5")
    assert await store.credentials.uses() == {"b": 5}
    assert "used" in store.unreadable.lately
