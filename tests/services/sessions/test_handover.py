"""Holds on sessions: whose they are, who lost them, and who may claim them."""

from typing import Any, cast

import pytest

from lingua_scheduler.domain.cluster.instances import PresenceOutcome
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.protocol.session import SessionInit
from lingua_scheduler.services.attempts.peers import ClientPeer
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.services.cluster.seals import Seals
from lingua_scheduler.services.sessions.handover import Survival
from lingua_scheduler.services.sessions.sessions import GATEWAY, Session, Sessions
from lingua_scheduler.settings import DeliverySettings, InstancesSettings, SessionsSettings
from lingua_scheduler.store.sessions.sessions import HeldBy
from lingua_scheduler.store.store import Store
from tests.support.mail import who

ADDRESS = "192.0.2.1"
INIT = SessionInit(client_version="x", platform=GATEWAY, src_lang="en", tgt_lang="zh")
TALK = SessionInit(client_version="x", platform="web", src_lang="en", tgt_lang="zh")


class Life:
    """One life of an instance, as far as sessions go, and which of its sessions it lost to others."""

    def __init__(self, store: Store, instance: str, incarnation: str = "life-1") -> None:
        me = who(instance, incarnation)
        self.presence = Presence(me, store, InstancesSettings())
        self.survival = Survival(me, store.sessions, Seals(self.presence), 30_000, self.presence.is_alive)
        self.sessions = Sessions(SessionsSettings(), DeliverySettings(), 10)
        self.lost: list[str] = []

    async def open(self, init: SessionInit = INIT) -> Session:
        session = self.sessions.make(init, Terms("en", "zh"), self.survival.owner())
        session.address = ADDRESS
        assert await self.survival.open(session, init)
        self.survival.hold(session, self._taken)
        return session

    async def claim(self, former: Session) -> Session:
        owner = self.survival.owner()
        token = "" if former.is_gateway else former.resume_token
        claimed = await self.survival.claim(former.session_id, owner, token, ADDRESS, None)
        assert claimed is not None
        session = self.sessions.make(claimed.init, former.terms, owner, former.session_id)
        session.address, session.generation, session.asked = ADDRESS, claimed.generation, claimed.asked
        session.resume_token = former.resume_token
        self.survival.hold(session, self._taken)
        return session

    async def note(self, session: Session, peer: object = None) -> None:
        session.peer = cast("ClientPeer | None", cast("Any", peer))
        self.survival.note(session)
        assert await self.survival.writes.settle(10) == 0

    async def close(self, session: Session) -> None:
        self.survival.close(session)
        assert await self.survival.writes.settle(10) == 0

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
    assert await other.survival.claim(session.session_id, other.survival.owner(), "", ADDRESS, None) is None


async def test_an_owner_of_a_release_without_incarnations_is_judged_by_its_instance(store: Store) -> None:
    alive, other = Life(store, "a"), Life(store, "b")
    await alive.presence.join()
    await other.presence.join()
    assert (HeldBy("a 7").instance, HeldBy("a 7").incarnation) == ("a", "")
    session = await alive.open()
    await store.line.call("HSET", store.keys.session(session.session_id), "owner", "a 7")
    assert await other.survival.claim(session.session_id, other.survival.owner(), "", ADDRESS, None) is None


# From one instance to another and back


async def test_a_session_is_still_ours_until_another_instance_claims_it(store: Store) -> None:
    here, there = Life(store, "a"), Life(store, "b")
    await here.presence.join()
    session = await here.open()
    await here.note(session)  # its socket is gone
    assert await here.survival.is_still_ours(session, ADDRESS)
    owner = there.survival.owner()
    assert await there.survival.claim(session.session_id, owner, "", ADDRESS, None) is None  # one speaks for it again
    await here.note(session)
    await there.claim(session)
    assert not await here.survival.is_still_ours(session, ADDRESS)


async def test_a_session_whose_record_is_lost_is_still_ours_and_written_again(store: Store) -> None:
    here = Life(store, "a")
    session = await here.open()
    record = store.keys.session(session.session_id)
    await store.line.call("DEL", record)
    assert await here.survival.is_still_ours(session, ADDRESS)
    assert await store.line.call("HGET", record, "owner") == session.owner


@pytest.mark.parametrize("init", [INIT, TALK], ids=["gateway", "token"])
async def test_a_session_that_was_closed_elsewhere_is_not_brought_back(store: Store, init: SessionInit) -> None:
    here, there = Life(store, "a"), Life(store, "b")
    first = await here.open(init)
    await here.note(first)
    second = await there.claim(first)
    await there.close(second)
    await here.note(first)
    assert here.lost == [first.session_id]
    assert not await here.survival.is_still_ours(first, ADDRESS)
    for token in (first.resume_token, ""):
        owner = there.survival.owner()
        assert await there.survival.claim(first.session_id, owner, token, ADDRESS, None) is None
