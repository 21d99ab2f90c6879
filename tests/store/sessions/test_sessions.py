"""Sessions in Redis: owned by one at a time, claimed with their token, gone when nobody needs them."""

import asyncio

import pytest

from lingua_scheduler.domain.sessions.conversation import MAX_UNDER_WAY
from lingua_scheduler.domain.sessions.handover import OpenOutcome, OwnedOutcome
from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.sessions.sessions import HeldBy, Hold, SessionRecord
from lingua_scheduler.store.store import Store

LONG_MS = 60_000
A = Hold("a 1")


async def opened(store: Store, keep_ms: int = LONG_MS) -> None:
    assert await store.sessions.open("s-1", A, "token", '{"x":1}', keep_ms) is OpenOutcome.OPENED


async def test_who_claims_a_session_learns_what_was_written_about_it(store: Store) -> None:
    await opened(store)
    await store.sessions.note("s-1", A, "[[0]]", "node-1 3", LONG_MS)
    await store.sessions.park("s-1", A, [b"one", b"two"], most=10, keep_ms=LONG_MS)
    assert await store.sessions.claim("s-1", "b 1", "token", LONG_MS) == (
        '{"x":1}',
        2,
        "[[0]]",
        "node-1 3",
        "",
        (b"one", b"two"),
    )


async def test_a_wrong_token_claims_nothing(store: Store) -> None:
    await opened(store)
    assert await store.sessions.claim("s-1", "b 1", "tokem", LONG_MS) is None
    assert await store.sessions.claim("s-2", "b 1", "token", LONG_MS) is None
    assert await store.sessions.note("s-1", A, "", "", LONG_MS) is OwnedOutcome.NOTED


@pytest.mark.parametrize("lost", ["token", "init"])
async def test_a_record_without_what_a_session_needs_is_none(store: Store, lost: str) -> None:
    await opened(store)
    await store.sessions.claim("s-1", "b 1", "token", LONG_MS)
    await store.line.call("HDEL", store.keys.session("s-1"), lost)
    assert await store.sessions.claim("s-1", "b 2", "token", LONG_MS) is None


async def test_a_record_that_has_no_generation_begins_anew(store: Store) -> None:
    await opened(store)
    await store.line.call("HDEL", store.keys.session("s-1"), "generation")
    found = await store.sessions.claim("s-1", "b 1", "token", LONG_MS)
    assert found is not None
    assert (found.init, found.generation) == ('{"x":1}', 2)


async def test_the_token_itself_is_not_in_redis(store: Store) -> None:
    await opened(store)
    assert "token" not in (await store.line.call("HVALS", store.keys.session("s-1")))


async def test_the_former_owner_can_change_nothing_any_more(store: Store) -> None:
    await opened(store)
    await store.sessions.claim("s-1", "b 1", "token", LONG_MS)
    assert await store.sessions.note("s-1", A, "[]", "", LONG_MS) is OwnedOutcome.TAKEN
    assert await store.sessions.park("s-1", A, [b"x"], most=10, keep_ms=LONG_MS) is OwnedOutcome.TAKEN
    assert await store.sessions.close("s-1", A, keep_ms=LONG_MS) is OwnedOutcome.TAKEN
    assert await store.sessions.claim("s-1", "b 2", "token", LONG_MS) == ('{"x":1}', 3, "", "", "", ())


async def test_of_many_who_claim_at_once_the_last_owns_it_and_all_are_told_apart(store: Store) -> None:
    await opened(store)
    owners = [f"i-{number} 1" for number in range(20)]
    records = await asyncio.gather(*(store.sessions.claim("s-1", owner, "token", LONG_MS) for owner in owners))
    assert sorted(record.generation for record in records if record) == list(range(2, 22))
    holds = [(owner, record.generation) for owner, record in zip(owners, records, strict=True) if record]
    notes = await asyncio.gather(
        *(store.sessions.note("s-1", Hold(owner, generation), "[]", "", LONG_MS) for owner, generation in holds)
    )
    assert notes.count(OwnedOutcome.NOTED) == 1


async def test_what_is_parked_is_bounded_and_said_twice_it_is_there_once(store: Store) -> None:
    await opened(store)
    for frame in (b"1", b"2", b"3", b"3", b"4"):
        await store.sessions.park("s-1", A, [frame], most=3, keep_ms=LONG_MS)
    record = await store.sessions.claim("s-1", "b 1", "token", LONG_MS)
    assert record is not None
    assert record.outcomes == (b"2", b"3", b"4")


