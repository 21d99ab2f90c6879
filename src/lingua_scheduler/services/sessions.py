"""The sessions this instance holds: found by id, alive as long as their socket and a while longer."""

import asyncio
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from time import monotonic
from typing import TypeVar

import msgspec

from lingua_scheduler.domain.conversation import Conversation
from lingua_scheduler.domain.requests import RequestMemory
from lingua_scheduler.domain.terms import Terms
from lingua_scheduler.domain.utterances import CutRules
from lingua_scheduler.protocol.session import MissingResult, SessionInit, TranslationResult
from lingua_scheduler.protocol.shapes import Message
from lingua_scheduler.services.peers import CloseCode, Peer
from lingua_scheduler.services.trails import Trail
from lingua_scheduler.services.work import Binding
from lingua_scheduler.settings import DeliverySettings, SessionsSettings
from lingua_scheduler.telemetry import metrics

K = TypeVar("K")

# What an utterance is answered with: a result, or the word that there is none.
Answer = TranslationResult | MissingResult

# What one session remembers for a client that comes back: more outcomes than can be under way, and so much speech.
MAX_REMEMBERED = 512
MAX_REMEMBERED_CHARS = 1_000_000
# After this long on a socket that still answers pings, what was sent on it has arrived.
ARRIVED_AFTER_S = 60.0


class Remembered:
    """The latest outcomes, bounded in number and size: when it is too much, the oldest keep their text alone."""

    __slots__ = ("_bare", "_chars", "_outcomes")

    def __init__(self) -> None:
        self._outcomes: deque[tuple[float, Answer]] = deque()
        self._chars = 0
        # So many of the oldest have no speech any more.
        self._bare = 0

    def __iter__(self) -> Iterator[Answer]:
        return (outcome for _, outcome in self._outcomes)

    def add(self, outcome: Answer) -> None:
        self._outcomes.append((monotonic(), outcome))
        self._chars += _chars(outcome)
        if len(self._outcomes) > MAX_REMEMBERED:
            self.pop()
        if self._chars > MAX_REMEMBERED_CHARS:
            self._strip_oldest()

    def _strip_oldest(self) -> None:
        while self._chars > MAX_REMEMBERED_CHARS and self._bare < len(self._outcomes) - 1:
            at_s, outcome = self._outcomes[self._bare]
            if isinstance(outcome, TranslationResult) and outcome.tts_audio:
                self._chars -= _chars(outcome)
                # A copy: the one that is being written to a socket keeps its speech.
                self._outcomes[self._bare] = (at_s, msgspec.structs.replace(outcome, tts_audio=""))
            self._bare += 1

    def first(self) -> Answer | None:
        return self._outcomes[0][1] if self._outcomes else None

    def pop(self) -> Answer:
        _, outcome = self._outcomes.popleft()
        self._chars -= _chars(outcome)
        self._bare = max(0, self._bare - 1)
        return outcome

    def forget_arrived(self) -> None:
        while self._outcomes and self._outcomes[0][0] < monotonic() - ARRIVED_AFTER_S:
            self.pop()


def _chars(outcome: Answer) -> int:
    return len(outcome.tts_audio) if isinstance(outcome, TranslationResult) else 0


class Session:
    """One client: what it asked for, what it said, what it still has to hear."""

    __slots__ = (
        "audio_bytes",
        "backlog",
        "binding",
        "bound_turn",
        "conversation",
        "given_trace_id",
        "grace",
        "is_noting",
        "must_note",
        "node_session_id",
        "noted_at_s",
        "owner",
        "paused_until_ms",
        "peer",
        "playing",
        "pools",
        "refused_until_ms",
        "requests",
        "resume_token",
        "sent",
        "session_id",
        "tenant_id",
        "terms",
        "timer",
        "trace_id",
        "trails",
        "uplink_ms",
        "whole_pools",
        "whole_terms",
    )

    def __init__(
        self, conversation: Conversation[Answer], session_id: str, terms: Terms, init: SessionInit, owner: str
    ) -> None:
        self.conversation = conversation
        self.session_id = session_id
        # How nodes know it: one that was held elsewhere has a name they have not seen yet.
        self.node_session_id = session_id
        # Our hold on it, and what was written about it.
        self.owner = owner
        self.noted_at_s = 0.0
        self.is_noting = self.must_note = False
        self.terms = terms
        self.pools = terms.pools()
        # Those of the latest whole utterance, which brings its own; the next one usually brings the same.
        self.whole_terms: Terms | None = None
        self.whole_pools: tuple[str, ...] = ()
        self.tenant_id = init.tenant_id or ""
        self.given_trace_id = init.trace_id
        self.trace_id = init.trace_id or secrets.token_hex(8)
        # Of utterances whose answer has not left, by number, while somebody traces.
        self.trails: dict[int, Trail] = {}
        self.requests = RequestMemory()
        self.peer: Peer | None = None
        # Outcomes that wait for a socket, and those that left lately: a socket that broke may have swallowed them.
        self.backlog = Remembered()
        self.sent = Remembered()
        self.resume_token = f"{session_id}.{secrets.token_urlsafe(16)}"
        self.timer: asyncio.TimerHandle | None = None
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

    def post(self, message: Message) -> None:
        """To the socket that spoke last; outcomes wait for the next one while there is none."""
        if self.peer is not None and self.peer.post(message):
            if isinstance(message, Answer):
                self.sent.add(message)
        elif isinstance(message, Answer):
            self.backlog.add(message)

    def resume(self, peer: Peer, last_index: int | None) -> None:
        """The client is back: what it has not got is sent again, in order."""
        former = self.peer
        self.conversation.resumed()
        for outcome in self.sent:
            if last_index is None or outcome.utterance_index > last_index:
                peer.post(outcome)
        self.attach(peer)
        if former is not None and former is not peer:
            former.close(CloseCode.SUPERSEDED, "the client connected again")

    def attach(self, peer: Peer) -> None:
        if self.peer is peer:
            return
        self.peer = peer
        if self.grace is not None:
            self.grace.cancel()
            self.grace = None
        while (outcome := self.backlog.first()) is not None and peer.post(outcome):
            self.sent.add(self.backlog.pop())


