"""Session records in Redis: written in the background, so that another instance can continue a session."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.sessions.conversation import MAX_UNDER_WAY
from lingua_scheduler.domain.sessions.handover import (
    Beginning,
    CutNote,
    OpenOutcome,
    OwnedOutcome,
    SessionOwner,
    beginning,
    heard_without_gap,
)
from lingua_scheduler.protocol.sealing import BrokenSeal, TokenSeal, is_sealed
from lingua_scheduler.services.attempts.work import Binding
from lingua_scheduler.services.cluster.seals import Seals
from lingua_scheduler.services.sessions.remembered import Answer
from lingua_scheduler.services.sessions.sessions import Session
from lingua_scheduler.store.cluster.instances import Me
from lingua_scheduler.store.connection import NotDone, RedisAway
from lingua_scheduler.store.sessions.sessions import HeldBy, Hold, SessionRecord, SessionStore
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.domain.decoding import DECODE_ERRORS
from lingua_sdk.domain.pairing import Pairing
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.session import SessionInit

_log = logs.get()

# A session whose socket lives may be silent for hours; what is written about it is renewed long before it expires.
KEEP_MS = 3_600_000
RENEWALS = 6
# Records renewed in one write, and how often one that could not be written is tried again.
RENEWED_TOGETHER = 256
TRY_AGAIN_S = 5.0
# Records of closed sessions that wait for Redis to be removed; those beyond expire by themselves.
MAX_UNCLOSED = 10_000
# Of a claim whose answer was lost: it closes the record that names its owner, and no other.
NO_GENERATION = 0
# Number of records checked each time though they are not due: if one of them is lost, others may be too.
PROBED = 4
# As many outcomes as can be under way wait in Redis for a client that is away.
MAX_PARKED = MAX_UNDER_WAY

_CUTS = msgspec.json.Decoder(list[CutNote])
_INIT = msgspec.json.Decoder(SessionInit)


class RestoredSession(NamedTuple):
    """What was restored of a session that another instance held."""

    init: SessionInit
    # As it is written down.
    asked: str
    generation: int
    beginning: Beginning
    binding: Binding | None
    pairing: Pairing | None
    # What the client has not heard and need not be translated again.
    outcomes: list[Answer]


OnTaken = Callable[[Session], None]
# Whether an instance is, in this incarnation; in any, if it is empty.
IsAlive = Callable[[str, str], Awaitable[bool]]


class SessionRecords:
    """Renews the records of all sessions of this instance, also idle ones, and restores lost records."""

    def __init__(
        self,
        me: Me,
        store: SessionStore,
        seals: Seals,
        grace_ms: int,
        is_alive: IsAlive,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._me = me
        self._is_alive = is_alive
        self._store = store
        self._seals = seals
        self._grace_ms = grace_ms
        self._keep_ms = KEEP_MS
        self._renew_s = self._keep_ms / 1000 / RENEWALS
        self._serials = count(1)
        # Those whose record is kept alive, the one that was written longest ago first.
        self._held: OrderedDict[str, tuple[Session, OnTaken]] = OrderedDict()
        # Closed while Redis was away, or perhaps written for no session, because the answer to a write was lost.
        self._unclosed: deque[tuple[str, Hold]] = deque(maxlen=MAX_UNCLOSED)
        # Claims whose answer was lost, and until when their clients may claim again.
        self._lost_claims: deque[tuple[float, str, Hold]] = deque(maxlen=MAX_UNCLOSED)
        # What was written before may be lost.
        self._doubted_s = float("-inf")
        self.writes = Nursery("session_records")

    def owner(self) -> str:
        """A name for one hold on a session."""
        return str(SessionOwner(self._me.instance_id, self._me.incarnation, str(next(self._serials))))

    async def open(self, session: Session, init: SessionInit) -> bool:
        """Write the record before the client gets its session id; False if the id is in use."""
        session.asked = _asked(init)
        try:
            return await self._open(session) is OpenOutcome.OPENED
        except NotDone:
            raise
        except RedisAway:
            self._unclosed.append((session.session_id, _hold(session)))
            raise

    def hold(self, session: Session, on_taken: OnTaken) -> None:
        """Renew its record until it is closed; `on_taken` is called when another owner has claimed it."""
        session.noted_at_s = self._clock()
        self._held[session.session_id] = session, on_taken
        self._held.move_to_end(session.session_id)

    async def claim(
        self, session_id: str, owner: str, token: str, address: str, last_heard: int | None, *, belongs_to: str = ""
    ) -> RestoredSession | None:
        """None if the session does not exist, or is not this client's. `belongs_to`: a digest of its principal."""
        try:
            if token:
                record = await self._store.claim(
                    session_id, owner, token, self._keep_ms, address=address, belongs_to=belongs_to
                )
            else:
                record = await self._claim_by_id(session_id, owner, address, belongs_to)
        except NotDone:
            raise
        except RedisAway:
            # If Redis carried it out, the record names an owner that does not exist. The client may still come back.
            self._lost_claims.append((self._clock() + self._grace_ms / 1000, session_id, Hold(owner, NO_GENERATION)))
            raise
        if record is None:
            return None
        try:
            init = _INIT.decode(record.init)
            cuts = _CUTS.decode(record.cuts) if record.cuts else []
        except DECODE_ERRORS:
            _log.warning("session.unreadable", session_id=session_id)
            return None
        outcomes = sorted(_outcomes(session_id, token, record.outcomes), key=lambda outcome: outcome.utterance_index)
        if last_heard is None:
            last_heard = _heard_at_least(cuts, outcomes, has_token=bool(token))
        reach = heard_without_gap(last_heard, [outcome.utterance_index for outcome in outcomes])
        begin = beginning(cuts, reach)
        return RestoredSession(
            init=init,
            asked=record.init,
            generation=record.generation,
            beginning=begin,
            binding=Binding.parse(record.binding) if begin.continues_turn else None,
            pairing=Pairing.parse(record.paired),
            outcomes=[outcome for outcome in outcomes if last_heard < outcome.utterance_index <= reach],
        )

    async def _claim_by_id(self, session_id: str, owner: str, address: str, belongs_to: str) -> SessionRecord | None:
        claim = partial(self._store.claim_by_id, session_id, owner, address, self._keep_ms, belongs_to=belongs_to)
        found = await claim()
        if isinstance(found, HeldBy) and not await self._is_alive(found.instance, found.incarnation):
            # It did not live to tell that the socket is gone.
            found = await claim(dead=found)
        return found if isinstance(found, SessionRecord) else None

    async def is_still_ours(self, session: Session, address: str) -> bool:
        """Whether no other instance has claimed it since its last socket closed. Call this before another socket uses
        it.

        There is no notice of a claim. From here on others see that a socket at `address` uses the session.
        """
        outcome = await self._write(session, address, is_away=False)
        if outcome is OwnedOutcome.GONE:
            outcome = await self._restore(session)
        return outcome is not OwnedOutcome.TAKEN

    def note(self, session: Session) -> None:
        """Store the state of the session. One write at a time; changes in the meantime are coalesced into the next."""
        if session.is_noting:
            session.must_note = True
            return
        self._begin_note(session)
        self.writes.start(self._note(session))

    async def renew(self) -> None:
        """Renew the records that were written longest ago, one batch; the rest follow next time."""
        due_s = max(self._clock() - self._renew_s, self._doubted_s)
        due: list[Session] = []
        probed: list[Session] = []
        for session, _ in self._held.values():
            is_due = session.noted_at_s < due_s
            if session.is_noting or (session.must_note and not is_due):
                # What could not be written waits its time; a look would pass for the write.
                continue
            batch, most = (due, RENEWED_TOGETHER) if is_due else (probed, PROBED)
            if len(batch) >= most:
                break
            batch.append(session)
        for session in (*due, *probed):
            self._begin_note(session)
        while self._lost_claims and self._lost_claims[0][0] <= self._clock():
            self._unclosed.append(self._lost_claims.popleft()[1:])
        closed = [self._unclosed.popleft() for _ in range(min(len(self._unclosed), RENEWED_TOGETHER))]
        await asyncio.gather(*map(self._note, due), *map(self._probe, probed), *(self._close(*one) for one in closed))

    def doubt(self) -> None:
        """Redis may have lost its data: write every record again, in batches."""
        self._doubted_s = self._clock()

    def _begin_note(self, session: Session) -> None:
        session.is_noting = True
        session.noted_at_s = self._clock()
        if session.session_id in self._held:
            self._held.move_to_end(session.session_id)

    def park(self, session: Session, outcomes: Sequence[Answer]) -> None:
        """The client is disconnected: park its outcomes in Redis too, in case it reconnects to another instance."""
        if session.is_gateway:
            # It gets nothing on its next socket that it did not ask for there.
            return
        frames = [codec.encode(outcome) for outcome in outcomes]
        if (seal := self._seals.session(session.session_id, session.resume_token)) is not None:
            frames = list(map(seal.seal, frames))
        self.writes.start(self._park(session, frames))

    def close(self, session: Session) -> None:
        if self._is_held(session):
            del self._held[session.session_id]
        self.writes.start(self._close(session.session_id, _hold(session)))

    async def _probe(self, session: Session) -> None:
        """Note it only if its record is not as it should be: finding that out costs far less than writing it."""
        try:
            is_held = await self._store.is_held(session.session_id, _hold(session), self._keep_ms)
        except RedisAway:
            is_held = False
        if is_held and not session.must_note:
            session.is_noting = False
        else:
            await self._note(session)

    async def _note(self, session: Session) -> None:
        """Begun with `_begin_note`."""
        try:
            while True:
                session.must_note = False
                outcome = await self._write(session, session.address, is_away=session.peer is None)
                if outcome is OwnedOutcome.GONE:
                    outcome = await self._restore(session)
                if outcome is OwnedOutcome.TAKEN:
                    self._tell_taken(session)
                    return
                if not session.must_note:
                    return
        except RedisAway:
            session.must_note = True
            session.noted_at_s = self._clock() - self._renew_s + min(TRY_AGAIN_S, self._renew_s)
            if session.session_id in self._held:
                self._held.move_to_end(session.session_id, last=False)
            _log.info("session.not_noted", session_id=session.session_id)
        finally:
            session.is_noting = False

    async def _write(self, session: Session, address: str, *, is_away: bool) -> OwnedOutcome:
        cuts, binding = _whereabouts(session)
        return await self._store.note(
            session.session_id,
            _hold(session),
            cuts,
            binding,
            self._keep_ms,
            address=address if session.is_gateway else None,
            is_away=is_away,
        )

    async def _park(self, session: Session, frames: list[bytes]) -> None:
        try:
            parked = await self._store_parked(session, frames)
            if parked is OwnedOutcome.GONE:
                parked = await self._restore(session)
                if parked is OwnedOutcome.NOTED:
                    parked = await self._store_parked(session, frames)
        except RedisAway:
            return
        if parked is OwnedOutcome.TAKEN:
            self._tell_taken(session)

    async def _store_parked(self, session: Session, frames: list[bytes]) -> OwnedOutcome:
        return await self._store.park(
            session.session_id, _hold(session), frames, most=MAX_PARKED, keep_ms=self._grace_ms
        )

    async def _restore(self, session: Session) -> OwnedOutcome:
        """Redis has lost the record of an open session: write it again."""
        if not self._is_held(session):
            # It was closed meanwhile.
            return OwnedOutcome.NOTED
        try:
            opened = await self._open(session, *_whereabouts(session), is_away=session.peer is None)
        finally:
            if not self._is_held(session):
                # It was closed while this was under way, perhaps before the record was written.
                self._unclosed.append((session.session_id, _hold(session)))
        if opened is OpenOutcome.TAKEN:
            return OwnedOutcome.TAKEN
        metrics.SESSIONS_RESTORED.inc()
        self.doubt()
        return OwnedOutcome.NOTED

    def _is_held(self, session: Session) -> bool:
        held = self._held.get(session.session_id)
        return held is not None and held[0] is session

    async def _open(self, session: Session, cuts: str = "", binding: str = "", *, is_away: bool = False) -> OpenOutcome:
        return await self._store.open(
            session.session_id,
            _hold(session),
            session.resume_token,
            session.asked,
            self._keep_ms,
            is_found_by_id=session.is_gateway,
            cuts=cuts,
            binding=binding,
            address=session.address,
            is_away=is_away,
            belongs_to=session.belongs_to,
            paired=str(session.pairing) if session.pairing is not None else "",
        )

    def _tell_taken(self, session: Session) -> None:
        if self._is_held(session):
            self._held[session.session_id][1](session)

    async def _close(self, session_id: str, hold: Hold) -> None:
        try:
            # Twice as long as it takes until every session that is held was noted again.
            await self._store.close(session_id, hold, keep_ms=2 * self._keep_ms // RENEWALS)
        except RedisAway:
            self._unclosed.append((session_id, hold))


def _hold(session: Session) -> Hold:
    return Hold(session.owner, session.generation)


def _asked(init: SessionInit) -> str:
    """Without what is of use once."""
    kept = msgspec.structs.replace(init, resume_token=None, last_utterance_index=None, pairing_code=None)
    return msgspec.json.encode(kept).decode()


def _whereabouts(session: Session) -> tuple[str, str]:
    """Its latest cuts, and the node its open turn sticks to."""
    cuts = msgspec.json.encode(list(session.conversation.cuts)).decode()
    return cuts, str(session.binding)


def _heard_at_least(cuts: Sequence[CutNote], outcomes: Sequence[Answer], *, has_token: bool) -> int:
    """What a client has that does not say so: with a token nothing, or it would name its last outcome.

    The gateway, which has none, never says: what waits for it is what it has not.
    """
    first_parked = outcomes[0].utterance_index if outcomes else None
    if has_token:
        return min((cut.last_heard_before for cut in cuts), default=(first_parked or 0) - 1)
    if first_parked is not None:
        return first_parked - 1
    return cuts[-1].utterance_index if cuts else -1


def _outcomes(session_id: str, token: str, frames: Sequence[bytes]) -> Iterator[Answer]:
    """What can be read of what was parked; the rest is said again by the client."""
    seal = TokenSeal(session_id, token) if token and any(map(is_sealed, frames)) else None
    for frame in frames:
        try:
            message = codec.decode_for_client(seal.open(frame) if seal is not None and is_sealed(frame) else frame)
        except (BrokenSeal, codec.UnreadableFrame):
            message = None
        if isinstance(message, Answer):
            yield message
        else:
            _log.warning("session.outcome_unreadable", session_id=session_id)
