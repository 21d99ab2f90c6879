"""Idempotency: a request id is claimed, its job placed, the two are bound, and only then the job runs."""

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.job_ids import JobHandle
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.jobs.requests import BindOutcome, Request, RequestClaimOutcome
from lingua_scheduler.domain.jobs.retry_steps import AWAY, REFUSED
from lingua_scheduler.services.attempts.work import Outcome, Refusal, Work
from lingua_scheduler.services.dispatch.chains import Chains
from lingua_scheduler.services.dispatch.dispatcher import Dispatcher
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import RedisAway, WritesRefused
from lingua_scheduler.store.jobs.requests import ClaimedRequest, RequestClaim
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics
from lingua_sdk.domain.backoff import Backoff
from lingua_sdk.domain.errors import ErrorCode

_log = logs.get()

_CLAIMS = metrics.by(metrics.CLAIMS, *RequestClaimOutcome)

# Between checks of a claim that another caller holds.
CHECKS = Backoff(0.02, 0.25)


class Placement(NamedTuple):
    """The job of a request."""

    job_id: str
    node_id: str
    attempt_id: int
    secret: str = ""
    # The languages under which its node serves it, for a caller over HTTP.
    src_lang: str = ""
    tgt_lang: str = ""
    # Why the preferred node was not taken.
    note: str = ""

    @property
    def handle(self) -> str:
        """What its caller knows it by."""
        return str(JobHandle(self.job_id, self.secret))


