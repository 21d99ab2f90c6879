"""Opening, taking over, reattaching and ending sessions."""

from collections import Counter
from collections.abc import Callable

from lingua_scheduler.domain.access.principals import Principal
from lingua_scheduler.domain.sessions.handover import ResumeToken
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.services.attempts.peers import ClientPeer, CloseCode
from lingua_scheduler.services.attempts.permissions import denial
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.dispatch.audio_budget import AudioBudget
from lingua_scheduler.services.dispatch.chains import Chains
from lingua_scheduler.services.dispatch.languages import LanguageLookup
from lingua_scheduler.services.sessions.session_records import SessionRecords
from lingua_scheduler.services.sessions.sessions import Session, Sessions
from lingua_scheduler.services.sessions.terms import terms_of
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs, metrics
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.pairing import Pairing
from lingua_sdk.protocol.session import SessionInit

_log = logs.get()

TOO_MANY = "this credential allows {most} sessions at once, and has them (max_sessions); close one first"

_IDLE_SESSIONS = metrics.IDLE_CLOSED.labels("session")


class Openings:
    """`idle_ms` without speech end a session; 0 for never."""

    def __init__(
        self, sessions: Sessions, records: SessionRecords, budget: AudioBudget, languages: LanguageLookup, idle_ms: int
    ) -> None:
        self.sessions = sessions
        self.records = records
        self.budget = budget
        self.languages = languages
        self._idle_s = idle_ms / 1000
        # Sessions of principals with a limit that are being opened.
        self._opening: Counter[str] = Counter()
        # Ways to serve languages that no single node serves.
        self.chains: Chains | None = None
        # Whether a caller's credential was revoked, so that nothing is kept for it.
        self.is_revoked: Callable[[Principal], bool] = _never
        # Called when a session ends here; the second one if another instance goes on with it.
        self.on_dropped: Callable[[Session], None] = _ignore
        self.on_taken: Callable[[Session], None] = _ignore

    async def open(self, peer: ClientPeer, init: SessionInit, pairing: Pairing | None = None) -> Session | Refusal:
        """Write the record to Redis before answering the client, so that another instance can continue the session."""
        terms = terms_of(init)
        if complaint := terms.complaint():
            return Refusal(ErrorCode.INVALID_MESSAGE, f"session_init: {complaint}")
        if self.sessions.is_full:
            return Refusal(ErrorCode.NODE_OVERLOADED, "too many open sessions (server.max_sessions); try again later")
        if refusal := denial(peer.principal, terms.pools()) or self._over_quota(peer):
            return refusal
        self._opening[belongs_to := peer.principal.owner_digest] += 1
        try:
            return await self._open(peer, init, terms, pairing)
        finally:
            self._opening[belongs_to] -= 1
            if not self._opening[belongs_to]:
                del self._opening[belongs_to]

    async def _open(self, peer: ClientPeer, init: SessionInit, terms: Terms, pairing: Pairing | None) -> Session:
        # The acknowledgement says which languages are used, and must know of nodes that came a moment ago.
        session = self._make(peer, init, terms, self.records.owner())
        session.pair(pairing)
        await self.languages.look_up(terms, session.whose)
        while not await self.records.open(session, init):
            session = self._make(peer, init, terms, self.records.owner())
            session.pair(pairing)
        self.sessions.add(session)
        self.records.hold(session, self._taken)
        session.attach(peer)
        return session

    def _make(self, peer: ClientPeer, init: SessionInit, terms: Terms, owner: str, session_id: str = "") -> Session:
        session = self.sessions.make(init, terms, owner, session_id)
        session.address, session.principal = peer.address, peer.principal
        session.belongs_to = peer.principal.owner_digest
        session.tenant_id = peer.principal.work_tenant(init.tenant_id)
        return session

    def _over_quota(self, peer: ClientPeer) -> Refusal | None:
        """The limit is per instance: sessions at other instances are not counted."""
        most, belongs_to = peer.principal.max_sessions, peer.principal.owner_digest
        if not most or self.sessions.speaking_for(belongs_to) + self._opening[belongs_to] < most:
            return None
        return Refusal(ErrorCode.QUOTA_EXCEEDED, TOO_MANY.format(most=most))

    def may_resume(self, session: Session, peer: ClientPeer) -> Refusal | None:
        """Why its principal may not go on with it: its token may allow less than the one that opened the session."""
        refusal = denial(peer.principal, session.pools)
        if refusal is None and session.peer is None:
            refusal = self._over_quota(peer)
        if refusal is not None and session.peer is None and session.grace is None and self.sessions.is_held(session):
            # It was claimed a moment ago, and no socket will ever close.
            self.drop(session)
        return refusal

    async def unserved(self, session: Session) -> str | None:
        """Why no node serves its languages now, for a person who is about to speak; None if one does."""
        why = await self.languages.unserved(session.terms, session.whose)
        if why is None or self.chains is None:
            return why
        plan = self.chains.plan_for(session.terms, session.whose, allows_pivot=session.allows_pivot)
        return why if plan is None else None

    async def adopt(self, init: SessionInit, peer: ClientPeer) -> Session | None:
        """A client comes back with a token that is not ours: perhaps its session was held elsewhere."""
        session_id, secret = ResumeToken.parse(init.resume_token or "")
        if not secret or self.sessions.is_full:
            return None
        return await self._claim(session_id, peer, init.resume_token or "", init.last_utterance_index)

    async def adopt_by_id(self, session_id: str, peer: ClientPeer) -> Session | None:
        """The API gateway knows its session by the id alone. What we have of it is out of date if it went elsewhere."""
        here = self.sessions.find(session_id)
        if here is not None and here.is_open_to(peer):
            await self.let_go_if_taken(here, peer)
        here = self.sessions.find(session_id)
        if here is not None:
            return here if here.is_open_to(peer) else None
        return None if self.sessions.is_full else await self._claim(session_id, peer)

    async def let_go_if_taken(self, session: Session, peer: ClientPeer) -> None:
        """Before a socket that came back speaks for what we have: another instance may have gone on with it."""
        try:
            is_ours = await self.records.is_still_ours(session, peer.address)
        except RedisAway:
            # Better what we know than nothing.
            return
        if not is_ours and self.sessions.is_held(session):
            self._taken(session)

    async def _claim(
        self, session_id: str, peer: ClientPeer, token: str = "", last_index: int | None = None
    ) -> Session | None:
        owner = self.records.owner()
        belongs_to = peer.principal.owner_digest
        claimed = await self.records.claim(session_id, owner, token, peer.address, last_index, belongs_to=belongs_to)
        if claimed is None:
            return None
        if (here := self.sessions.find(session_id)) is not None:
            # Two sockets came with the token at once, and the other was quicker.
            self.on_taken(here)
            self.drop(here)
        session = self._make(peer, claimed.init, terms_of(claimed.init), owner, session_id)
        if token:
            session.resume_token = token
            session.is_orphan = True
        session.pair(claimed.pairing)
        session.generation, session.asked = claimed.generation, claimed.asked
        session.node_session_id = f"{session_id}-{claimed.generation}"
        session.conversation.begin_at(claimed.beginning)
        if claimed.binding is not None:
            session.binding, session.bound_turn = claimed.binding, claimed.beginning.turn
        for outcome in claimed.outcomes:
            session.sent.add(outcome)
        self.sessions.add(session)
        self.records.hold(session, self._taken)
        _log.info("session.adopted", session_id=session_id, next_index=claimed.beginning.next_index)
        return session

    def renew(self, session: Session) -> None:
        """A sign of life of its client."""
        session.sent.forget_arrived()

    def _taken(self, session: Session) -> None:
        """The client continued at another instance: drop the local state."""
        _log.info("session.taken", session_id=session.session_id)
        if session.peer is not None:
            session.peer.close(CloseCode.SUPERSEDED, "the client connected elsewhere")
        self.on_taken(session)
        self.drop(session)

    def attach(self, session: Session, peer: ClientPeer) -> None:
        """Another socket of its client speaks for it."""
        session.attach(peer)
        self._note_socket(session)

    def detached(self, session: Session, peer: ClientPeer) -> None:
        self.sessions.detach(session, peer, self.drop)
        if session.peer is None and self.sessions.is_held(session) and self.is_revoked(session.principal):
            # It was opened while its credential was being revoked.
            self.drop(session)
            return
        if session.peer is None and not session.is_closed:
            self._note_socket(session)

    def _note_socket(self, session: Session) -> None:
        """Other instances find a session by its id only while no socket speaks for it, so Redis must know."""
        if session.is_gateway:
            self.records.note(session)

    async def close_idle(self) -> None:
        """Sessions in which nothing is said give their places to others. Their clients may come back at once."""
        for session in self.sessions.silent_for(self._idle_s) if self._idle_s else ():
            _IDLE_SESSIONS.inc()
            _log.info("session.idle", session_id=session.session_id)
            if session.peer is not None:
                session.peer.close(CloseCode.TRY_LATER, "no speech for too long (sessions.idle_ms); connect again")
            self.drop(session)

    def drop(self, session: Session, is_finished: bool = False) -> None:
        if session.stay is not None:
            self.on_dropped(session)
        self.budget.give_back(session, session.conversation.drop())
        self.records.close(session)
        self.sessions.drop(session, is_finished=is_finished)


def _ignore(_: Session) -> None:
    """Until it is set."""


def _never(_: Principal) -> bool:
    """Until it is set."""
    return False
