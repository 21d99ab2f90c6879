"""Holds on sessions: whose they are, who lost them, and who may claim them."""

from typing import Any, cast

import msgspec
import pytest

from lingua_scheduler.domain.cluster.instances import PresenceOutcome
from lingua_scheduler.domain.sessions.handover import Beginning, CutNote
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.protocol.sealing import TokenSeal
from lingua_scheduler.services.attempts.peers import ClientPeer
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.services.cluster.seals import Seals
from lingua_scheduler.services.sessions import session_records
from lingua_scheduler.services.sessions.session_records import SessionRecords, _heard_at_least
from lingua_scheduler.services.sessions.sessions import GATEWAY, Session, Sessions
from lingua_scheduler.setting_sections.instances import InstancesSettings
from lingua_scheduler.setting_sections.sessions import DeliverySettings, SessionsSettings
from lingua_scheduler.store.connection import NotDone, RedisAway
from lingua_scheduler.store.sessions.sessions import HeldBy, Hold, SessionRecord
from lingua_scheduler.store.store import Store
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.session import MissingResult, SessionCloseAck, SessionInit
from tests.support.mail import who

ADDRESS = "192.0.2.1"
INIT = SessionInit(client_version="x", platform=GATEWAY, src_lang="en", tgt_lang="zh")
TALK = SessionInit(client_version="x", platform="web", src_lang="en", tgt_lang="zh")


class Life:
    """One life of an instance, as far as sessions go, and which of its sessions it lost to others."""

    def __init__(self, store: Store, instance: str, incarnation: str = "life-1") -> None:
        me = who(instance, incarnation)
        self.presence = Presence(me, store, InstancesSettings())
        self.records = SessionRecords(me, store.sessions, Seals(self.presence), 30_000, self.presence.is_alive)
        self.sessions = Sessions(SessionsSettings(), DeliverySettings(), 10)
        self.lost: list[str] = []

    async def open(self, init: SessionInit = INIT) -> Session:
        session = self.sessions.make(init, Terms("en", "zh"), self.records.owner())
        session.address = ADDRESS
        assert await self.records.open(session, init)
        self.records.hold(session, self._taken)
        return session

    async def claim(self, former: Session) -> Session:
        owner = self.records.owner()
        token = "" if former.is_gateway else former.resume_token
        claimed = await self.records.claim(former.session_id, owner, token, ADDRESS, None)
        assert claimed is not None
        session = self.sessions.make(claimed.init, former.terms, owner, former.session_id)
        session.address, session.generation, session.asked = ADDRESS, claimed.generation, claimed.asked
        session.resume_token = former.resume_token
        self.records.hold(session, self._taken)
        return session

    async def note(self, session: Session, peer: object = None) -> None:
        session.peer = cast("ClientPeer | None", cast("Any", peer))
        self.records.note(session)
        assert await self.records.writes.settle(10) == 0

    async def close(self, session: Session) -> None:
        self.records.close(session)
        assert await self.records.writes.settle(10) == 0

    def _taken(self, session: Session) -> None:
        self.lost.append(session.session_id)


# Two lives of an instance with the same id


async def test_a_session_whose_instance_was_killed_and_started_again_is_claimed_at_once(store: Store) -> None:
    killed, again, other = Life(store, "a"), Life(store, "a", "life-2"), Life(store, "b")
    session = await killed.open()  # its socket counts as living
    outcome, _ = await store.instances.join(again.presence.me, 6_000)
    assert outcome is PresenceOutcome.JOINED
    await other.presence.join()
    for life in (again, other):
        session = await life.claim(session)
        assert session.owner.startswith(life.presence.instance)
        await life.note(session)
    assert session.generation == 3


async def test_while_the_socket_of_that_very_life_speaks_for_it_nobody_claims_it(store: Store) -> None:
    holder, other = Life(store, "a", "life-2"), Life(store, "b")
    await other.presence.join()
    assert await store.instances.join(who("a", "life-1"), 6_000) == (PresenceOutcome.JOINED, 0)
    await other.presence.look()
    await store.instances.leave(who("a", "life-1"), 6_000)
    await holder.presence.join()
    session = await holder.open()
    # Also by who knew of the former life only.
    assert await other.records.claim(session.session_id, other.records.owner(), "", ADDRESS, None) is None