async def test_a_session_that_is_over_leaves_nothing_behind(store: Store) -> None:
    await opened(store)
    await store.sessions.park("s-1", A, [b"x"], most=3, keep_ms=LONG_MS)
    assert await store.sessions.close("s-1", A, keep_ms=LONG_MS) is OwnedOutcome.CLOSED
    assert await store.line.call("EXISTS", store.keys.session("s-1"), store.keys.parked("s-1")) == 0


async def test_of_a_claimed_session_that_is_over_its_former_owner_learns_so(store: Store) -> None:
    await opened(store)
    await store.sessions.claim("s-1", "b 1", "token", LONG_MS)
    second = Hold("b 1", 2)
    await store.sessions.park("s-1", second, [b"x"], most=3, keep_ms=LONG_MS)
    assert await store.sessions.close("s-1", second, keep_ms=5_000) is OwnedOutcome.CLOSED
    assert await store.sessions.close("s-1", second, keep_ms=LONG_MS) is OwnedOutcome.TAKEN
    for hold in (A, second):
        assert await store.sessions.note("s-1", hold, "[]", "", LONG_MS) is OwnedOutcome.TAKEN
        assert await store.sessions.open("s-1", hold, "token", "{}", LONG_MS) is OpenOutcome.TAKEN
    for token in ("token", ""):
        assert await store.sessions.claim("s-1", "c 1", token, LONG_MS) is None
    assert await store.sessions.claim_by_id("s-1", "c 1", "", LONG_MS) is None
    assert await store.line.call("EXISTS", store.keys.parked("s-1")) == 0
    assert 0 < await store.line.call("PTTL", store.keys.session("s-1")) <= 5_000
    assert await Checkup(store).look(settle_s=0) == []


async def test_everything_about_a_session_expires_by_itself(store: Store) -> None:
    await opened(store, keep_ms=5_000)
    await store.sessions.park("s-1", A, [b"x"], most=3, keep_ms=2_000)
    assert 0 < await store.line.call("PTTL", store.keys.session("s-1")) <= 5_000
    assert await Checkup(store).look(settle_s=0) == []
    assert 0 < await store.line.call("PTTL", store.keys.parked("s-1")) <= 2_000


HERE = "192.0.2.1"


async def opened_to_be_found(store: Store) -> None:
    opening = store.sessions.open("s-1", A, "token", "{}", LONG_MS, is_found_by_id=True, address=HERE)
    assert await opening is OpenOutcome.OPENED


async def test_a_session_that_is_found_by_its_id_is_claimed_when_its_socket_is_gone(store: Store) -> None:
    await opened_to_be_found(store)
    assert await store.sessions.claim_by_id("s-1", "b 1", HERE, LONG_MS) == HeldBy("a 1")
    for is_away, found in ((True, SessionRecord), (False, HeldBy)):
        await store.sessions.note("s-1", A, "", "", LONG_MS, address=HERE, is_away=is_away)
        assert isinstance(await store.sessions.claim_by_id("s-1", "a 1", HERE, LONG_MS), found)
    await store.sessions.note("s-1", A, "", "", LONG_MS, address=HERE, is_away=True)
    record = await store.sessions.claim_by_id("s-1", "b 1", HERE, LONG_MS)
    assert isinstance(record, SessionRecord)
    assert record.generation == 2
    assert await store.sessions.note("s-1", A, "", "", LONG_MS) is OwnedOutcome.TAKEN
    # A socket speaks for it again.
    assert await store.sessions.claim_by_id("s-1", "c 1", HERE, LONG_MS) == HeldBy("b 1")
    assert await store.sessions.claim("s-1", "c 1", "tokem", LONG_MS) is None


async def test_from_another_address_it_is_not_found_by_its_id(store: Store) -> None:
    await opened_to_be_found(store)
    for is_away in (False, True):
        await store.sessions.note("s-1", A, "", "", LONG_MS, address=HERE, is_away=is_away)
        assert await store.sessions.claim_by_id("s-1", "b 1", "192.0.2.2", LONG_MS) is None
    assert not [value for value in await store.line.call("HVALS", store.keys.session("s-1")) if HERE in value]