class IdempotentRequests:
    """`is_alive` says whether an instance is."""

    def __init__(
        self,
        instance: str,
        store: Store,
        dispatcher: Dispatcher,
        settings: Settings,
        is_alive: Callable[[str], Awaitable[bool]],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self.is_alive = is_alive
        self._instance = instance
        self._store = store
        self._dispatcher = dispatcher
        self._settings = settings.requests
        self._patience_s = settings.dispatch.queue_wait_ms / 1000
        # Without it every request is one job.
        self.chains: Chains | None = None

    def translate(
        self, work: Work, caller: "PlacementListener | None" = None
    ) -> Coroutine[Any, Any, Outcome | Placement | Refusal]:
        """Dispatch a request at most once: of all calls with the same request id, on any instance, one gets the
        outcome.

        The others get the job's id. Refused if the id was used for a different request (REQUEST_CONFLICT), or if
        another call holds the claim for too long without placing the job.
        """
        if work.request is not None:
            return self._translate_once(work, work.request, caller)
        if caller is not None:
            return self._place_and_run(work, None, caller)
        return self._dispatcher.translate(work)

    async def _translate_once(
        self, work: Work, request: Request, caller: "PlacementListener | None"
    ) -> Outcome | Placement | Refusal:
        payload = payload_of(work)
        # Long enough to take over from an instance that died, and to be the second in line then.
        give_up_at = self._clock() + 2 * self._settings.claim_ms / 1000
        checks = 0
        while True:
            is_over = self._clock() > give_up_at
            # A token a try: what an earlier one bound and could not send must not look like ours.
            claim = RequestClaim(request, secrets.token_hex(8), self._instance, payload, work.secret)
            try:
                claimed = await self._store.insist(partial(self._claim, claim), self._patience_s, bears_refusal=False)
            except RedisAway as error:
                return _redis_away(REFUSED if isinstance(error, WritesRefused) else AWAY)
            _CLAIMS[claimed.outcome].inc()
            end = await self._follow(work, claim, claimed, caller, is_over=is_over)
            if end is not None:
                return end
            if claimed.outcome is RequestClaimOutcome.PENDING:
                checks += 1
                await asyncio.sleep(min(CHECKS.pause_s(checks), claimed.left_ms / 1000))

    async def _follow(
        self,
        work: Work,
        claim: RequestClaim,
        claimed: ClaimedRequest,
        caller: "PlacementListener | None",
        *,
        is_over: bool,
    ) -> Outcome | Placement | Refusal | None:
        """Act on the outcome of a claim; None: claim again."""
        match claimed.outcome:
            case RequestClaimOutcome.CLAIMED | RequestClaimOutcome.PENDING if is_over:
                await self.release(claim)
                busy = ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED
                return Refusal(busy, "this request is already waiting for a node on another instance; repeat it later")
            case RequestClaimOutcome.CLAIMED:
                return await self._run_claimed(work, claim, caller)
            case RequestClaimOutcome.BOUND:
                if not is_over and await self._is_forsaken(claimed.job_id):
                    await self.release(msgspec.structs.replace(claim, token=claimed.token))
                    return None
                return Placement(claimed.job_id, claimed.node_id, claimed.attempt, claimed.secret)
            case RequestClaimOutcome.CONFLICT:
                return Refusal(ErrorCode.REQUEST_CONFLICT, "this request_id was already used for a different request")
            case RequestClaimOutcome.PENDING:
                return None

    async def _run_claimed(self, work: Work, claim: RequestClaim, caller: "PlacementListener | None") -> Outcome | None:
        """The job's outcome; None if another caller has taken the request over meanwhile."""
        held = _Held(claim)
        outcome = await self._place_and_run(work, held, caller)
        if not held.is_lost:
            if outcome.state in (JobState.FAILED, JobState.CANCELLED):
                await self.release(claim)
            return outcome
        _log.info("request.taken_over", job_id=outcome.job_id)
        # If only the answer was lost, the claim is bound to a job that was withdrawn.
        if not await self.release(claim):
            return _redis_away("the request could not be bound to its job")
        return None

    async def _place_and_run(self, work: Work, held: "_Held | None", caller: "PlacementListener | None") -> Outcome:
        """One job; or several, where no node does all of it: the caller knows them by the first."""
        # Sessions look for a plan themselves. A node that must be taken does all of it, or nothing.
        chains = self.chains if caller is not None and not work.wish.is_strict else None
        plan = chains.plan_if_unserved(work) if chains is not None else None
        if chains is None or plan is None:
            return await self._place_and_run_one(work, held, caller)

        def first(stage: Work) -> Coroutine[Any, Any, Outcome]:
            return self._place_and_run_one(msgspec.structs.replace(stage, wait_s=work.wait_s), held, caller)

        # How long the caller waits for its answer, which the first job gives.
        later = msgspec.structs.replace(work, wait_s=None)
        return await chains.run(later, plan, first=first)

    async def _place_and_run_one(self, work: Work, held: "_Held | None", caller: "PlacementListener | None") -> Outcome:
        """Every attempt is bound to the request, and its caller told, between its placement and its run."""
        course = self._dispatcher.begin(work, is_id_promised=True)
        while True:
            slot = await self._dispatcher.place(work, course)
            if isinstance(slot, Outcome):
                return slot
            try:
                may_run = await self._may_run(slot.attempt, held, caller)
            except BaseException:
                # Its lease expires by itself; no caller waits for the attempt.
                self._dispatcher.forget(slot)
                raise
            if not may_run:
                return await self._dispatcher.give_back(course, slot)
            outcome = await self._dispatcher.run(work, course, slot)
            if outcome is not None:
                return outcome

    async def _may_run(self, attempt: Attempt, held: "_Held | None", caller: "PlacementListener | None") -> bool:
        if caller is not None and not caller.is_waiting:
            # Not bound: a repeat must not get a job that is about to be withdrawn.
            return False
        if held is not None:
            held.is_lost = not await self.bind(held.claim, attempt)
            if held.is_lost:
                return False
        return caller is None or caller.placed(attempt)

    async def _is_forsaken(self, job_id: str) -> bool:
        """Whether the instance that has the job died: its outcome is lost, so a repeat starts again."""
        try:
            record = await self._store.jobs.find(job_id)
            return record is not None and not await self.is_alive(record.owner)
        except RedisAway:
            return False

    async def bind(self, claim: RequestClaim, attempt: Attempt) -> bool:
        """False if the claim is lost or its state is unknown: then the job must not run."""
        bind = partial(self._store.requests.bind, claim, attempt, keep_ms=self._settings.keep_ms)
        try:
            return await self._store.insist(bind, self._patience_s) is BindOutcome.BOUND
        except RedisAway:
            return False

    async def release(self, claim: RequestClaim) -> bool:
        """The job failed, so a repeat may try again; otherwise it would have to wait until the claim expires."""
        try:
            await self._store.insist(partial(self._store.requests.release, claim), self._patience_s)
        except RedisAway:
            _log.warning("request.left_claimed", session_id=claim.request.session_id)
            return False
        return True

    async def _claim(self, claim: RequestClaim) -> ClaimedRequest:
        return await self._store.requests.claim(claim, claim_ms=self._settings.claim_ms, keep_ms=self._settings.keep_ms)


class PlacementListener(Protocol):
    """Waits to hear which job its work became."""

    @property
    def is_waiting(self) -> bool: ...

    def placed(self, attempt: Attempt) -> bool:
        """The job has a slot; False when the caller does not want this job (any more)."""


class _Held:
    """Our claim on a request id, while its job is placed and runs."""

    __slots__ = ("claim", "is_lost")

    def __init__(self, claim: RequestClaim) -> None:
        self.claim = claim
        self.is_lost = False


def _redis_away(detail: str) -> Outcome:
    return Outcome(JobState.FAILED, "", error=ErrorCode.SCHEDULER_DEPENDENCY_DOWN, detail=detail)


def payload_of(work: Work) -> str:
    """A digest of the request, without its position in the session and its trace context."""
    digest = hashlib.sha256(work.audio)
    asked = (work.asked or work.terms, work.audio_ref, work.sample_rate, work.wish)
    digest.update(msgspec.json.encode(asked, order="deterministic"))
    return digest.hexdigest()
