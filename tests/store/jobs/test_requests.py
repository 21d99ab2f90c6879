"""Request ids in Redis: one claim at a time, one job for all repeats, and nobody wakes up to run it twice."""

import asyncio
from collections import Counter

import pytest

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.requests import BindOutcome, Request, RequestClaimOutcome, RequestReleaseOutcome
from lingua_scheduler.store.jobs.requests import ClaimedRequest, RequestClaim
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.servers import RedisProcess

CLAIM_MS = 15_000
KEEP_MS = 600_000
REQUEST = Request("tenant", "s-00000001", "r-1")
JOB = Attempt("job-0-a", 1, "n1", 0)


def claim_of(token: str, *, request: Request = REQUEST, payload: str = "p") -> RequestClaim:
    return RequestClaim(request, token, f"i-{token}", payload, f"key-{token}")


async def claim(store: Store, claim: RequestClaim) -> ClaimedRequest:
    return await store.requests.claim(claim, claim_ms=CLAIM_MS, keep_ms=KEEP_MS)


async def bind(store: Store, claim: RequestClaim, attempt: Attempt = JOB) -> BindOutcome:
    return await store.requests.bind(claim, attempt, keep_ms=KEEP_MS)


async def test_the_first_caller_claims_and_the_second_waits(store: Store, clock: Clock) -> None:
    assert (await claim(store, claim_of("a"))).outcome is RequestClaimOutcome.CLAIMED
    clock.pass_ms(5_000)
    assert await claim(store, claim_of("b")) == ClaimedRequest(RequestClaimOutcome.PENDING, left_ms=10_000)


async def test_a_repeat_is_answered_with_the_job_of_the_first(store: Store) -> None:
    await claim(store, claim_of("a"))
    assert await bind(store, claim_of("a")) is BindOutcome.BOUND
    assert await claim(store, claim_of("b")) == ClaimedRequest(
        RequestClaimOutcome.BOUND, "job-0-a", "n1", 1, "key-a", "a"
    )


async def test_a_repeat_learns_of_the_latest_attempt(store: Store) -> None:
    await claim(store, claim_of("a"))
    await bind(store, claim_of("a"))
    await bind(store, claim_of("a"), Attempt("job-0-a", 2, "n2", 0))
    assert await claim(store, claim_of("b")) == ClaimedRequest(
        RequestClaimOutcome.BOUND, "job-0-a", "n2", 2, "key-a", "a"
    )


async def test_the_same_id_for_something_else_is_a_conflict(store: Store) -> None:
    await claim(store, claim_of("a"))
    assert (await claim(store, claim_of("b", payload="other"))).outcome is RequestClaimOutcome.CONFLICT
    await bind(store, claim_of("a"))
    assert (await claim(store, claim_of("b", payload="other"))).outcome is RequestClaimOutcome.CONFLICT


@pytest.mark.parametrize(
    "other",
    [
        Request("another", "s-00000001", "r-1"),
        Request("tenant", "s-00000002", "r-1"),
        Request("tenant", "s-00000001", "r-2"),
        Request("", "tenants-00000001", "r-1"),
        Request("tenants", "-00000001", "r-1"),
    ],
)
async def test_an_id_means_nothing_outside_its_tenant_and_session(store: Store, other: Request) -> None:
    await claim(store, claim_of("a"))
    await bind(store, claim_of("a"))
    assert (await claim(store, claim_of("b", request=other))).outcome is RequestClaimOutcome.CLAIMED


async def test_a_claim_that_lapsed_is_taken_over(store: Store, clock: Clock) -> None:
    await claim(store, claim_of("dead"))
    clock.pass_ms(CLAIM_MS - 1)
    assert await claim(store, claim_of("b")) == ClaimedRequest(RequestClaimOutcome.PENDING, left_ms=1)
    clock.pass_ms(1)
    assert (await claim(store, claim_of("b"))).outcome is RequestClaimOutcome.CLAIMED


async def test_a_lapsed_claim_may_be_taken_over_for_something_else(store: Store, clock: Clock) -> None:
    await claim(store, claim_of("dead"))
    clock.pass_ms(CLAIM_MS)
    assert (await claim(store, claim_of("b", payload="other"))).outcome is RequestClaimOutcome.CLAIMED


