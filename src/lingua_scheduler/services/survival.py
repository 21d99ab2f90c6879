"""What outlives this process of a session: written to Redis on the side, claimed by whoever the client comes to."""

from collections.abc import Callable, Sequence
from itertools import count
from time import monotonic
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.conversation import MAX_UNDER_WAY
from lingua_scheduler.domain.survival import Beginning, CutNote, OpenOutcome, OwnedOutcome, beginning, heard_without_gap
from lingua_scheduler.protocol import codec
from lingua_scheduler.protocol.session import SessionInit
from lingua_scheduler.services.sessions import Answer, Session
from lingua_scheduler.services.work import Binding
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.sessions import Sessions as SessionStore
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.tasks import Nursery

_log = logs.get()

# A session whose socket lives may be silent for hours; what is written about it is renewed long before it expires.
KEEP_MS = 3_600_000
RENEW_S = 600.0
# As many outcomes as can be under way wait in Redis for a client that is away.
MAX_PARKED = MAX_UNDER_WAY

_CUTS = msgspec.json.Decoder(list[CutNote])
_INIT = msgspec.json.Decoder(SessionInit)


class Claimed(NamedTuple):
    """A session that was held elsewhere, as far as it goes on here."""

    init: SessionInit
    generation: int
    beginning: Beginning
    binding: Binding | None
    # What the client has not heard and need not be translated again.
    outcomes: list[Answer]


class Survival:
    def __init__(self, instance: str, store: SessionStore, grace_ms: int) -> None:
        self._instance = instance
        self._store = store
        self._grace_ms = grace_ms
        self._serials = count(1)
        self.writes = Nursery("survival")

    def owner(self) -> str:
        """A name for one hold on a session: an old one's writes never touch a later one's."""
        return f"{self._instance} {next(self._serials)}"

    async def open(self, session: Session, init: SessionInit) -> bool:
        """Before the client hears of its session; False when the name is taken."""
        asked = msgspec.json.encode(msgspec.structs.replace(init, resume_token=None, last_utterance_index=None))
        token = session.resume_token
        outcome = await self._store.open(session.session_id, session.owner, token, asked.decode(), KEEP_MS)
        session.noted_at_s = monotonic()
        return outcome is OpenOutcome.OPENED

    async def claim(self, session_id: str, owner: str, token: str, last_heard: int | None) -> Claimed | None:
        """None when there is no such session any more."""
        record = await self._store.claim(session_id, owner, token, KEEP_MS)
        if record is None:
            return None
        cuts = _CUTS.decode(record.cuts) if record.cuts else []
        outcomes = sorted(map(_outcome, record.outcomes), key=lambda outcome: outcome.utterance_index)
        if last_heard is None:
            # It does not say what it has: what waits for it is what it has not.
            last_cut = cuts[-1].utterance_index if cuts else -1
            last_heard = outcomes[0].utterance_index - 1 if outcomes else last_cut
        reach = heard_without_gap(last_heard, [outcome.utterance_index for outcome in outcomes])
        begin = beginning(cuts, reach)
        node_id, _, shard = record.binding.partition(" ")
        return Claimed(
            init=_INIT.decode(record.init),
            generation=record.generation,
            beginning=begin,
            binding=Binding(node_id, int(shard)) if node_id and begin.continues_turn else None,
            outcomes=[outcome for outcome in outcomes if last_heard < outcome.utterance_index <= reach],
        )

    def note(self, session: Session, on_taken: Callable[[Session], None]) -> None:
        """Write down where the session is; one write at a time, and what changes meanwhile is in the next."""
        session.noted_at_s = monotonic()
        if session.is_noting:
            session.must_note = True
            return
        session.is_noting = True
        self.writes.start(self._note(session, on_taken))

    def renew(self, session: Session, on_taken: Callable[[Session], None]) -> None:
        if monotonic() - session.noted_at_s > RENEW_S:
            self.note(session, on_taken)

    def park(self, session: Session, outcomes: Sequence[Answer], on_taken: Callable[[Session], None]) -> None:
        """The client is away: its outcomes wait for it in Redis too, in case it comes back to another instance."""
        frames = [codec.encode(outcome).decode() for outcome in outcomes]
        self.writes.start(self._park(session, frames, on_taken))

    def close(self, session: Session) -> None:
        self.writes.start(self._close(session))

    async def _note(self, session: Session, on_taken: Callable[[Session], None]) -> None:
        try:
            while True:
                session.must_note = False
                cuts = msgspec.json.encode(list(session.conversation.cuts)).decode()
                binding = f"{session.binding.node_id} {session.binding.shard}" if session.binding.node_id else ""
                outcome = await self._store.note(session.session_id, session.owner, cuts, binding, KEEP_MS)
                if outcome is OwnedOutcome.TAKEN:
                    on_taken(session)
                    return
                if not session.must_note:
                    return
        except RedisAway:
            _log.info("session.not_noted", session_id=session.session_id)
        finally:
            session.is_noting = False

    async def _park(self, session: Session, frames: list[str], on_taken: Callable[[Session], None]) -> None:
        try:
            parked = await self._store.park(
                session.session_id, session.owner, frames, most=MAX_PARKED, keep_ms=self._grace_ms
            )
        except RedisAway:
            return
        if parked is OwnedOutcome.TAKEN:
            on_taken(session)

    async def _close(self, session: Session) -> None:
        try:
            await self._store.close(session.session_id, session.owner)
        except RedisAway:
            # It expires by itself.
            return


def _outcome(frame: str) -> Answer:
    message = codec.decode_for_client(frame)
    assert isinstance(message, Answer)
    return message
