"""Jobs, attempts and leases in Redis: every step is one script, settled there."""

import asyncio
import random
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from lingua_scheduler.domain.jobs.attempts import (
    AdvanceOutcome,
    Attempt,
    CancelOutcome,
    DispatchOutcome,
    EndOutcome,
    NoteOutcome,
)
from lingua_scheduler.domain.jobs.job_ids import match_job_id
from lingua_scheduler.domain.jobs.jobs import LIVE, JobEvent, JobState, legal_before, target_of
from lingua_scheduler.domain.jobs.quarantine import Mark, QuarantineRules, QuarantineVerdict, mark_of
from lingua_scheduler.domain.nodes.nodes import Features
from lingua_scheduler.domain.nodes.owners import NOBODY, Owner, Ownership
from lingua_scheduler.store.connection import RedisLine, Reply
from lingua_scheduler.store.jobs.records import RECENT_MAX, JobRecord, Records, one_line
from lingua_scheduler.store.keys import Keys, ShardKeys
from lingua_scheduler.store.reading import whole
from lingua_scheduler.store.script_batches import BatchedScript, Batcher
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys

_BEFORE = {event: " ".join(legal_before(event)) for event in JobEvent}
_LIVE = " ".join(LIVE)
# Only a live attempt can end; only a job without one can be closed.
_ENDABLE = {event: " ".join(state for state in legal_before(event) if state in LIVE) for event in JobEvent}
_CLOSABLE = {event: " ".join(state for state in legal_before(event) if state not in LIVE) for event in JobEvent}
_AFTER = {event: target_of(event).value for event in JobEvent}
# Looking a word up in a table is several times cheaper than asking the enum.
_DISPATCH_OUTCOMES = {outcome.value: outcome for outcome in DispatchOutcome}
_ADVANCE_OUTCOMES = {outcome.value: outcome for outcome in AdvanceOutcome}
_END_OUTCOMES = {outcome.value: outcome for outcome in EndOutcome}
_VERDICTS = {verdict.value or "-": verdict for verdict in QuarantineVerdict}
DICE = random.Random()
T = TypeVar("T")
# How far a look for overdue leases reaches behind what is none.
OVERDUE_PAGES = 10


