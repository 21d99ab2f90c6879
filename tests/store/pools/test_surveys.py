"""Why each node would not be taken."""

from lingua_scheduler.domain.pools.candidates import Candidate, CandidateVerdict
from lingua_scheduler.store.pools.surveys import MEMBERS_MAX, OTHERS_MAX
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.fleet import POOL, dispatch, entry, join, order

BACK = "zh:en:speech"
TEXT = "en:zh:text"


async def verdicts(store: Store, *pools: str, excluded: tuple[str, ...] = ()) -> dict[str, Candidate]:
    return {one.node_id: one for one in await store.surveys.look(0, pools or (POOL,), excluded)}


async def test_every_reason_is_told(store: Store, clock: Clock) -> None:
    await join(store, entry("stale", alive_ms=1_000))
    clock.pass_ms(1_000)
    await join(store, entry("full", max_jobs=1))
    await dispatch(store, order(1))
    for node in ("free", "tried", "overloaded", "drained", "quarantined", "speechless"):
        await join(store, entry(node, takes_jobs=node != "overloaded"))
    await join(store, entry("elsewhere", pools=frozenset({"fr:de:speech"})))
    await store.nodes.drain("drained")
    sick = store.keys.shard(0).sick
    await store.line.call("ZADD", sick, clock.now_ms + 5_000, "quarantined", clock.now_ms + 7_000, "speechless tts")
    await store.line.call("ZADD", sick, clock.now_ms, "free", clock.now_ms - 1, "free asr")  # over
    found = await verdicts(store, excluded=("tried",))
    assert {node: one.verdict for node, one in found.items()} == {
        "stale": CandidateVerdict.STALE,
        "full": CandidateVerdict.FULL,
        "free": CandidateVerdict.FREE,
        "tried": CandidateVerdict.EXCLUDED,
        "overloaded": CandidateVerdict.NOT_TAKING_WORK,
        "drained": CandidateVerdict.DRAINING,
        "quarantined": CandidateVerdict.QUARANTINED,
        "speechless": CandidateVerdict.UNAVAILABLE,
        "elsewhere": CandidateVerdict.NOT_IN_POOL,
    }
    assert (found["full"].held, found["full"].limit, found["full"].in_words()) == (1, 1, "1 of 1 slots taken")
    assert found["quarantined"].in_words() == "quarantined after failures, for 5 s more"
    assert found["speechless"].in_words() == "its tts is unavailable for 7 s more"


async def test_a_service_that_a_job_does_not_need_does_not_matter(store: Store, clock: Clock) -> None:
    await join(store, entry("n1", pools=frozenset({POOL, TEXT})))
    await store.line.call("ZADD", store.keys.shard(0).sick, clock.now_ms + 5_000, "n1 tts")
    assert (await verdicts(store, POOL))["n1"].verdict is CandidateVerdict.UNAVAILABLE
    assert (await verdicts(store, TEXT))["n1"].verdict is CandidateVerdict.FREE


async def test_a_node_that_serves_one_direction_only_is_not_in_the_pool(store: Store) -> None:
    await join(store, entry("one-way"))
    await join(store, entry("both", pools=frozenset({POOL, BACK})))
    found = await verdicts(store, POOL, BACK)
    assert (found["one-way"].verdict, found["both"].verdict) == (CandidateVerdict.NOT_IN_POOL, CandidateVerdict.FREE)


async def test_a_look_is_bounded_and_changes_nothing(store: Store) -> None:
    for i in range(MEMBERS_MAX + 5):
        await join(store, entry(f"member{i}"))
    for i in range(OTHERS_MAX + 5):
        await join(store, entry(f"other{i}", pools=frozenset()))
    before = await store.line.call("ZRANGE", store.keys.shard(0).free, 0, -1, "WITHSCORES")
    found = await verdicts(store)
    assert sum(one.verdict is CandidateVerdict.FREE for one in found.values()) == MEMBERS_MAX
    assert sum(one.verdict is CandidateVerdict.NOT_IN_POOL for one in found.values()) == OTHERS_MAX
    assert await store.line.call("ZRANGE", store.keys.shard(0).free, 0, -1, "WITHSCORES") == before
