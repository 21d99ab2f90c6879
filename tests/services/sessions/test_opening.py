"""Sessions begin, go on that were held elsewhere, change their socket, and end."""

import asyncio

import msgspec
import pytest

from lingua_scheduler.domain.access.principals import LOCAL, Principal
from lingua_scheduler.domain.pools.pools import Admission
from lingua_scheduler.domain.sessions.handover import Beginning
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.attempts.work import Binding, Refusal
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.dispatch.audio_budget import AudioBudget
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.services.dispatch.languages import LanguageLookup
from lingua_scheduler.services.sessions.opening import Openings
from lingua_scheduler.services.sessions.session_records import RestoredSession
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.session import MissingResult, SessionInit
from tests.services.sessions.test_session_records import ADDRESS, INIT, TALK, Life
from tests.services.sessions.test_sessions import Gateway
from tests.support.principals import service, user
from tests.support.waiting import until


class Front:
    """The sessions of one instance, with their clients' sockets."""

    def __init__(self, store: Store, instance: str, idle_ms: int = 0) -> None:
        self.life = Life(store, instance)
        pool_map = PoolMapCopy(store.pools)
        languages = LanguageLookup(pool_map, Explainer(store, pool_map, Admission.STRICT))
        self.openings = Openings(self.life.sessions, self.life.records, AudioBudget(1_000, 10_000), languages, idle_ms)

    async def open(self, init: SessionInit, principal: Principal = LOCAL) -> tuple[Session, Gateway]:
        socket = at(ADDRESS, principal)
        session = await self.openings.open(socket, init)
        assert isinstance(session, Session)
        return session, socket

    async def detach(self, session: Session, socket: Gateway) -> None:
        self.openings.detached(session, socket)
        assert await self.life.records.writes.settle(10) == 0


def at(address: str, principal: Principal = LOCAL) -> Gateway:
    socket = Gateway()
    socket.address, socket.principal = address, principal
    return socket


def back(session: Session, token: str | None = None) -> SessionInit:
    return msgspec.structs.replace(TALK, resume_token=session.resume_token if token is None else token)


@pytest.fixture
async def here(store: Store) -> Front:
    front = Front(store, "a")
    await front.life.presence.join()
    return front


@pytest.fixture
async def there(store: Store) -> Front:
    front = Front(store, "b")
    await front.life.presence.join()
    return front


async def test_a_session_is_in_redis_with_the_address_of_its_socket_when_it_is_opened(
    store: Store, here: Front
) -> None:
    session, socket = await here.open(INIT)
    assert here.life.sessions.find(session.session_id) is session
    assert (session.peer, session.address) == (socket, ADDRESS)
    assert await store.line.call("HGET", store.keys.session(session.session_id), "owner") == session.owner
    assert list(here.life.records._held) == [session.session_id]


async def test_languages_that_make_no_pair_and_sessions_beyond_the_limit_are_refused(here: Front) -> None:
    refusal = await here.openings.open(at(ADDRESS), msgspec.structs.replace(TALK, tgt_lang=""))
    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.INVALID_MESSAGE
    here.life.sessions._max_sessions = 0
    refusal = await here.openings.open(at(ADDRESS), TALK)
    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.NODE_OVERLOADED


