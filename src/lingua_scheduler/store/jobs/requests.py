"""Idempotency keys in Redis: which caller may place the job of a request id, and which job it became."""

import msgspec

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.requests import BindOutcome, Request, RequestClaimOutcome, RequestReleaseOutcome
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts


class RequestClaim(msgspec.Struct, frozen=True, gc=False):
    """A caller's try to be the one. The token is its own, so that a repeat of the very same call is recognised."""

    request: Request
    token: str
    instance: str
    payload: str
    # What its caller must name to fetch the result; a repeat learns it too.
    secret: str = ""


class ClaimedRequest(msgspec.Struct, frozen=True, gc=False):
    outcome: RequestClaimOutcome
    # Of a request that is bound.
    job_id: str = ""
    node_id: str = ""
    attempt: int = 0
    secret: str = ""
    # Of the caller that bound it.
    token: str = ""
    # Of a claim that another caller holds.
    left_ms: int = 0


class Requests:
    def __init__(self, keys: Keys, scripts: Scripts) -> None:
        self._keys = keys
        self._scripts = scripts

    async def claim(self, claim: RequestClaim, *, claim_ms: int, keep_ms: int) -> ClaimedRequest:
        reply = await self._scripts.run(
            "request_claim",
            request=self._keys.request(*claim.request),
            token=claim.token,
            instance=claim.instance,
            payload=claim.payload,
            claim_ms=claim_ms,
            keep_ms=keep_ms,
        )
        match RequestClaimOutcome(reply[0]):
            case RequestClaimOutcome.BOUND:
                return ClaimedRequest(RequestClaimOutcome.BOUND, reply[1], reply[2], int(reply[3]), reply[4], reply[5])
            case RequestClaimOutcome.PENDING:
                return ClaimedRequest(RequestClaimOutcome.PENDING, left_ms=int(reply[1]))
            case outcome:
                return ClaimedRequest(outcome)

    async def bind(self, claim: RequestClaim, attempt: Attempt, *, keep_ms: int) -> BindOutcome:
        reply = await self._scripts.run(
            "request_bind",
            request=self._keys.request(*claim.request),
            token=claim.token,
            job=attempt.job_id,
            node=attempt.node_id,
            attempt=attempt.number,
            secret=claim.secret,
            keep_ms=keep_ms,
        )
        return BindOutcome(reply[0])

    async def release(self, claim: RequestClaim) -> RequestReleaseOutcome:
        reply = await self._scripts.run(
            "request_release", request=self._keys.request(*claim.request), token=claim.token
        )
        return RequestReleaseOutcome(reply[0])