async def test_an_owner_of_a_release_without_incarnations_is_judged_by_its_instance(store: Store) -> None:
    alive, other = Life(store, "a"), Life(store, "b")
    await alive.presence.join()
    await other.presence.join()
    assert (HeldBy("a 7").instance, HeldBy("a 7").incarnation) == ("a", "")
    session = await alive.open()
    await store.line.call("HSET", store.keys.session(session.session_id), "owner", "a 7")
    assert await other.records.claim(session.session_id, other.records.owner(), "", ADDRESS, None) is None


# From one instance to another and back


async def test_a_session_is_still_ours_until_another_instance_claims_it(store: Store) -> None:
    here, there = Life(store, "a"), Life(store, "b")
    await here.presence.join()
    session = await here.open()
    await here.note(session)  # its socket is gone
    assert await here.records.is_still_ours(session, ADDRESS)
    owner = there.records.owner()
    assert await there.records.claim(session.session_id, owner, "", ADDRESS, None) is None  # one speaks for it again
    await here.note(session)
    await there.claim(session)
    assert not await here.records.is_still_ours(session, ADDRESS)


async def test_a_session_whose_record_is_lost_is_still_ours_and_written_again(store: Store) -> None:
    here = Life(store, "a")
    session = await here.open()
    record = store.keys.session(session.session_id)
    await store.line.call("DEL", record)
    assert await here.records.is_still_ours(session, ADDRESS)
    assert await store.line.call("HGET", record, "owner") == session.owner


@pytest.mark.parametrize(("peer", "away"), [(None, "1"), (object(), "0")])
async def test_a_record_that_is_written_again_says_from_where_the_client_comes_and_whether_it_is_there(
    store: Store, peer: object, away: str
) -> None:
    """Another instance may continue a session by its id only from there, and only without its client's socket."""
    here = Life(store, "a")
    session = await here.open()
    record = store.keys.session(session.session_id)
    address = await store.line.call("HGET", record, "address")
    await store.line.call("DEL", record)
    await here.note(session, peer)
    assert await store.line.call("HMGET", record, "address", "away") == [address, away]
    assert address


@pytest.mark.parametrize("init", [INIT, TALK], ids=["gateway", "token"])
async def test_a_session_that_was_closed_elsewhere_is_not_brought_back(store: Store, init: SessionInit) -> None:
    here, there = Life(store, "a"), Life(store, "b")
    first = await here.open(init)
    await here.note(first)
    second = await there.claim(first)
    await there.close(second)
    await here.note(first)
    assert here.lost == [first.session_id]
    assert not await here.records.is_still_ours(first, ADDRESS)
    for token in (first.resume_token, ""):
        owner = there.records.owner()
        assert await there.records.claim(first.session_id, owner, token, ADDRESS, None) is None


@pytest.mark.parametrize(
    ("closes_turn", "written", "expected"),
    [
        pytest.param(False, "n1 3", ("n1", 3), id="in mid-turn"),
        pytest.param(False, "", None, id="in mid-turn without a node"),
        pytest.param(True, "n1 3", None, id="between turns"),
    ],
)
async def test_a_session_that_is_claimed_keeps_its_node_only_in_mid_turn(
    store: Store, monkeypatch: pytest.MonkeyPatch, closes_turn: bool, written: str, expected: tuple[str, int] | None
) -> None:
    life = Life(store, "a")
    cuts = msgspec.json.encode([CutNote(0, 0, 5, 0, closes_turn)]).decode()

    async def claim(*_: object, **__: object) -> SessionRecord:
        return SessionRecord(msgspec.json.encode(TALK).decode(), 2, cuts, written, "", ())

    monkeypatch.setattr(store.sessions, "claim", claim)
    claimed = await life.records.claim("s", life.records.owner(), "token", ADDRESS, 0)
    assert claimed is not None
    bound = None if claimed.binding is None else (claimed.binding.node_id, claimed.binding.shard)
    assert (bound, claimed.generation, claimed.beginning.next_seq) == (expected, 2, 5)


# Records are renewed, and written again when they are lost


