"""The failure history: filtered, newest first, each once, and nothing unreadable in the way."""

from lingua_scheduler.domain.watching.failures import FailureFilter
from lingua_scheduler.store.store import Store
from tests.domain.watching.test_failures import failure


async def test_failures_are_found_by_what_is_asked(store: Store) -> None:
    await store.failures.add([failure(job_id="j1"), failure(job_id="j2", at_ms=2_000, node_id="n2")], 100, 60_000)
    await store.failures.add([failure(job_id="j3", at_ms=3_000, tgt="fr")], 100, 60_000)

    async def found(*asked: object, limit: int = 10) -> list[str]:
        return [one.job_id for one in await store.failures.latest(FailureFilter(*asked), limit)]  # type: ignore[arg-type]

    assert await found() == ["j3", "j2", "j1"]
    assert await found(limit=2) == ["j3", "j2"]
    assert await found(2_000) == ["j3", "j2"]
    assert await found(0, "n2") == ["j2"]
    assert await found(0, "", "", "en:fr") == ["j3"]


async def test_what_was_written_twice_is_found_once(store: Store) -> None:
    for _ in range(2):
        await store.failures.add([failure()], 100, 60_000)
    assert await store.failures.latest(FailureFilter(), 10) == [failure()]


async def test_an_entry_of_another_shape_is_skipped(store: Store) -> None:
    await store.line.call("XADD", store.keys.failures, "*", "entry", '{"job_id": 7}')
    await store.failures.add([failure()], 100, 60_000)
    assert await store.failures.latest(FailureFilter(), 10) == [failure()]
    assert store.unreadable.lately == ["failures"]
