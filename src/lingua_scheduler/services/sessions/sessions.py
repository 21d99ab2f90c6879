"""The sessions of this instance: found by id, open as long as their socket and for a grace period after."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.principals import LOCAL, Principal
from lingua_scheduler.domain.access.visibility import tenant_of_job
from lingua_scheduler.domain.jobs.requests import RequestMemory
from lingua_scheduler.domain.pools.lanes import Whose
from lingua_scheduler.domain.rooms.rooms import Stay
from lingua_scheduler.domain.sessions.conversation import Conversation
from lingua_scheduler.domain.sessions.handover import ResumeToken
from lingua_scheduler.domain.sessions.pseudonyms import Pseudonyms
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.domain.sessions.utterances import CutRules
from lingua_scheduler.services.attempts.assignments import Assignment
from lingua_scheduler.services.attempts.peers import ClientPeer, CloseCode
from lingua_scheduler.services.attempts.trails import Trail
from lingua_scheduler.services.attempts.work import NO_WISH, Binding, Wish
from lingua_scheduler.services.sessions.remembered import ANSWERS, Answer, Memory, Remembered
from lingua_scheduler.setting_sections.sessions import DeliverySettings, SessionsSettings
from lingua_scheduler.telemetry import metrics
from lingua_sdk.domain.pairing import Pairing
from lingua_sdk.protocol.session import MissingResult, SessionInit
from lingua_sdk.protocol.shapes import Message

K = TypeVar("K")

# The platform of the API gateway, which treats any frame that is not text as the end of its wait.
GATEWAY = "api-gateway"
# Closed sessions remembered for `sessions.grace_ms`, for clients that missed the end; the oldest go first.
MAX_FINISHED = 10_000
# In the place of a number in a room: existing clients are not told what became of their own speech there.
UNTOLD = -1


class Session:
    """One client's session: its settings, its speech, and the outcomes it still has to get."""

    __slots__ = (
        "address",
        "allows_pivot",
        "asked",
        "audio_bytes",
        "awaited",
        "away",
        "backlog",
        "belongs_to",
        "binding",
        "bound_turn",
        "conversation",
        "generation",
        "given_trace_id",
        "grace",
        "heard_at",
        "is_gateway",
        "is_noting",
        "is_orphan",
        "meter",
        "must_note",
        "names",
        "node_session_id",
        "noted_at_s",
        "owner",
        "pairing",
        "paused_until_ms",
        "peer",
        "piece_pools",
        "piece_terms",
        "platform",
        "playing",
        "pools",
        "principal",
        "refused_until_ms",
        "requests",
        "resume_token",
        "rings_at_s",
        "room_places",
        "sent",
        "session_id",
        "spoke_at_s",
        "stay",
        "tenant_id",
        "terms",
        "timer",
        "trace_id",
        "trails",
        "uplink_ms",
        "whole_pools",
        "whole_terms",
        "wish",
    )

    def __init__(
        self,
        conversation: Conversation[Answer],
        session_id: str,
        terms: Terms,
        init: SessionInit,
        owner: str,
        memory: Memory,
    ) -> None:
        self.conversation = conversation
        self.session_id = session_id
        # Whether it was held by an instance that is gone, so that its nodes may be on their way here too.
        self.is_orphan = False
        # Its name where utterances are counted anew: one that was held elsewhere has another than there.
        self.node_session_id = session_id
        # Our hold on it, how often it was claimed by then, and what its client asked for, as it is written down.
        self.owner = owner
        self.generation = 1
        self.asked = ""
        self.noted_at_s = 0.0
        self.is_noting = self.must_note = False
        self.terms = terms
        self.pools = terms.pools()
        # Those of the latest whole utterance, which brings its own; the next one usually brings the same.
        self.whole_terms: Terms | None = None
        self.whole_pools: tuple[str, ...] = ()
        # Those of short utterances that are being joined; None while speech comes in chunks.
        self.piece_terms: Terms | None = None
        self.piece_pools: tuple[str, ...] = ()
        # The API gateway takes a socket for each utterance and waits there for its result alone, see `post`: what it
        # sent on its present socket.
        self.is_gateway = init.platform == GATEWAY
        self.platform = init.platform
        self.awaited: set[int] = set()
        # Attempts at nodes that may say nothing, by utterance.
        self.away: dict[int, Assignment] = {}
        self.tenant_id = init.tenant_id or ""
        self.allows_pivot = init.allow_pivot is not False
        self.given_trace_id = init.trace_id
        self.trace_id = init.trace_id or secrets.token_hex(8)
        # Trails of utterances whose outcome was not sent yet, by number, while tracing is on.
        self.trails: dict[int, Trail] = {}
        self.requests = RequestMemory()
        self.peer: ClientPeer | None = None
        # Digest of the principal that opened it; no other may speak for it. Empty if it needed no credential.
        self.belongs_to = ""
        # Whose socket spoke for it last, with the credential that it had then.
        self.principal = LOCAL
        # Where its latest socket came from.
        self.address = ""
        # Under which its address has a session more, and when something was last said in it.
        self.meter = ""
        self.spoke_at_s = memory.clock()
        # The room it is in, and the numbers that its utterances under way have there.
        self.stay: Stay | None = None
        self.room_places: dict[int, int] | None = None
        # The private node that it is paired with, and what its jobs wish for.
        self.pairing: Pairing | None = None
        self.wish = NO_WISH
        # Outcomes that wait for a socket, and those that left lately: a socket that broke may have swallowed them.
        self.backlog = Remembered(memory)
        self.sent = Remembered(memory)
        self.resume_token = str(ResumeToken(session_id, secrets.token_urlsafe(16)))
        # How nodes know it, see `Sessions.add`.
        self.names = Pseudonyms(self.resume_token.encode(), session_id)
        # The nodes whose results wait for those before them, by utterance.
        self.heard_at: dict[int, str] = {}
        self.timer: asyncio.TimerHandle | None = None
        self.rings_at_s = 0.0
        self.grace: asyncio.TimerHandle | None = None
        # What sticks to a node: the current turn, or the whole session.
        self.binding = Binding()
        self.bound_turn = -1
        # Audio that waits for its translation, and until when its client was asked to pause.
        self.audio_bytes = 0
        self.paused_until_ms = 0.0
        self.refused_until_ms = 0.0
        # How long the client's latest frame took to get here, by the client's clock.
        self.uplink_ms: int | None = None
        # The job and number of the latest result: what is being played.
        self.playing: tuple[str, int] | None = None

    @property
    def is_closed(self) -> bool:
        return self.conversation.is_closed

    @property
    def caller(self) -> Principal:
        """Who speaks for it. A socket may have shown a newer token since it was attached."""
        return self.principal if self.peer is None else self.peer.principal

    def pair(self, pairing: Pairing | None) -> None:
        """From now on all its jobs go to this node, and to no other."""
        if pairing is not None:
            self.pairing = pairing
            self.wish = Wish(pairing.node_id, is_strict=True, paired_tenant=pairing.tenant)

    @property
    def whose(self) -> Whose:
        """Whose nodes may translate for it."""
        paired = self.wish.paired_tenant
        return Whose(paired, is_private_only=True) if paired else Whose(tenant_of_job(self.belongs_to, self.tenant_id))

    def post(self, message: Message) -> None:
        """Send to the socket that was used last; without one, outcomes wait for the next."""
        if not isinstance(message, ANSWERS):
            if self.peer is not None:
                self.peer.post(message)
            return
        if self.is_gateway and not self._is_awaited(message):
            return
        is_sent = self.peer is not None and self.peer.post(message)
        (self.sent if is_sent else self.backlog).add(message)

    def _is_awaited(self, outcome: Answer) -> bool:
        """The gateway takes any result for that of its last utterance, and waits for ever when there is none."""
        if outcome.utterance_index not in self.awaited:
            return False
        self.awaited.discard(outcome.utterance_index)
        if self.peer is not None and isinstance(outcome, MissingResult) and not self.awaited:
            self.peer.post(outcome)
            self.sent.add(outcome)
            self.peer.close(CloseCode.TRY_LATER, f"no result: {outcome.reason}")
            return False
        return True

    def is_open_to(self, peer: ClientPeer) -> bool:
        """Whether a socket may speak for it without its token: its own; or, when that is gone, another one of the same
        principal from the same address, because the gateway knows its session by the id alone."""
        if self.peer is peer:
            return True
        if self.belongs_to != peer.principal.owner_digest:
            return False
        return (self.peer is None or not self.peer.is_open) and self.address == peer.address

    def resume(self, peer: ClientPeer, last_index: int | None) -> None:
        """The client reconnected: send the outcomes it has not got, in order."""
        former = self.peer
        self.conversation.resumed()
        for outcome in self.sent:
            if last_index is None or outcome.utterance_index > last_index:
                peer.post(outcome)
        self.attach(peer)
        if former is not None and former is not peer:
            former.close(CloseCode.SUPERSEDED, "the client connected again")

    def attach(self, peer: ClientPeer) -> None:
        if self.peer is peer:
            return
        former, self.peer = self.peer, peer
        self.address, self.principal = peer.address, peer.principal
        if peer.principal.pairs:
            # Another token of its user may allow other languages.
            self.whole_terms = None
        peer.ping(not self.is_gateway)
        if self.is_gateway:
            if former is not None and self.awaited:
                # It would wait for ever: answers go to the socket that spoke last.
                former.close(CloseCode.SUPERSEDED, "the session continues on another connection")
            self.awaited.clear()
        if self.grace is not None:
            self.grace.cancel()
            self.grace = None
        while (outcome := self.backlog.first()) is not None:
            # What the gateway did not wait for is not the answer to what it asks on its next socket.
            if not self.is_gateway and not peer.post(outcome):
                break
            self.sent.add(self.backlog.pop())