class DispatchRules(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The settings a dispatch carries. One object, so that calls with the same settings can be batched by identity."""

    sample: int
    sample_k: int
    ack_ms: int
    keep_ms: int


class JobOrder(msgspec.Struct, frozen=True, gc=False):
    """One try to place one job."""

    job_id: str
    attempt: int
    # The node must be in every one of these; the first is where it is looked for.
    pools: tuple[str, ...]
    session_id: str
    utterance_index: int
    owner: str
    run_ms: int
    preferred: str = ""
    only_preferred: bool = False
    excluded: tuple[str, ...] = ()
    # Kinds of service the node must not lack.
    needs: tuple[str, ...] = ()
    # Whether a quarantined node is better than none.
    is_last_resort: bool = True
    # Wide pools of the shard whose nodes serve all of `pools`.
    wide: tuple[str, ...] = ()
    # Digest of the principal whose job it is, if it has a credential, and its tenant.
    belongs_to: str = ""
    tenant: str = ""


class Dispatched(msgspec.Struct, frozen=True, gc=False):
    outcome: DispatchOutcome
    node_id: str = ""
    epoch: str = ""
    owner: Owner = NOBODY
    features: Features = Features()


class Ended(msgspec.Struct, frozen=True, gc=False):
    outcome: EndOutcome
    owner: str = ""
    session_id: str = ""
    utterance_index: int = -1
    verdict: QuarantineVerdict = QuarantineVerdict.UNCHANGED


_DispatchGroup = tuple[tuple[str, ...], tuple[str, ...], str, tuple[str, ...], bool, DispatchRules]
_EndGroup = tuple[JobEvent, str, bool, int, QuarantineRules | None]


class JobNote(msgspec.Struct, frozen=True, gc=False):
    """A job without an attempt: it waits for its first one, or no node was found, with the reason."""

    job_id: str
    pools: tuple[str, ...]
    session_id: str
    utterance_index: int
    owner: str
    error: str = ""
    detail: str = ""
    belongs_to: str = ""
    tenant: str = ""


class Jobs(Records):
    """What happens to jobs; how they are looked up is in `Records`."""

    def __init__(
        self, line: RedisLine, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys, max_pending: int
    ) -> None:
        super().__init__(line, keys, unreadable)
        self._scripts = scripts
        self._batches = Batcher(scripts, max_pending)

    def dispatch(self, shard: int, order: JobOrder, rules: DispatchRules) -> asyncio.Future[Dispatched]:
        """Choose a node, lease a slot, write the job."""
        keys = self._keys.shard(shard)
        wish = ""
        if order.preferred or order.excluded:
            preferred = _word(order.preferred) or "-"
            wish = " ".join((preferred, "1" if order.only_preferred else "0", *order.excluded))
        session_id = order.session_id
        if not session_id.isprintable():
            session_id = one_line(session_id)
        if order.belongs_to:
            session_id = f"{session_id}\n{_owner_lines(order.belongs_to, order.tenant)}"
        return self._batches.submit(
            _DISPATCH,
            keys,
            (order.pools, order.wide, order.owner, order.needs, order.is_last_resort, rules),
            keys.job(order.job_id),
            f"{order.job_id} {order.attempt} {order.run_ms} {order.utterance_index} {wish}\n{session_id}",
        )

    def advance(self, attempt: Attempt, epoch: str, event: JobEvent) -> asyncio.Future[AdvanceOutcome]:
        if match_job_id(attempt.job_id) is None:
            return _answered(AdvanceOutcome.STALE)
        keys = self._keys.shard(attempt.shard)
        return self._batches.submit(_ADVANCE, keys, event, keys.job(attempt.job_id), f"{attempt.lease} {epoch}")

    def extend(self, attempt: Attempt, epoch: str, more_ms: int, limit_ms: int) -> asyncio.Future[AdvanceOutcome]:
        """Move the deadline of a live attempt to `more_ms` from now, at most to `limit_ms` after its dispatch."""
        if match_job_id(attempt.job_id) is None:
            return _answered(AdvanceOutcome.STALE)
        keys = self._keys.shard(attempt.shard)
        words = f"{attempt.lease} {epoch} {min(more_ms, limit_ms)}"
        return self._batches.submit(_EXTEND, keys, limit_ms, keys.job(attempt.job_id), words)

    def end(
        self,
        attempt: Attempt,
        epoch: str,
        event: JobEvent,
        reason: str = "",
        *,
        if_overdue: bool = False,
        linger_ms: int = 0,
        quarantine: QuarantineRules | None = None,
    ) -> asyncio.Future[Ended]:
        """End a live attempt; `epoch` empty when it is not a node that says so.

        With `linger_ms` the slot stays taken for a while, because the node may still be at it. Without the rules of
        `quarantine` the node is not judged by it.
        """
        if match_job_id(attempt.job_id) is None:
            return _answered(Ended(EndOutcome.GONE))
        keys = self._keys.shard(attempt.shard)
        group = event, reason, if_overdue, linger_ms, quarantine
        return self._batches.submit(_END, keys, group, keys.job(attempt.job_id), f"{attempt.lease} {epoch}")

    async def close(self, shard: int, job_id: str, attempt: int, event: JobEvent, reason: str) -> bool:
        """End a job that has no live attempt."""
        keys = self._keys.shard(shard)
        reply = await self._scripts.run(
            "job_close",
            job_key=keys.job(job_id),
            attempt=attempt,
            before=_CLOSABLE[event],
            state=_AFTER[event],
            reason=one_line(reason),
        )
        return bool(reply[0] == "closed")

    async def abandon(self, shard: int, job_id: str, attempt: int, reason: str) -> bool:
        """End a job whose attempt counts as live though no lease holds a slot for it.

        A lease that is gone never comes back for the same attempt, so comparing the attempt is enough.
        """
        reply = await self._scripts.run(
            "job_close",
            job_key=self._keys.shard(shard).job(job_id),
            attempt=attempt,
            before=_LIVE,
            state=_AFTER[JobEvent.FAIL],
            reason=reason,
        )
        return bool(reply[0] == "closed")

    async def leave_pointer(self, shard: int, job_id: str, attempt: int, moved_to: int) -> bool:
        """The job's next attempt lives in another shard; False when the job does not wait for one any more."""
        reply = await self._scripts.run(
            "job_move",
            job_key=self._keys.shard(shard).job(job_id),
            attempt=attempt,
            before=_BEFORE[JobEvent.DISPATCH],
            shard=moved_to,
        )
        return bool(reply[0] == "moved")

    async def note(self, shard: int, note: JobNote, keep_ms: int) -> NoteOutcome:
        """Write down a job that has no attempt: as failed if it names an error, else as waiting for its first."""
        keys = self._keys.shard(shard)
        has_failed = note.error != ""
        reply = await self._scripts.run(
            "job_note",
            keys,
            job_key=keys.job(note.job_id),
            job=note.job_id,
            session=one_line(note.session_id),
            utterance=note.utterance_index,
            owner=note.owner,
            pool=note.pools[0],
            also=" ".join(note.pools[1:]),
            before=_CLOSABLE[JobEvent.FAIL] if has_failed else JobState.CREATED.value,
            state=_AFTER[JobEvent.FAIL] if has_failed else JobState.CREATED.value,
            reason=note.error,
            detail=one_line(note.detail),
            belongs_to=_owner_lines(note.belongs_to, note.tenant) if note.belongs_to else "",
            most=RECENT_MAX,
            keep_ms=keep_ms,
        )
        return NoteOutcome(reply[0])

    async def cancel(self, record: JobRecord, linger_ms: int) -> tuple[CancelOutcome, str]:
        """End a job for good, if it still is as it was read; the state it had ended in, where it had."""
        keys = self._keys.shard(record.shard)
        reply = await self._scripts.run(
            "job_cancel",
            keys,
            job_key=keys.job(record.job_id),
            job=record.job_id,
            attempt=record.attempt,
            before=_BEFORE[JobEvent.CANCEL],
            live=_LIVE,
            state=_AFTER[JobEvent.CANCEL],
            reason="cancelled",
            linger_ms=linger_ms,
        )
        outcome = CancelOutcome(reply[0])
        return outcome, reply[1] if outcome is CancelOutcome.ENDED else ""

    async def is_cancelled(self, shard: int, job_id: str) -> bool:
        return (await self.read(shard, job_id)).get("state") == JobState.CANCELLED

    async def explain(self, shard: int, job_id: str, explanation: str) -> bool:
        """Keep an explanation on the record; False when there is none any more."""
        job_key = self._keys.shard(shard).job(job_id)
        reply = await self._scripts.run("job_explain", job_key=job_key, explanation=explanation)
        return bool(reply[0] == "kept")

    async def is_over(self, attempt: Attempt) -> bool:
        """Whether it has ended, or another attempt is current. A job without a record may still be running."""
        record = await self.read(attempt.shard, attempt.job_id)
        is_same = record and (record["attempt"], record.get("node")) == (str(attempt.number), attempt.node_id)
        return bool(record) and not (is_same and record.get("state") in LIVE)

    async def has_lease(self, attempt: Attempt) -> bool:
        return await self._line.call("ZSCORE", self._keys.shard(attempt.shard).leases, attempt.lease) is not None

    async def overdue(self, shard: int, most: int) -> list[Attempt]:
        strange, *leases = await self._scripts.run(
            "leases_overdue", self._keys.shard(shard), most=most, pages=OVERDUE_PAGES
        )
        self._unreadable.met("leases", self._keys.shard(shard).leases, int(strange))
        return Attempt.parse_all(leases, shard)


def _dispatched(reply: Reply) -> Dispatched:
    word, _, rest = reply.partition(" ")
    outcome = _DISPATCH_OUTCOMES[word]
    if outcome is not DispatchOutcome.DISPATCHED:
        return Dispatched(outcome)
    node_id, _, owner = rest.partition(" ")
    held_by = Ownership.parse(owner)
    if held_by is None:
        raise ValueError(f"the owner of {node_id} cannot be read: {owner}")
    return Dispatched(outcome, node_id, *held_by)


def _ended(reply: Reply) -> Ended:
    word, _, rest = reply.partition(" ")
    outcome = _END_OUTCOMES[word]
    if outcome is not EndOutcome.ENDED:
        return Ended(outcome)
    verdict, owner, utterance, session_id = rest.split(" ", 3)
    return Ended(outcome, "" if owner == "-" else owner, session_id, whole(utterance, -1), _VERDICTS[verdict])


def _answered(outcome: T) -> asyncio.Future[T]:
    """For a node that speaks of a job that cannot be ours: Redis need not be asked."""
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    answer.set_result(outcome)
    return answer


def _owner_lines(belongs_to: str, tenant: str) -> str:
    """Of a record: whose job it is, then which tenant's, in a line that a release before does not look for."""
    return f"{belongs_to}\ntenant {tenant}" if tenant else belongs_to


def _word(text: str) -> str:
    return text if text.isprintable() and " " not in text else quote(text)


def _of_dispatches(keys: ShardKeys, group: _DispatchGroup, job_keys: list[str], orders: list[str]) -> dict[str, Any]:
    pools, wide, owner, needs, is_last_resort, rules = group
    return {
        "pool": keys.pool(pools[0]),
        "job_keys": [*job_keys, *map(keys.pool, pools[1:] + wide)],
        "sample": rules.sample,
        "sample_k": rules.sample_k,
        "ack_ms": rules.ack_ms,
        "keep_ms": rules.keep_ms,
        "before": _BEFORE[JobEvent.DISPATCH],
        "live": _LIVE,
        "state": _AFTER[JobEvent.DISPATCH],
        "dice": DICE.getrandbits(31),
        "most": RECENT_MAX,
        "pool_name": pools[0],
        "also_names": " ".join(pools[1:]),
        "instance": owner,
        "needs": " ".join(needs),
        "last": int(is_last_resort),
        "wides": len(wide),
        "orders": orders,
    }


def _of_advances(_keys: ShardKeys, event: JobEvent, job_keys: list[str], moves: list[str]) -> dict[str, Any]:
    return {"job_keys": job_keys, "before": _BEFORE[event], "state": _AFTER[event], "moves": moves}


def _of_extensions(_keys: ShardKeys, limit_ms: int, job_keys: list[str], asks: list[str]) -> dict[str, Any]:
    return {"job_keys": job_keys, "live": _LIVE, "limit_ms": limit_ms, "asks": asks}


def _of_ends(_keys: ShardKeys, group: _EndGroup, job_keys: list[str], ends: list[str]) -> dict[str, Any]:
    event, reason, if_overdue, linger_ms, quarantine = group
    if quarantine is not None and event is JobEvent.FIND_NO_TEXT:
        # Saying that there is nothing to hear proves nothing.
        quarantine = quarantine._replace(believed_after=0)
    return {
        "job_keys": job_keys,
        "rules": "" if quarantine is None else " ".join(map(str, quarantine)),
        "overdue": int(if_overdue),
        "before": _ENDABLE[event],
        "state": _AFTER[event],
        "reason": reason,
        "linger_ms": linger_ms,
        "mark": Mark.NONE.value if quarantine is None else mark_of(event, reason).value,
        "ends": ends,
    }


# What a node says first of a job comes first to Redis too.
_ADVANCE = BatchedScript("attempt_advance", _of_advances, _ADVANCE_OUTCOMES.__getitem__, goes_first=True)
_EXTEND = BatchedScript("attempt_extend", _of_extensions, _ADVANCE_OUTCOMES.__getitem__)
_DISPATCH = BatchedScript("job_dispatch", _of_dispatches, _dispatched)
_END = BatchedScript("attempt_end", _of_ends, _ended)
BATCHED = tuple(kind.script for kind in (_ADVANCE, _EXTEND, _DISPATCH, _END))
