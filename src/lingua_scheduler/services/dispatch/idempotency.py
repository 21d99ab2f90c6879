"""Work that carries a request id: claim the id, place the job, bind the two, and only then let the job run."""

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

import msgspec

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.jobs.attempts import Attempt, handle_of
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.jobs.requests import BindOutcome, ClaimOutcome, Request
from lingua_scheduler.domain.jobs.retry_decisions import AWAY, REFUSED
from lingua_scheduler.services.attempts.work import Outcome, Refusal, Work
from lingua_scheduler.services.dispatch.dispatcher import Dispatcher
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import RedisAway, WritesRefused
from lingua_scheduler.store.jobs.requests import Claim, Claimed
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()

_CLAIMS = metrics.by(metrics.CLAIMS, *ClaimOutcome)

# Between looks at a claim that somebody else holds; doubled each time.
FIRST_LOOK_S = 0.02
MAX_LOOK_S = 0.25


class Placement(NamedTuple):
    """The job a request became."""

    job_id: str
    node_id: str
    attempt_id: int
    secret: str = ""

    @property
    def handle(self) -> str:
        """What its caller knows it by."""
        return handle_of(self.job_id, self.secret)


class Requests:
    """`is_alive` says whether an instance is."""

    def __init__(
        self,
        instance: str,
        store: Store,
        dispatcher: Dispatcher,
        settings: Settings,
        is_alive: Callable[[str], Awaitable[bool]],
    ) -> None:
        self.is_alive = is_alive
        self._instance = instance
        self._store = store
        self._dispatcher = dispatcher
        self._settings = settings.requests
        self._patience_s = settings.dispatch.queue_wait_ms / 1000

    def translate(self, work: Work) -> Coroutine[Any, Any, Outcome | Placement | Refusal]:
        """As the dispatcher does; but of all who bring the same request, on any instance, one gets the outcome.

        The others learn which job it is. Refused when the id was used for something else (REQUEST_CONFLICT), or when
        somebody else tries to place its job and does not get anywhere.
        """
        if work.request is None:
            return self._dispatcher.translate(work)
        return self._translate_once(work, work.request)

    async def _translate_once(self, work: Work, request: Request) -> Outcome | Placement | Refusal:
        payload = payload_of(work)
        # Long enough to take over from an instance that died, and to be the second in line then.
        give_up_at = monotonic() + 2 * self._settings.claim_ms / 1000
        look_s = FIRST_LOOK_S
        while True:
            is_over = monotonic() > give_up_at
            # A token a try: what an earlier one bound and could not send must not look like ours.
            claim = Claim(request, secrets.token_hex(8), self._instance, payload, work.secret)
            try:
                claimed = await self._store.insist(partial(self._claim, claim), self._patience_s, bears_refusal=False)
            except RedisAway as error:
                return _redis_away(REFUSED if isinstance(error, WritesRefused) else AWAY)
            _CLAIMS[claimed.outcome].inc()
            if is_over and claimed.outcome in (ClaimOutcome.CLAIMED, ClaimOutcome.PENDING):
                await self.release(claim)
                busy = ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED
                return Refusal(busy, "this request waits for a node elsewhere; repeat it later")
            match claimed.outcome:
                case ClaimOutcome.CLAIMED:
                    held = _Held(self, claim, work)
                    outcome = await self._dispatcher.translate(msgspec.structs.replace(work, may_send=held.may_send))
                    if not held.is_lost:
                        if outcome.state in (JobState.FAILED, JobState.CANCELLED):
                            await self.release(claim)
                        return outcome
                    _log.info("request.taken_over", job_id=outcome.job_id)
                    # If only the answer was lost, the claim is bound to a job that was withdrawn.
                    if not await self.release(claim):
                        return _redis_away("the request could not be bound to its job")
                case ClaimOutcome.BOUND:
                    if not is_over and await self._is_forsaken(claimed.job_id):
                        await self.release(msgspec.structs.replace(claim, token=claimed.token))
                        continue
                    return Placement(claimed.job_id, claimed.node_id, claimed.attempt, claimed.secret)
                case ClaimOutcome.CONFLICT:
                    return Refusal(ErrorCode.REQUEST_CONFLICT, "this request_id was used for something else")
                case ClaimOutcome.PENDING:
                    await asyncio.sleep(min(look_s, claimed.left_ms / 1000))
                    look_s = min(look_s * 2, MAX_LOOK_S)

    async def _is_forsaken(self, job_id: str) -> bool:
        """Whether the instance that has the job died: its outcome comes to nobody, so a repeat begins anew."""
        try:
            record = await self._store.jobs.find(job_id)
            return record is not None and not await self.is_alive(record.owner)
        except RedisAway:
            return False

    async def bind(self, claim: Claim, attempt: Attempt) -> bool:
        """False when the claim is lost, or nobody can say: then the job must not run."""
        bind = partial(self._store.requests.bind, claim, attempt, keep_ms=self._settings.keep_ms)
        try:
            return await self._store.insist(bind, self._patience_s) is BindOutcome.BOUND
        except RedisAway:
            return False

    async def release(self, claim: Claim) -> bool:
        """The job came to nothing, so a repeat may try anew; else it has to wait until the lease is over."""
        try:
            await self._store.insist(partial(self._store.requests.release, claim), self._patience_s)
        except RedisAway:
            _log.warning("request.left_claimed", session_id=claim.request.session_id)
            return False
        return True

    async def _claim(self, claim: Claim) -> Claimed:
        return await self._store.requests.claim(claim, claim_ms=self._settings.claim_ms, keep_ms=self._settings.keep_ms)


class _Held:
    """A claim of ours, while its job is placed and runs."""

    def __init__(self, requests: Requests, claim: Claim, work: Work) -> None:
        self._requests = requests
        self._claim = claim
        self._ask = work.may_send
        self._is_wanted = work.is_wanted
        self.is_lost = False

    async def may_send(self, attempt: Attempt) -> bool:
        if self._is_wanted is not None and not self._is_wanted():
            # Not even bound: a repeat must not be told of a job that is about to be withdrawn.
            await self._requests.release(self._claim)
            return False
        self.is_lost = not await self._requests.bind(self._claim, attempt)
        if self.is_lost:
            return False
        if self._ask is None or await self._ask(attempt):
            return True
        await self._requests.release(self._claim)
        return False


def _redis_away(detail: str) -> Outcome:
    return Outcome(JobState.FAILED, "", error=ErrorCode.SCHEDULER_DEPENDENCY_DOWN, detail=detail)


def payload_of(work: Work) -> str:
    """A digest of what is asked for; where it stands in its session and how it is traced do not matter."""
    digest = hashlib.sha256(work.audio)
    asked = (work.terms, work.audio_ref, work.sample_rate, work.wish)
    digest.update(msgspec.json.encode(asked, order="deterministic"))
    return digest.hexdigest()