class Sessions:
    def __init__(
        self,
        settings: SessionsSettings,
        delivery: DeliverySettings,
        max_sessions: int,
        max_remembered_bytes: int = 2**28,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._delivery = delivery
        self._max_sessions = max_sessions
        self.memory = Memory(max_remembered_bytes, clock)
        # What the names of sessions at nodes are made with, the same at all instances. Without it the resume token of
        # each session is used: it lives as long as the session, and its client brings it to any instance.
        self.names_key = b""
        self._by_id: dict[str, Session] = {}
        self._by_token: dict[str, Session] = {}
        # Those that were closed, the oldest first, and when they are forgotten.
        self._finished: dict[Session, asyncio.TimerHandle] = {}
        # How many each address has, also those that are being opened.
        self._of_address: Counter[str] = Counter()
        # Those of each principal that has a credential.
        self._of_principal: dict[str, set[Session]] = {}
        # How many ask for what, in words, and as pools with whose nodes may serve them.
        self.languages: Counter[str] = Counter()
        self.pools: Counter[tuple[tuple[str, ...], Whose]] = Counter()
        self._rules = CutRules(
            pause_ms=settings.pause_ms,
            max_duration_ms=settings.max_duration_ms,
            max_bytes=settings.max_utterance_bytes,
            hangover_auto_ms=settings.hangover_auto_ms,
            hangover_manual_ms=settings.hangover_manual_ms,
            short_merge_ms=settings.short_merge_ms,
        )

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def all(self) -> list[Session]:
        return list(self._by_id.values())

    @property
    def is_full(self) -> bool:
        """Only open sessions count: closed ones have a limit of their own."""
        return len(self._by_id) >= self._max_sessions

    def take_place(self, meter: str) -> bool:
        """Count one more session of an address; False if it has too many. Followed by `settle_place`."""
        if meter and self._of_address[meter] >= self._settings.max_per_address:
            return False
        if meter:
            self._of_address[meter] += 1
        return True

    def settle_place(self, meter: str, session: Session | None) -> None:
        """The place is the session's now; it is given back if there is none, or if it has one already."""
        if session is None or session.meter or not self.is_held(session):
            self._give_place_back(meter)
        else:
            session.meter = meter

    def _give_place_back(self, meter: str) -> None:
        if meter:
            _count_down(self._of_address, meter)

    def is_held(self, session: Session) -> bool:
        return self._by_id.get(session.session_id) is session

    def silent_for(self, idle_s: float) -> list[Session]:
        """Sessions without speech for this long. In a room others speak, and it ends by itself when they do not."""
        before_s = self._clock() - idle_s
        return [found for found in self._by_id.values() if found.spoke_at_s < before_s and found.stay is None]

    def make(self, init: SessionInit, terms: Terms, owner: str, session_id: str = "") -> Session:
        """Create a session that cannot be found yet; without an id it gets one."""
        while not session_id or session_id in self._by_id:
            session_id = f"s-{secrets.token_hex(8).upper()}"
        conversation = Conversation[Answer](session_id, self._rules, self._delivery.hold_ms, self._delivery.max_held)
        return Session(conversation, session_id, terms, init, owner, self.memory)

    def add(self, session: Session) -> None:
        if session.session_id not in self._by_id:
            self.languages[session.terms.languages] += 1
            self.pools[session.pools, session.whose] += 1
        self._by_id[session.session_id] = session
        suffix = session.node_session_id.removeprefix(session.session_id)
        session.names = Pseudonyms(self.names_key or session.resume_token.encode(), session.session_id, suffix)
        if session.belongs_to:
            self._of_principal.setdefault(session.belongs_to, set()).add(session)
        self._by_token[session.resume_token] = session
        metrics.SESSIONS.set(len(self._by_id))

    def change_terms(self, session: Session, terms: Terms) -> None:
        """Its client speaks another language from now on."""
        if self.is_held(session):
            _count_down(self.languages, session.terms.languages)
            _count_down(self.pools, (session.pools, session.whose))
            self.languages[terms.languages] += 1
            self.pools[terms.pools(), session.whose] += 1
        session.terms, session.pools = terms, terms.pools()
        # The node of its turn may not serve them.
        session.binding = Binding()

    def find(self, session_id: str) -> Session | None:
        return self._by_id.get(session_id)

    def find_by_token(self, token: str, belongs_to: str = "") -> Session | None:
        """Of the principal that opened it; for another one the token is worth nothing."""
        session = self._by_token.get(token)
        return session if session is not None and session.belongs_to == belongs_to else None

    def with_credentials(self) -> list[Session]:
        """Those of callers that have a credential, which may end; also closed ones that are still remembered."""
        held = (session for sessions in self._of_principal.values() for session in sessions)
        return [*held, *(session for session in self._finished if session.belongs_to)]

    def speaking_for(self, belongs_to: str) -> int:
        """How many sessions of a principal have a socket here. One whose socket is gone does not count."""
        return sum(session.peer is not None for session in self._of_principal.get(belongs_to, ()))

    def detach(self, session: Session, peer: ClientPeer, on_expiry: Callable[[Session], None]) -> None:
        """Its socket closed; the session stays open for a grace period, unless another socket uses it."""
        if session.peer is not peer:
            return
        session.peer, session.principal = None, peer.principal
        if not self.is_held(session):
            # It was dropped, or closed and is forgotten in its own time.
            return
        session.grace = asyncio.get_running_loop().call_later(self._settings.grace_ms / 1000, on_expiry, session)

    def drop(self, session: Session, *, is_finished: bool = False) -> None:
        """Drop a session. `is_finished`: its client closed it, and may reconnect for outcomes that were lost."""
        if self._by_id.get(session.session_id) is not session:
            if not is_finished and session in self._finished:
                self._forget(session)
            return
        for handle in (session.timer, session.grace):
            if handle is not None:
                handle.cancel()
        del self._by_id[session.session_id]
        if session.belongs_to:
            self._forget_of_principal(session)
        self._give_place_back(session.meter)
        _count_down(self.languages, session.terms.languages)
        _count_down(self.pools, (session.pools, session.whose))
        if is_finished:
            self._remember_finished(session)
        else:
            self._forget(session)
        metrics.SESSIONS.set(len(self._by_id))

    def _forget_of_principal(self, session: Session) -> None:
        others = self._of_principal[session.belongs_to]
        others.discard(session)
        if not others:
            del self._of_principal[session.belongs_to]

    def _remember_finished(self, session: Session) -> None:
        loop = asyncio.get_running_loop()
        self._finished[session] = loop.call_later(self._settings.grace_ms / 1000, self._forget, session)
        while len(self._finished) > MAX_FINISHED:
            self._forget(next(iter(self._finished)))

    def _forget(self, session: Session) -> None:
        # A timer that is no longer needed would keep the session in memory until it fires.
        if (timer := self._finished.pop(session, None)) is not None:
            timer.cancel()
        if self._by_token.get(session.resume_token) is session:
            del self._by_token[session.resume_token]
        session.sent.close()
        session.backlog.close()


def _count_down(counts: Counter[K], key: K) -> None:
    counts[key] -= 1
    if counts[key] <= 0:
        del counts[key]