async def noted_by(life: Life, monkeypatch: pytest.MonkeyPatch, probed: list[str] | None = None) -> list[str]:
    """Which sessions the next renewal writes, and which it only looks at."""
    written: list[str] = []
    write = life.records._write
    is_held = life.records._store.is_held

    async def looked_at(session_id: str, hold: Hold, keep_ms: int) -> bool:
        if probed is not None:
            probed.append(session_id)
        return await is_held(session_id, hold, keep_ms)

    async def watched(session: Session, address: str, *, is_away: bool) -> Any:
        written.append(session.session_id)
        return await write(session, address, is_away=is_away)

    with monkeypatch.context() as patch:
        patch.setattr(life.records, "_write", watched)
        patch.setattr(life.records._store, "is_held", looked_at)
        await life.records.renew()
    return written


async def test_the_records_that_are_due_are_renewed_in_portions_and_a_few_others_are_looked_at(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_records, "RENEWED_TOGETHER", 3)
    monkeypatch.setattr(session_records, "PROBED", 1)
    life = Life(store, "a")
    names = [(await life.open()).session_id for _ in range(5)]
    probed: list[str] = []
    assert await noted_by(life, monkeypatch, probed) == []
    assert probed == names[:1]
    for session, _ in life.records._held.values():
        session.noted_at_s -= 3_600_000
    assert await noted_by(life, monkeypatch, probed) == names[1:4]
    assert await noted_by(life, monkeypatch, probed) == [names[4], names[0]]
    assert probed == names[:2]
    life.records.doubt()
    assert await noted_by(life, monkeypatch, probed) == names[2:5]


async def test_a_record_that_is_only_looked_at_is_kept_as_long_as_one_that_is_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(store, "a")
    key = store.keys.session((await life.open()).session_id)
    await store.line.call("PEXPIRE", key, 1_000)
    assert await noted_by(life, monkeypatch) == []
    assert await store.line.call("PTTL", key) > session_records.KEEP_MS / 2


