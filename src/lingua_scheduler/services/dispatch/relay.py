"""Attempts across instances: our jobs on other instances' nodes, and theirs on our nodes; by letter and signal."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.protocol.bus import Assign, AttemptLost, BusMessage, CancelAttempt, Finished
from lingua_scheduler.protocol.sealing import BrokenSeal, OtherKey
from lingua_scheduler.protocol.signals import AttemptAdvanced, PartialHeard
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.attempts.reports import LostAttempt, answered
from lingua_scheduler.services.attempts.trails import Passage, Trails
from lingua_scheduler.services.attempts.work import Work
from lingua_scheduler.services.cluster.letters import Letter
from lingua_scheduler.services.cluster.mailroom import Mailroom, Posted
from lingua_scheduler.services.nodes.links import NodeLink, NodeLinks
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.domain.losses import Loss
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.node import AsrPartial, JobCancel, JobResult, NodeIncoming

_log = logs.get()

# Jobs of others that nodes here work on; more than all nodes of an instance can run.
MAX_FOREIGN = 20_000
# A result waits this long for room in a full inbox, and its node with it.
RESULT_PATIENCE_S = 10.0
AWAY_PATIENCE_S = 120.0
TRY_AGAIN_S = 0.05


class Foreign(NamedTuple):
    """A job of another instance on a node of ours."""

    instance: str
    attempt: Attempt
    passage: Passage | None = None


class Relay:
    """`on_partial` gets what a node elsewhere has recognised so far of an utterance of ours."""

    def __init__(
        self,
        mailroom: Mailroom,
        store: Store,
        links: NodeLinks,
        endings: Endings,
        assignments: Assignments,
        on_partial: Callable[[Work, AsrPartial], None],
        trails: Trails | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._mailroom = mailroom
        self._store = store
        self._links = links
        self._endings = endings
        self._assignments = assignments
        self._on_partial = on_partial
        self._trails = trails
        self._foreign: OrderedDict[str, Foreign] = OrderedDict()
        self.letters = Nursery("relay")
        mailroom.handle(Assign, self._assigned)
        mailroom.handle(CancelAttempt, self._cancelled)
        mailroom.handle(Finished, self._finished)
        mailroom.handle(AttemptLost, self._lost)
        mailroom.on_dead(self._undeliverable)

    # Jobs of ours on nodes elsewhere

    async def assign(self, owner: Owner, attempt: Attempt, frame: bytes, traceparent: str = "") -> Posted:
        letter = Assign(attempt=attempt, link_id=owner.link, frame=frame, traceparent=traceparent)
        try:
            return await self._mailroom.post(owner.instance, letter)
        except RedisAway:
            # It may have been sent all the same; its receiver finds that the attempt has ended.
            return Posted.FULL

    def cancel(self, owner: Owner, attempt: Attempt, reason: str) -> None:
        self.letters.start(self._post(owner.instance, CancelAttempt(attempt=attempt, reason=reason)))

    def _finished(self, message: Finished, _: Letter) -> None:
        """Idempotent: a repeat, or a result that is no longer awaited, changes nothing."""
        result = codec.decode_node(message.frame)
        if isinstance(result, JobResult):
            self._assignments.settle(message.attempt, answered(result))

    def _lost(self, message: AttemptLost, _: Letter) -> None:
        self._assignments.settle(message.attempt, LostAttempt(message.reason))

    def advanced(self, signal: AttemptAdvanced) -> None:
        self._assignments.advanced(signal.attempt, signal.allowed_ms)

    def heard(self, signal: PartialHeard) -> None:
        assignment = self._assignments.find(signal.attempt)
        partial = self._read_partial(signal.frame) if assignment is not None else None
        if assignment is not None and isinstance(partial, AsrPartial):
            self._on_partial(assignment.work, partial)

    def _read_partial(self, frame: str) -> NodeIncoming | None:
        """None for one that was sealed with a key we do not have; a partial may be missed."""
        try:
            return codec.decode_node(self._mailroom.seals.open_signal(frame))
        except (OtherKey, BrokenSeal):
            return None

    # Jobs of others on nodes here

    def _assigned(self, message: Assign, letter: Letter) -> Awaitable[None] | None:
        """Hand the order to the node, if it is still there and the attempt still its own. It may come twice."""
        known = self._foreign.get(message.attempt.job_id)
        if known is not None and known.attempt == message.attempt:
            return None
        if letter.deliveries == 1 and not letter.is_late and not letter.is_repeat:
            return self._hand_over(message, letter)
        return self._hand_over_if_current(message, letter)

    def _hand_over(self, message: Assign, letter: Letter, *, has_lease: bool = False) -> Awaitable[None] | None:
        """What has to be waited for, if it does not get there."""
        attempt = message.attempt
        link = self._links.find(attempt.node_id)
        passage = None
        if self._trails is not None and message.traceparent:
            passage = self._trails.passage(message.traceparent, attempt, letter.sender)
        if link is None or link.owner.link != message.link_id:
            return self._nobody_there(attempt, passage)
        if link.is_in_doubt and not has_lease:
            return self._hand_over_if_current(message, letter)
        self._foreign[attempt.job_id] = Foreign(letter.sender, attempt, passage)
        if len(self._foreign) > MAX_FOREIGN:
            self._foreign.popitem(last=False)
        link.remember(attempt)
        if not link.peer.post_frame(message.frame):
            # Which tells the one who sent it, and ends its passage.
            return self._endings.end_unsent(attempt, Loss.SEND_FAILED)
        if passage is not None:
            passage.sent()
        return None

    async def _hand_over_if_current(self, message: Assign, letter: Letter) -> None:
        """The order may be old: its attempt has ended meanwhile, or Redis lost its lease, and the node may have got
        another job for the slot."""
        attempt = message.attempt
        if await self._store.jobs.is_over(attempt):
            return
        if not await self._store.jobs.has_lease(attempt):
            self.tell_lost(letter.sender, attempt, Loss.SEND_FAILED)
            return
        rest = self._hand_over(message, letter, has_lease=True)
        if rest is not None:
            await rest

    async def _nobody_there(self, attempt: Attempt, passage: Passage | None) -> None:
        await self._endings.end_unsent(attempt, Loss.NODE_GONE)
        if passage is not None:
            passage.ended(Loss.NODE_GONE)

    def _cancelled(self, message: CancelAttempt, _: Letter) -> None:
        attempt = message.attempt
        known = self._foreign.get(attempt.job_id)
        if known is not None and known.attempt.node_id == attempt.node_id and known.attempt.number > attempt.number:
            # The node got the same job again meanwhile; what it is sent names no attempt.
            return
        if (passage := self._passed(attempt)) is not None:
            passage.ended(message.reason)
        link = self._links.find(attempt.node_id)
        if link is not None:
            link.forget(attempt, message.reason)
            link.peer.post(JobCancel(job_id=attempt.job_id, reason=message.reason))

    def foreign(self, job_id: str, link: NodeLink) -> Foreign | None:
        """Whose job a node here works on, when it is not ours."""
        known = self._foreign.get(job_id)
        return known if known is not None and known.attempt.node_id == link.node_id else None

    async def finished(self, instance: str, attempt: Attempt, frame: bytes) -> None:
        """The result is in Redis; now its owner gets it. A full inbox is waited for, a dead owner is not."""
        if (passage := self._passed(attempt)) is not None:
            passage.came()
        is_posted = await self._post_result(instance, Finished(attempt=attempt, frame=frame))
        if not is_posted:
            _log.warning("result.undelivered", job_id=attempt.job_id, instance=instance)
        if passage is not None:
            passage.ended("result" if is_posted else "undelivered")

    async def _post_result(self, instance: str, letter: Finished) -> bool:
        """While Redis is away, or takes no writes, its owner cannot give it up either, and must not do it again."""
        give_up_at, waited_from = self._clock() + RESULT_PATIENCE_S, self._clock()
        while self._clock() < give_up_at:
            try:
                if await self._mailroom.post(instance, letter) is not Posted.FULL:
                    return True
            except RedisAway:
                give_up_at = min(self._clock() + RESULT_PATIENCE_S, waited_from + AWAY_PATIENCE_S)
            await asyncio.sleep(TRY_AGAIN_S)
        return False

    def tell_lost(self, instance: str, attempt: Attempt, reason: str) -> None:
        """The attempt has ended: tell its owner, which tries another node."""
        if (passage := self._passed(attempt)) is not None:
            passage.ended(reason)
        self.letters.start(self._post(instance, AttemptLost(attempt=attempt, reason=reason)))

    def _passed(self, attempt: Attempt) -> Passage | None:
        """It is over here, unless a later attempt of its job is here by now."""
        known = self._foreign.get(attempt.job_id)
        if known is None or known.attempt != attempt:
            return None
        del self._foreign[attempt.job_id]
        return known.passage

    def tell_advanced(self, foreign: Foreign, allowed_ms: int = 0) -> None:
        self._signal(foreign.instance, AttemptAdvanced(foreign.attempt, allowed_ms))

    def tell_partial(self, foreign: Foreign, partial: AsrPartial) -> None:
        frame = self._mailroom.seals.signal(foreign.instance, codec.encode(partial).decode())
        self._signal(foreign.instance, PartialHeard(foreign.attempt, frame))

    def _signal(self, instance: str, signal: AttemptAdvanced | PartialHeard) -> None:
        with suppress(RedisAway):
            self._store.signals.publish(signal, to=instance)

    async def _undeliverable(self, message: BusMessage | None, _letter: Letter, _reason: str) -> None:
        """An order that could not be handed over: notify its owner now, so that it does not wait for the deadline."""
        if isinstance(message, Assign):
            await self._endings.end_unsent(message.attempt, Loss.LETTER_DEAD)

    async def _post(self, instance: str, message: AttemptLost | CancelAttempt) -> None:
        try:
            await self._mailroom.post(instance, message)
        except RedisAway:
            # The deadline in Redis says the same, later.
            _log.info("letter.unsent", kind=message.kind)