async def test_an_id_that_is_in_use_elsewhere_is_not_taken(
    here: Front, there: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, _ = await there.open(TALK)
    make, names = here.life.sessions.make, iter([taken.session_id, "s-FREE"])
    monkeypatch.setattr(here.life.sessions, "make", lambda init, terms, owner, _: make(init, terms, owner, next(names)))
    session, _ = await here.open(TALK)
    assert (session.session_id, session.address) == ("s-FREE", ADDRESS)


async def test_a_client_with_its_token_goes_on_at_another_instance(store: Store, here: Front, there: Front) -> None:
    first, socket = await here.open(TALK)
    await here.detach(first, socket)
    session = await there.openings.adopt(back(first), at("192.0.2.9"))
    assert session is not None
    assert (session.session_id, session.resume_token) == (first.session_id, first.resume_token)
    assert session.is_orphan
    assert session.generation == 2
    assert session.node_session_id == f"{first.session_id}-2"
    assert session.address == "192.0.2.9"
    assert there.life.sessions.find(first.session_id) is session
    assert there.life.sessions.find_by_token(first.resume_token) is session
    # The one it was held by learns of it.
    await here.openings.let_go_if_taken(first, at(ADDRESS))
    assert here.life.sessions.find(first.session_id) is None


async def test_without_its_secret_or_a_place_for_it_no_session_is_taken_over(here: Front, there: Front) -> None:
    first, socket = await here.open(TALK)
    await here.detach(first, socket)
    for token in ("", first.session_id, f"{first.session_id}.wrong"):
        assert await there.openings.adopt(back(first, token), at(ADDRESS)) is None
    there.life.sessions._max_sessions = 0
    assert await there.openings.adopt(back(first), at(ADDRESS)) is None
    assert await there.openings.adopt_by_id(first.session_id, at(ADDRESS)) is None
    there.life.sessions._max_sessions = 1
    assert await there.openings.adopt(back(first), at(ADDRESS)) is not None


async def test_of_two_sockets_with_one_token_the_later_has_the_session(here: Front, there: Front) -> None:
    first, socket = await here.open(TALK)
    await here.detach(first, socket)
    quick = await there.openings.adopt(back(first), at(ADDRESS))
    assert quick is not None
    late = await there.openings.adopt(back(first), at(ADDRESS))
    assert late is not None
    assert there.life.sessions.find(first.session_id) is late
    assert late is not quick
    assert len(there.life.sessions) == 1


async def test_a_gateway_goes_on_by_the_id_from_its_own_address_alone(here: Front, there: Front) -> None:
    first, socket = await here.open(INIT)
    # While a socket speaks for it nobody else does.
    assert await here.openings.adopt_by_id(first.session_id, at(ADDRESS)) is None
    assert await here.openings.adopt_by_id(first.session_id, socket) is first
    await here.detach(first, socket)
    assert await here.openings.adopt_by_id(first.session_id, at("192.0.2.9")) is None
    assert await here.openings.adopt_by_id(first.session_id, at(ADDRESS)) is first
    await here.detach(first, socket)
    here.openings._note_socket(first)
    assert await here.life.records.writes.settle(10) == 0
    assert await there.openings.adopt_by_id(first.session_id, at("192.0.2.9")) is None
    adopted = await there.openings.adopt_by_id(first.session_id, at(ADDRESS))
    assert adopted is not None
    assert not adopted.is_orphan
    # What was left here is out of date, and not what the gateway gets when it comes back.
    again = at(ADDRESS)
    assert await here.openings.adopt_by_id(first.session_id, again) is not first


async def test_without_redis_a_session_counts_as_ours(here: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    session, socket = await here.open(INIT)
    here.openings.detached(session, socket)

    async def fail(*_: object, **__: object) -> None:
        raise RedisAway("gone at that moment")

    monkeypatch.setattr(here.life.records, "is_still_ours", fail)
    await here.openings.let_go_if_taken(session, at(ADDRESS))
    assert here.life.sessions.find(session.session_id) is session


async def test_a_session_that_went_elsewhere_closes_its_socket(here: Front, there: Front) -> None:
    session, socket = await here.open(TALK)
    assert await there.openings.adopt(back(session), at(ADDRESS)) is not None
    here.life.records.note(session)
    await until(lambda: socket.closed)
    assert [code for code, _ in socket.closed] == [CloseCode.SUPERSEDED]
    assert len(here.life.sessions) == 0


async def test_redis_knows_whether_a_socket_speaks_for_a_gateways_session(
    here: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, socket = await here.open(INIT)
    notes: list[bool] = []
    monkeypatch.setattr(here.life.records, "note", lambda of: notes.append(of.peer is None))
    here.openings.detached(session, at(ADDRESS))  # not its own
    assert notes == []
    here.openings.detached(session, socket)
    here.openings.attach(session, at(ADDRESS))
    assert notes == [True, False]
    talk, other = await here.open(TALK)
    here.openings.detached(talk, other)
    here.openings.attach(talk, at(ADDRESS))
    assert notes == [True, False]


async def test_sessions_in_which_nothing_is_said_are_closed_if_there_is_a_limit(store: Store, here: Front) -> None:
    brisk = Front(store, "c", idle_ms=60_000)
    quiet, socket = await brisk.open(TALK)
    away, _ = await brisk.open(TALK)
    away.peer = None
    busy, _ = await brisk.open(TALK)
    endless, _ = await here.open(TALK)
    for session in (quiet, away, endless):
        session.spoke_at_s -= 61.0
    await brisk.openings.close_idle()
    await here.openings.close_idle()
    assert brisk.life.sessions.all == [busy]
    assert [code for code, _ in socket.closed] == [CloseCode.TRY_LATER]
    assert here.life.sessions.all == [endless]


async def test_a_session_that_is_dropped_gives_its_audio_back_and_closes_its_record(store: Store, here: Front) -> None:
    session, _ = await here.open(TALK)
    budget = here.openings.budget
    budget.take(session, 100)
    session.conversation.chunk(0, b"x" * 100, 20, False, 0.0, True)
    here.openings.drop(session)
    assert (session.audio_bytes, budget.held_bytes) == (0, 0)
    assert await here.life.records.writes.settle(10) == 0
    assert here.life.records._held == {}
    # Not even its token finds it; one that was finished is kept a while.
    assert here.life.sessions.find_by_token(session.resume_token) is None
    finished, _ = await here.open(TALK)
    here.openings.drop(finished, is_finished=True)
    assert here.life.sessions.find_by_token(finished.resume_token) is finished
    here.life.sessions._forget(finished)


@pytest.mark.parametrize("in_turn", [True, False])
async def test_a_session_that_goes_on_elsewhere_keeps_the_node_of_its_turn_and_what_was_not_heard(
    here: Front, there: Front, monkeypatch: pytest.MonkeyPatch, in_turn: bool
) -> None:
    session, _ = await here.open(TALK)
    missed = MissingResult(
        session_id=session.session_id, utterance_index=3, reason="NO_TEXT", created_at_ms=1, trace_id="t"
    )
    binding = Binding("n7", 2)
    begin = Beginning(next_index=4, turn=5, continues_turn=in_turn)

    async def claim(*_: object, **__: object) -> RestoredSession:
        return RestoredSession(TALK, "asked", 9, begin, binding if in_turn else None, None, [missed])

    monkeypatch.setattr(there.life.records, "claim", claim)
    claimed = await there.openings._claim(session.session_id, at(ADDRESS), session.resume_token)
    assert claimed is not None
    assert (claimed.binding is binding) is in_turn
    assert (claimed.bound_turn == 5) is in_turn
    assert list(claimed.sent) == [missed]
    assert (claimed.generation, claimed.asked, claimed.address) == (9, "asked", ADDRESS)
    assert (claimed.node_session_id, claimed.is_orphan) == (f"{session.session_id}-9", True)
    assert claimed.resume_token == session.resume_token


@pytest.mark.parametrize("init", [INIT, TALK])
async def test_what_was_heard_is_known_after_two_takeovers_and_a_lost_record_between_them(
    store: Store, here: Front, there: Front, init: SessionInit
) -> None:
    """The instance in the middle wrote the record anew, though nothing was said while it had the session."""
    session, socket = await here.open(init)
    session.conversation.begin_at(Beginning(4, 30, 2))
    await here.life.note(session)
    await here.detach(session, socket)
    third = Front(store, "c")
    await third.life.presence.join()
    token, last = (session.resume_token, 3) if init is TALK else ("", None)
    for front in (there, third):
        taken = await front.openings._claim(session.session_id, at(ADDRESS), token, last)
        assert taken is not None
        assert (taken.conversation.next_index, taken.conversation.next_seq) == (4, 30)
        await store.line.call("DEL", store.keys.session(session.session_id))
        await front.life.note(taken)


OTHERS = [user("bob"), user("ada", "beta"), service("ada"), LOCAL]


@pytest.mark.parametrize("other", OTHERS, ids=["same tenant", "other tenant", "a key", "no credential"])
async def test_a_token_is_worth_nothing_to_another_principal(
    store: Store, here: Front, there: Front, other: Principal
) -> None:
    session, socket = await here.open(TALK, user("ada"))
    assert here.life.sessions.find_by_token(session.resume_token, other.owner_digest) is None
    assert here.life.sessions.find_by_token(session.resume_token, user("ada").owner_digest) is session
    await here.detach(session, socket)
    assert await there.openings.adopt(back(session), at(ADDRESS, other)) is None
    mine = await there.openings.adopt(back(session), at(ADDRESS, user("ada", token_id="another token")))
    assert mine is not None
    assert mine.belongs_to == user("ada").owner_digest
    # The record keeps it: it goes on belonging to the same after another move, and after Redis lost it.
    await store.line.call("DEL", store.keys.session(session.session_id))
    await there.life.records.is_still_ours(mine, ADDRESS)
    assert await here.openings.adopt(back(session), at(ADDRESS, other)) is None


@pytest.mark.parametrize("other", OTHERS, ids=["same tenant", "other tenant", "a key", "no credential"])
async def test_a_gateways_session_is_found_by_its_id_with_the_same_key_alone(
    here: Front, there: Front, other: Principal
) -> None:
    mine = user("ada")
    session, socket = await here.open(INIT, mine)
    await here.detach(session, socket)
    for front in (here, there):
        assert await front.openings.adopt_by_id(session.session_id, at(ADDRESS, other)) is None
    assert not session.is_open_to(at(ADDRESS, other))
    assert session.is_open_to(at(ADDRESS, mine))
    assert await there.openings.adopt_by_id(session.session_id, at(ADDRESS, mine)) is not None


async def test_a_record_of_an_older_release_belongs_to_nobody_with_a_credential(
    store: Store, here: Front, there: Front
) -> None:
    session, socket = await here.open(TALK)
    await here.detach(session, socket)
    fields = await store.line.call("HKEYS", store.keys.session(session.session_id))
    assert "belongs_to" not in fields
    assert await there.openings.adopt(back(session), at(ADDRESS, user("ada"))) is None
    assert await there.openings.adopt(back(session), at(ADDRESS)) is not None


async def test_a_tenant_that_the_credential_may_not_act_for_is_ignored(here: Front) -> None:
    named = msgspec.structs.replace(TALK, tenant_id="beta")
    tenants = [(await here.open(named, who))[0].tenant_id for who in (user("ada"), service("k", act_for=("beta",)))]
    assert tenants == ["acme", "beta"]
    assert (await here.open(named))[0].tenant_id == "beta"


async def test_languages_that_the_credential_does_not_allow_are_refused(here: Front) -> None:
    only = user("ada", pairs=("zh:en", "en:zh"))
    french = msgspec.structs.replace(TALK, tgt_lang="fr")
    refusal = await here.openings.open(at(ADDRESS, only), french)
    assert refusal == Refusal(
        ErrorCode.PERMISSION_DENIED, "this credential does not allow en→fr; it allows zh:en, en:zh"
    )
    any_of = msgspec.structs.replace(TALK, src_lang="auto", tgt_lang="en", auto_langs=["zh", "de"])
    assert isinstance(await here.openings.open(at(ADDRESS, only), any_of), Refusal)
    assert isinstance(await here.openings.open(at(ADDRESS, only), TALK), Session)
    assert len(here.life.sessions) == 1


async def test_a_token_that_allows_less_does_not_go_on_with_what_another_one_opened(here: Front, there: Front) -> None:
    session, socket = await here.open(TALK, user("ada"))
    less = at(ADDRESS, user("ada", pairs=("zh:en",)))
    refusal = here.openings.may_resume(session, less)
    assert refusal is not None
    assert refusal.code is ErrorCode.PERMISSION_DENIED
    assert here.life.sessions.is_held(session)
    await here.detach(session, socket)
    claimed = await there.openings.adopt(back(session), less)
    assert claimed is not None
    assert there.openings.may_resume(claimed, less) is not None
    assert len(there.life.sessions) == 0


async def test_a_principal_has_no_more_sessions_than_its_token_allows(here: Front) -> None:
    one, two = user("ada", max_sessions=2), user("bob", max_sessions=2)
    first, socket = await here.open(TALK, one)
    opened = await asyncio.gather(*(here.openings.open(at(ADDRESS, one), TALK) for _ in range(3)))
    refused = [session for session in opened if isinstance(session, Refusal)]
    assert {refusal.code for refusal in refused} == {ErrorCode.QUOTA_EXCEEDED}
    assert len(refused) == 2
    await here.open(TALK, two)
    # One whose socket is gone takes nobody's place, until it is resumed.
    await here.detach(first, socket)
    await here.open(TALK, one)
    denied = here.openings.may_resume(first, at(ADDRESS, one))
    assert denied is not None
    assert denied.code is ErrorCode.QUOTA_EXCEEDED
    assert here.life.sessions.is_held(first)
    for session in here.life.sessions.all:
        here.openings.drop(session)
    assert here.life.sessions._of_principal == {}
    assert here.openings._opening == {}
