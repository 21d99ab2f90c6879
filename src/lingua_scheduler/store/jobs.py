"""Jobs, attempts and leases in Redis: every step is one script, settled there."""

import random

import msgspec

from lingua_scheduler.domain.attempts import (
    AdvanceOutcome,
    Attempt,
    DispatchOutcome,
    EndOutcome,
    parse_lease,
)
from lingua_scheduler.domain.jobs import LIVE, JobEvent, legal_before, target_of
from lingua_scheduler.store.connection import Line
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.nodes import Owner
from lingua_scheduler.store.scripts import Scripts

_BEFORE = {event: " ".join(legal_before(event)) for event in JobEvent}
_LIVE = " ".join(LIVE)
# Only a live attempt can end; only a job without one can be closed.
_ENDABLE = {event: " ".join(state for state in legal_before(event) if state in LIVE) for event in JobEvent}
_CLOSABLE = {event: " ".join(state for state in legal_before(event) if state not in LIVE) for event in JobEvent}
_AFTER = {event: target_of(event).value for event in JobEvent}
# Looking a word up in a table is several times cheaper than asking the enum.
_DISPATCH_OUTCOMES = {outcome.value: outcome for outcome in DispatchOutcome}
_END_OUTCOMES = {outcome.value: outcome for outcome in EndOutcome}
DICE = random.Random()


class DispatchRules(msgspec.Struct, frozen=True, gc=False):
    """The settings a dispatch carries along."""

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


class Dispatched(msgspec.Struct, frozen=True, gc=False):
    outcome: DispatchOutcome
    node_id: str = ""
    epoch: str = ""
    owner: Owner = Owner("", "")
    acknowledges: bool = False


class Ended(msgspec.Struct, frozen=True, gc=False):
    outcome: EndOutcome
    owner: str = ""
    session_id: str = ""
    utterance_index: int = -1


class Jobs:
    def __init__(self, line: Line, keys: Keys, scripts: Scripts) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts

    async def dispatch(self, shard: int, order: JobOrder, rules: DispatchRules) -> Dispatched:
        """Choose a node, lease a slot, write the job."""
        keys = self._keys.shard(shard)
        reply = await self._scripts.run(
            "job_dispatch",
            keys,
            pool=keys.pool(order.pools[0]),
            job_key=keys.job(order.job_id),
            also=[keys.pool(pool) for pool in order.pools[1:]],
            job=order.job_id,
            attempt=order.attempt,
            preferred=order.preferred,
            only=int(order.only_preferred),
            excluded=" ".join(order.excluded),
            sample=rules.sample,
            sample_k=rules.sample_k,
            ack_ms=rules.ack_ms,
            run_ms=order.run_ms,
            keep_ms=rules.keep_ms,
            before=_BEFORE[JobEvent.RESERVE],
            live=_LIVE,
            state=_AFTER[JobEvent.SEND],
            dice=DICE.getrandbits(31),
            record=(
                "pool", order.pools[0],
                "session", order.session_id,
                "utterance", str(order.utterance_index),
                "owner", order.owner,
            ),
        )  # fmt: skip
        outcome = _DISPATCH_OUTCOMES[reply[0]]
        if outcome is not DispatchOutcome.DISPATCHED:
            return Dispatched(outcome)
        epoch, instance, link, acknowledges = reply[2].split(" ")
        return Dispatched(outcome, reply[1], epoch, Owner(instance, link), acknowledges == "1")

    async def advance(self, attempt: Attempt, epoch: str, event: JobEvent) -> AdvanceOutcome:
        keys = self._keys.shard(attempt.shard)
        reply = await self._scripts.run(
            "attempt_advance",
            keys,
            job_key=keys.job(attempt.job_id),
            lease=attempt.lease,
            attempt=attempt.number,
            node=attempt.node_id,
            epoch=epoch,
            before=_BEFORE[event],
            state=_AFTER[event],
        )
        return AdvanceOutcome(reply[0])

    async def end(
        self,
        attempt: Attempt,
        epoch: str,
        event: JobEvent,
        reason: str = "",
        *,
        if_overdue: bool = False,
        linger_ms: int = 0,
    ) -> Ended:
        """End a live attempt; `epoch` empty when it is not a node that says so.

        With `linger_ms` the slot stays taken for a while, because the node may still be at it.
        """
        keys = self._keys.shard(attempt.shard)
        reply = await self._scripts.run(
            "attempt_end",
            keys,
            job_key=keys.job(attempt.job_id),
            lease=attempt.lease,
            attempt=attempt.number,
            node=attempt.node_id,
            epoch=epoch,
            overdue=int(if_overdue),
            before=_ENDABLE[event],
            state=_AFTER[event],
            reason=reason,
            linger_ms=linger_ms,
        )
        outcome = _END_OUTCOMES[reply[0]]
        if outcome is not EndOutcome.ENDED:
            return Ended(outcome)
        return Ended(outcome, reply[1], reply[2], int(reply[3] or -1))

    async def close(self, shard: int, job_id: str, attempt: int, event: JobEvent, reason: str) -> bool:
        """End a job that has no live attempt."""
        keys = self._keys.shard(shard)
        reply = await self._scripts.run(
            "job_close",
            job_key=keys.job(job_id),
            attempt=attempt,
            before=_CLOSABLE[event],
            state=_AFTER[event],
            reason=reason,
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

    async def leave_pointer(self, shard: int, job_id: str, attempt: int, moved_to: int) -> None:
        """The job's next attempt lives in another shard."""
        await self._scripts.run(
            "job_move",
            job_key=self._keys.shard(shard).job(job_id),
            attempt=attempt,
            before=_BEFORE[JobEvent.RESERVE],
            shard=moved_to,
        )

    async def overdue(self, shard: int, most: int) -> list[Attempt]:
        leases = await self._scripts.run("leases_overdue", self._keys.shard(shard), most=most)
        return [parse_lease(lease, shard) for lease in leases]

    async def read(self, shard: int, job_id: str) -> dict[str, str]:
        flat = await self._line.call("HGETALL", self._keys.shard(shard).job(job_id))
        return dict(zip(flat[::2], flat[1::2], strict=True))