class Sessions:
    def __init__(self, settings: SessionsSettings, delivery: DeliverySettings, max_sessions: int) -> None:
        self._settings = settings
        self._delivery = delivery
        self._max_sessions = max_sessions
        self._by_id: dict[str, Session] = {}
        self._by_token: dict[str, Session] = {}
        # How many ask for what, in words and as pools.
        self.languages: Counter[str] = Counter()
        self.pools: Counter[tuple[str, ...]] = Counter()
        self._rules = CutRules(
            pause_ms=settings.pause_ms,
            max_duration_ms=settings.max_duration_ms,
            max_bytes=settings.max_utterance_bytes,
            hangover_auto_ms=settings.hangover_auto_ms,
            hangover_manual_ms=settings.hangover_manual_ms,
            padding_auto_ms=settings.padding_auto_ms,
            padding_manual_ms=settings.padding_manual_ms,
            short_merge_ms=settings.short_merge_ms,
        )

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def all(self) -> list[Session]:
        return list(self._by_id.values())

    @property
    def is_full(self) -> bool:
        """Sessions that just ended count too, as long as they are remembered."""
        return len(self._by_token) >= self._max_sessions

    def make(self, init: SessionInit, terms: Terms, owner: str, session_id: str = "") -> Session:
        """A session that nobody can find yet; without a name it gets one."""
        while not session_id or session_id in self._by_id:
            session_id = f"s-{secrets.token_hex(4).upper()}"
        conversation = Conversation[Answer](session_id, self._rules, self._delivery.hold_ms, self._delivery.max_held)
        return Session(conversation, session_id, terms, init, owner)

    def add(self, session: Session) -> None:
        if session.session_id not in self._by_id:
            self.languages[session.terms.languages] += 1
            self.pools[session.pools] += 1
        self._by_id[session.session_id] = session
        self._by_token[session.resume_token] = session
        metrics.SESSIONS.set(len(self._by_id))

    def find(self, session_id: str) -> Session | None:
        return self._by_id.get(session_id)

    def find_by_token(self, token: str) -> Session | None:
        return self._by_token.get(token)

    def detach(self, session: Session, peer: Peer, on_expiry: Callable[[Session], None]) -> None:
        """Its socket is gone; the session stays for a grace period, unless another socket speaks for it."""
        if session.peer is not peer:
            return
        session.peer = None
        session.grace = asyncio.get_running_loop().call_later(self._settings.grace_ms / 1000, on_expiry, session)

    def drop(self, session: Session, *, is_finished: bool = False) -> None:
        """`is_finished`: its client has closed it, and may come back for what a breaking socket swallowed."""
        if self._by_id.get(session.session_id) is not session:
            return
        for handle in (session.timer, session.grace):
            if handle is not None:
                handle.cancel()
        del self._by_id[session.session_id]
        _count_down(self.languages, session.terms.languages)
        _count_down(self.pools, session.pools)
        if is_finished:
            loop = asyncio.get_running_loop()
            loop.call_later(self._settings.grace_ms / 1000, self._by_token.pop, session.resume_token, None)
        else:
            self._by_token.pop(session.resume_token, None)
        metrics.SESSIONS.set(len(self._by_id))


def _count_down(counts: Counter[K], key: K) -> None:
    counts[key] -= 1
    if counts[key] <= 0:
        del counts[key]


def now_ms() -> float:
    """Epoch milliseconds for the wire; durations inside the process use the loop's own clock."""
    return time.time() * 1000