async def test_a_look_at_a_record_finds_that_it_is_lost_or_taken(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    life, other = Life(store, "a"), Life(store, "b")
    lost, taken = await life.open(), await life.open(TALK)
    await store.line.call("DEL", store.keys.session(lost.session_id))
    await other.claim(taken)
    assert await noted_by(life, monkeypatch) == [lost.session_id, taken.session_id]
    assert await keys_of(store, lost) == 1
    assert life.lost == [taken.session_id]


async def test_a_change_that_could_not_be_written_is_not_forgotten_by_looking(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(store, "a")
    session = await life.open()

    async def fail(*_: object, **__: object) -> None:
        raise RedisAway("gone at that moment")

    with monkeypatch.context() as patch:
        patch.setattr(store.sessions, "note", fail)
        await life.note(session)
    now_s = life.records._clock()
    monkeypatch.setattr(life.records, "_clock", lambda: now_s)
    assert await noted_by(life, monkeypatch) == []
    now_s += 6
    assert await noted_by(life, monkeypatch) == [session.session_id]
    assert await noted_by(life, monkeypatch) == []


async def test_a_session_that_is_being_written_is_not_renewed_beside_that(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(store, "a")
    session = await life.open()
    session.is_noting = True
    assert await noted_by(life, monkeypatch) == []


async def test_changes_during_a_write_are_written_together_after_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(store, "a")
    session = await life.open()
    writes: list[str] = []
    write = life.records._write

    async def slow(session: Session, address: str, *, is_away: bool) -> Any:
        writes.append(session.session_id)
        if len(writes) == 1:
            for _ in range(3):
                life.records.note(session)
        return await write(session, address, is_away=is_away)

    monkeypatch.setattr(life.records, "_write", slow)
    await life.note(session)
    assert len(writes) == 2
    assert not session.is_noting


async def test_a_record_that_could_not_be_written_is_the_first_to_be_tried_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(store, "a")
    sessions = [await life.open() for _ in range(3)]

    async def fail(*_: object, **__: object) -> None:
        raise RedisAway("gone at that moment")

    with monkeypatch.context() as patch:
        patch.setattr(store.sessions, "note", fail)
        await life.note(sessions[2])
    assert next(iter(life.records._held)) == sessions[2].session_id
    assert not sessions[2].is_noting
    assert sessions[2].noted_at_s < sessions[0].noted_at_s
    await life.note(sessions[2])
    assert next(iter(life.records._held)) == sessions[0].session_id


async def test_a_session_closed_while_redis_was_away_is_closed_there_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    life, other = Life(store, "a"), Life(store, "b")
    session = await life.open(TALK)

    async def fail(*_: object, **__: object) -> None:
        raise RedisAway("gone at that moment")

    with monkeypatch.context() as patch:
        patch.setattr(store.sessions, "close", fail)
        await life.close(session)
    await life.records.renew()
    claimed = await other.records.claim(session.session_id, other.records.owner(), session.resume_token, ADDRESS, None)
    assert claimed is None
    assert not life.records._unclosed


async def keys_of(store: Store, session: Session) -> int:
    return int(await store.line.call("EXISTS", store.keys.session(session.session_id)))


def losing_the_answer(call: Any) -> Any:
    """Redis carries the call out, and the connection breaks before its answer is there."""

    async def lost(*words: Any, **named: Any) -> None:
        await call(*words, **named)
        raise RedisAway("gone at that moment")

    return lost


async def test_a_session_whose_opening_got_no_answer_leaves_no_record(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(store, "a")
    session = life.sessions.make(TALK, Terms("en", "zh"), life.records.owner())
    with monkeypatch.context() as patch:
        patch.setattr(store.sessions, "open", losing_the_answer(store.sessions.open))
        with pytest.raises(RedisAway):
            await life.records.open(session, TALK)
    assert await keys_of(store, session) == 1
    await life.records.renew()
    assert await keys_of(store, session) == 0


async def test_an_opening_or_claim_that_was_never_sent_needs_no_closing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(store, "a")
    session = await life.open(TALK)

    async def refuse(*_: object, **__: object) -> None:
        raise NotDone("not connected")

    monkeypatch.setattr(store.sessions, "open", refuse)
    monkeypatch.setattr(store.sessions, "claim", refuse)
    with pytest.raises(NotDone):
        await life.open(TALK)
    with pytest.raises(NotDone):
        await life.claim(session)
    assert not life.records._unclosed
    assert not life.records._lost_claims


@pytest.mark.parametrize("init", [TALK, INIT], ids=["by its token", "by its id"])
async def test_a_claim_that_got_no_answer_leaves_no_record_if_the_client_does_not_return(
    store: Store, monkeypatch: pytest.MonkeyPatch, init: SessionInit
) -> None:
    here, there = Life(store, "a"), Life(store, "b")
    session = await here.open(init)
    await here.note(session)
    with monkeypatch.context() as patch:
        for name in ("claim", "claim_by_id"):
            patch.setattr(store.sessions, name, losing_the_answer(getattr(store.sessions, name)))
        with pytest.raises(RedisAway):
            await there.claim(session)
    await here.close(session)
    await there.records.renew()
    assert await keys_of(store, session) == 1  # the client may still come back
    there.records._clock = lambda: here.records._clock() + 31
    await there.records.renew()
    assert await keys_of(store, session) == 0


async def test_a_claim_that_got_no_answer_takes_nothing_from_a_client_that_returned(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = Life(store, "a"), Life(store, "b")
    session = await here.open(TALK)
    with monkeypatch.context() as patch:
        patch.setattr(store.sessions, "claim", losing_the_answer(store.sessions.claim))
        with pytest.raises(RedisAway):
            await there.claim(session)
    back = await there.claim(session)
    there.records._clock = lambda: here.records._clock() + 31
    await there.records.renew()
    assert await keys_of(store, session) == 1
    await there.note(back)
    assert there.lost == []


async def test_a_record_that_is_restored_while_its_session_closes_is_removed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(store, "a")
    session = await life.open(TALK)
    await store.line.call("DEL", store.keys.session(session.session_id))
    opened = store.sessions.open

    async def late(*words: Any, **named: Any) -> Any:
        life.records.close(session)
        await life.records.writes.settle(0.05)
        return await opened(*words, **named)

    monkeypatch.setattr(store.sessions, "open", late)
    await life.note(session)
    await life.records.renew()
    assert await keys_of(store, session) == 0


async def test_a_lost_record_makes_all_others_doubtful(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_records, "PROBED", 0)
    life = Life(store, "a")
    lost, other = await life.open(), await life.open()
    assert await noted_by(life, monkeypatch) == []
    await store.line.call("DEL", store.keys.session(lost.session_id))
    await life.note(lost)
    assert await store.line.call("EXISTS", store.keys.session(lost.session_id))
    assert other.session_id in await noted_by(life, monkeypatch)


async def test_a_closed_session_whose_record_is_gone_is_not_written_again(store: Store) -> None:
    life = Life(store, "a")
    session = await life.open()
    await life.close(session)
    await store.line.call("DEL", store.keys.session(session.session_id))
    await life.note(session)
    assert not await store.line.call("EXISTS", store.keys.session(session.session_id))
    assert life.lost == []


async def test_a_record_that_cannot_be_read_is_no_session(store: Store) -> None:
    life, other = Life(store, "a"), Life(store, "b")
    session = await life.open(TALK)
    await store.line.call("HSET", store.keys.session(session.session_id), "init", "{")
    claim = other.records.claim(session.session_id, other.records.owner(), session.resume_token, ADDRESS, None)
    assert await claim is None


# Outcomes parked for a client that is away


def outcome(index: int) -> MissingResult:
    return MissingResult(session_id="s", utterance_index=index, reason="no node", created_at_ms=0)


async def parked_by(life: Life, session: Session, *indices: int) -> None:
    life.records.park(session, [outcome(index) for index in indices])
    assert await life.records.writes.settle(10) == 0


async def restored(life: Life, session: Session, last_heard: int | None = None) -> list[int]:
    claimed = await life.records.claim(
        session.session_id, life.records.owner(), session.resume_token, ADDRESS, last_heard
    )
    assert claimed is not None
    return [found.utterance_index for found in claimed.outcomes]


async def test_what_was_parked_is_restored_elsewhere_in_order_as_far_as_it_has_no_gap(store: Store) -> None:
    here, there = Life(store, "a"), Life(store, "b")
    session = await here.open(TALK)
    await parked_by(here, session, 1, 0)
    await parked_by(here, session, 3)
    assert await restored(there, session) == [0, 1]


async def test_what_the_client_has_heard_is_not_restored(store: Store) -> None:
    here, there = Life(store, "a"), Life(store, "b")
    session = await here.open(TALK)
    await parked_by(here, session, 0, 1, 2)
    assert await restored(there, session, last_heard=0) == [1, 2]


async def test_what_was_parked_into_a_lost_record_is_parked_again(store: Store) -> None:
    here, there = Life(store, "a"), Life(store, "b")
    session = await here.open(TALK)
    await store.line.call("DEL", store.keys.session(session.session_id))
    await parked_by(here, session, 0)
    assert await restored(there, session) == [0]


async def test_parking_for_a_session_that_another_claimed_tells_so(store: Store) -> None:
    here, there = Life(store, "a"), Life(store, "b")
    session = await here.open(TALK)
    await here.note(session)
    await there.claim(session)
    await parked_by(here, session, 0)
    assert here.lost == [session.session_id]


async def test_nothing_is_parked_for_a_gateway(store: Store) -> None:
    life = Life(store, "a")
    session = await life.open()
    before = await store.line.call("DBSIZE")
    await parked_by(life, session, 0)
    assert await store.line.call("DBSIZE") == before


async def test_outcomes_that_cannot_be_read_are_left_out(store: Store) -> None:
    here, there = Life(store, "a"), Life(store, "b")
    session = await here.open(TALK)
    await parked_by(here, session, 0)
    hold = session_records._hold(session)
    sealed = TokenSeal(session.session_id, "another token").seal(codec.encode(outcome(1)))
    for frame in (b"{", codec.encode(SessionCloseAck(session_id="s")), sealed):
        await store.sessions.park(session.session_id, hold, [frame], most=10, keep_ms=60_000)
    assert await restored(there, session) == [0]


def cuts_at(*indexes: int) -> list[CutNote]:
    return [CutNote(index, 0, 1, 0, True) for index in indexes]


@pytest.mark.parametrize(
    ("cuts", "parked", "has_token", "heard"),
    [
        # With a token a client that heard something would say what.
        ((3, 4), (), True, 2),
        ((4, 3), (7,), True, 2),
        ((), (7,), True, 6),
        ((), (0,), True, -1),
        ((), (), True, -1),
        # A gateway never says; what waits for it is what it has not.
        ((3, 4), (2,), False, 1),
        ((3, 4), (0,), False, -1),
        ((3, 4), (), False, 4),
        ((), (), False, -1),
    ],
)
def test_what_a_client_that_does_not_say_has_heard(
    cuts: tuple[int, ...], parked: tuple[int, ...], has_token: bool, heard: int
) -> None:
    outcomes = [outcome(index) for index in parked]
    assert _heard_at_least(cuts_at(*cuts), outcomes, has_token=has_token) == heard


def test_what_was_heard_before_a_takeover_is_heard() -> None:
    cuts = [Beginning(5, 30, 2).as_cut(), *cuts_at(5, 6)]
    assert [_heard_at_least(cuts[:number], [], has_token=True) for number in (1, 2, 3)] == [4, 4, 4]


async def test_who_holds_a_session_is_told_that_it_was_taken_and_only_once_it_is_held(store: Store) -> None:
    here, there, told = Life(store, "a"), Life(store, "b"), list[Session]()
    for life in (here, there):
        await life.presence.join()
    session = await here.open()
    here.records.hold(session, told.append)
    await here.note(session)
    assert told == []
    await there.claim(session)
    await here.note(session)
    assert told == [session]
    here.records.close(session)
    await here.note(session)
    assert told == [session]


async def test_who_has_another_hold_on_the_same_session_is_not_told(store: Store) -> None:
    here, there, told = Life(store, "a"), Life(store, "b"), list[Session]()
    for life in (here, there):
        await life.presence.join()
    former = await here.open()
    await here.note(former)
    await there.claim(former)
    latter = here.sessions.make(INIT, former.terms, here.records.owner(), former.session_id)
    here.records.hold(latter, told.append)
    await here.note(former)
    assert told == []


async def test_the_record_says_from_where_a_session_was_claimed_with_its_token(store: Store) -> None:
    """From there it may be continued by its id."""
    here, there = Life(store, "a"), Life(store, "b")
    session = await here.open()
    await there.presence.join()

    async def claimed_from(address: str) -> str:
        owner, token = there.records.owner(), session.resume_token
        assert await there.records.claim(session.session_id, owner, token, address, None) is not None
        return str(await store.line.call("HGET", store.keys.session(session.session_id), "address"))

    first = await claimed_from(ADDRESS)
    assert await claimed_from("192.0.2.99") != first
    assert await claimed_from(ADDRESS) == first


async def test_a_record_is_renewed_every_ten_minutes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_records, "PROBED", 0)
    life = Life(store, "a")
    now_s = 1_000.0
    monkeypatch.setattr(life.records, "_clock", lambda: now_s)
    session = await life.open()
    now_s += 599
    assert await noted_by(life, monkeypatch) == []
    now_s += 2
    assert await noted_by(life, monkeypatch) == [session.session_id]
    assert await noted_by(life, monkeypatch) == []


async def test_a_record_that_could_not_be_written_is_tried_again_after_five_seconds(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_records, "PROBED", 0)
    life = Life(store, "a")
    now_s = 1_000.0
    monkeypatch.setattr(life.records, "_clock", lambda: now_s)
    session = await life.open()

    async def fail(*_: object, **__: object) -> None:
        raise RedisAway("gone at that moment")

    with monkeypatch.context() as patch:
        patch.setattr(store.sessions, "note", fail)
        await life.note(session)
    now_s += 4
    assert await noted_by(life, monkeypatch) == []
    now_s += 2
    assert await noted_by(life, monkeypatch) == [session.session_id]


async def test_outcomes_that_redis_does_not_take_are_not_parked_and_the_session_is_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(store, "a")
    session = await life.open(TALK)

    async def away(*_: object, **__: object) -> None:
        raise RedisAway("gone at that moment")

    monkeypatch.setattr(store.sessions, "park", away)
    await parked_by(life, session, 0)
    assert life.lost == []


async def test_a_lost_record_that_another_instance_wrote_meanwhile_is_its_own(store: Store) -> None:
    life, other = Life(store, "a"), Life(store, "b")
    session = await life.open(TALK)
    await store.line.call("DEL", store.keys.session(session.session_id))
    theirs = other.sessions.make(TALK, session.terms, other.records.owner(), session.session_id)
    assert await other.records.open(theirs, TALK)
    await life.note(session)
    assert life.lost == [session.session_id]