async def test_who_was_frozen_finds_the_claim_taken_and_cannot_bind(store: Store, clock: Clock) -> None:
    await claim(store, claim_of("frozen"))
    clock.pass_ms(CLAIM_MS)
    await claim(store, claim_of("b"))
    assert await bind(store, claim_of("frozen")) is BindOutcome.LOST
    assert await store.requests.release(claim_of("frozen")) is RequestReleaseOutcome.LOST
    assert await bind(store, claim_of("b"), Attempt("job-0-b", 1, "n2", 0)) is BindOutcome.BOUND
    assert await bind(store, claim_of("frozen")) is BindOutcome.LOST
    assert (await claim(store, claim_of("frozen"))).job_id == "job-0-b"


async def test_a_lapsed_claim_that_nobody_took_can_still_be_bound(store: Store, clock: Clock) -> None:
    await claim(store, claim_of("slow"))
    clock.pass_ms(CLAIM_MS * 2)
    assert await bind(store, claim_of("slow")) is BindOutcome.BOUND
    assert (await claim(store, claim_of("b"))).outcome is RequestClaimOutcome.BOUND


async def test_a_claim_that_is_gone_cannot_be_bound(store: Store) -> None:
    assert await bind(store, claim_of("a")) is BindOutcome.LOST
    assert (await claim(store, claim_of("b"))).outcome is RequestClaimOutcome.CLAIMED


async def test_a_bound_request_is_remembered_and_then_forgotten(store: Store, clock: Clock) -> None:
    await claim(store, claim_of("a"))
    await bind(store, claim_of("a"))
    clock.pass_ms(KEEP_MS - 1)
    assert (await claim(store, claim_of("b"))).outcome is RequestClaimOutcome.BOUND
    clock.pass_ms(1)
    assert (await claim(store, claim_of("b"))).outcome is RequestClaimOutcome.CLAIMED
    assert await bind(store, claim_of("a")) is BindOutcome.LOST


async def test_a_released_request_may_be_tried_anew(store: Store) -> None:
    await claim(store, claim_of("a"))
    await bind(store, claim_of("a"))
    assert await store.requests.release(claim_of("a")) is RequestReleaseOutcome.RELEASED
    assert await store.requests.release(claim_of("a")) is RequestReleaseOutcome.LOST
    assert (await claim(store, claim_of("b"))).outcome is RequestClaimOutcome.CLAIMED


async def test_a_call_whose_answer_was_lost_may_be_made_again(store: Store) -> None:
    for _ in range(2):
        assert (await claim(store, claim_of("a"))).outcome is RequestClaimOutcome.CLAIMED
    for _ in range(2):
        assert await bind(store, claim_of("a")) is BindOutcome.BOUND
    assert (await claim(store, claim_of("a"))).job_id == "job-0-a"


async def test_requests_leave_redis_by_themselves(store: Store) -> None:
    key = store.keys.request(*REQUEST)
    await claim(store, claim_of("a"))
    assert 0 < await store.line.call("PTTL", key) <= KEEP_MS
    await bind(store, claim_of("a"))
    assert 0 < await store.line.call("PTTL", key) <= KEEP_MS


async def test_a_hundred_callers_of_three_stores_get_one_job(server: RedisProcess) -> None:
    stores = [Store(server.url, key_prefix="test:v1") for _ in range(3)]
    await asyncio.gather(*(store.open() for store in stores))
    bound: list[str] = []

    async def call(number: int) -> str:
        store, mine = stores[number % 3], claim_of(f"t{number}")
        while True:
            claimed = await claim(store, mine)
            match claimed.outcome:
                case RequestClaimOutcome.CLAIMED:
                    if await bind(store, mine, Attempt(f"job-0-{number}", 1, "n1", 0)) is BindOutcome.BOUND:
                        bound.append(f"job-0-{number}")
                case RequestClaimOutcome.BOUND:
                    return claimed.job_id

    answers = Counter(await asyncio.gather(*map(call, range(100))))
    assert answers == {bound[0]: 100}
    assert len(bound) == 1
    await asyncio.gather(*(store.close() for store in stores))