async def test_one_whose_owner_died_is_claimed_though_its_socket_counts_as_living(store: Store) -> None:
    await opened_to_be_found(store)
    held = HeldBy("a 1")
    assert held.instance == "a"
    assert await store.sessions.claim_by_id("s-1", "b 1", "192.0.2.2", LONG_MS, dead=held) is None
    assert await store.sessions.claim_by_id("s-1", "b 1", HERE, LONG_MS, dead=HeldBy("z 9")) == held
    assert isinstance(await store.sessions.claim_by_id("s-1", "b 1", HERE, LONG_MS, dead=held), SessionRecord)


async def test_a_record_of_the_release_before_is_claimed_by_its_id_from_anywhere(store: Store) -> None:
    await opened_to_be_found(store)
    await store.line.call("HDEL", store.keys.session("s-1"), "address", "away")
    assert isinstance(await store.sessions.claim_by_id("s-1", "b 1", "192.0.2.2", LONG_MS), SessionRecord)


async def test_no_other_session_is_claimed_without_a_token(store: Store) -> None:
    await opened(store)
    assert await store.sessions.claim_by_id("s-1", "b 1", "", LONG_MS) is None
    assert await store.sessions.claim_by_id("s-2", "b 1", "", LONG_MS) is None


async def test_a_record_that_redis_has_lost_is_gone_and_not_taken(store: Store) -> None:
    for do in (
        store.sessions.note("s-1", A, "[]", "", LONG_MS),
        store.sessions.park("s-1", A, [b"x"], most=3, keep_ms=LONG_MS),
        store.sessions.close("s-1", A, keep_ms=LONG_MS),
    ):
        assert await do is OwnedOutcome.GONE
    assert await store.line.call("EXISTS", store.keys.session("s-1"), store.keys.parked("s-1")) == 0


async def test_a_lost_record_is_written_again_as_it_was(store: Store) -> None:
    second = Hold("b 1", 2)
    for _ in range(2):
        again = store.sessions.open("s-1", second, "token", "{}", LONG_MS, cuts="[[0]]", binding="n 1")
        assert await again is OpenOutcome.OPENED
    assert await store.sessions.note("s-1", second, "[[1]]", "", LONG_MS) is OwnedOutcome.NOTED
    assert await store.sessions.claim("s-1", "c 1", "token", LONG_MS) == ("{}", 3, "[[1]]", "", "", ())


async def test_a_former_owner_that_writes_a_lost_record_does_not_take_the_session_from_its_owner(store: Store) -> None:
    await opened(store)
    await store.sessions.claim("s-1", "b 1", "token", LONG_MS)
    second = Hold("b 1", 2)
    await store.line.call("DEL", store.keys.session("s-1"))
    # The former owner is the first to notice.
    assert await store.sessions.open("s-1", A, "token", "{}", LONG_MS) is OpenOutcome.OPENED
    assert await store.sessions.note("s-1", second, "", "", LONG_MS) is OwnedOutcome.GONE
    assert await store.sessions.open("s-1", second, "token", "{}", LONG_MS) is OpenOutcome.OPENED
    assert await store.sessions.note("s-1", A, "", "", LONG_MS) is OwnedOutcome.TAKEN
    assert await store.sessions.open("s-1", A, "token", "{}", LONG_MS) is OpenOutcome.TAKEN
    assert await store.sessions.note("s-1", second, "", "", LONG_MS) is OwnedOutcome.NOTED


async def test_of_too_many_parked_outcomes_the_latest_are_told(store: Store) -> None:
    await opened(store)
    await store.line.call("RPUSH", store.keys.parked("s-1"), *range(9_000))
    record = await store.sessions.claim("s-1", "b 1", "token", LONG_MS)
    assert isinstance(record, SessionRecord)
    assert record.outcomes == tuple(str(number).encode() for number in range(9_000 - MAX_UNDER_WAY, 9_000))


async def test_what_a_session_is_paired_with_goes_with_it(store: Store) -> None:
    opening = store.sessions.open("s-1", A, "token", "{}", LONG_MS, paired="acme gpu-7")
    assert await opening is OpenOutcome.OPENED
    for owner in ("b 1", "c 1"):
        claimed = await store.sessions.claim("s-1", owner, "token", LONG_MS)
        assert claimed is not None
        assert claimed.paired == "acme gpu-7"
