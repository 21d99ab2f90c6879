"""Requests in Redis: who may place the job of a request id, and which job it became."""

import msgspec

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.requests import BindOutcome, ClaimOutcome, ReleaseOutcome, Request
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A caller's try to be the one. The token is its own, so that a repeat of the very same call is recognised."""

    request: Request
    token: str
    instance: str
    payload: str
    # What its caller must name to fetch the result; a repeat learns it too.
    secret: str = ""


class Claimed(msgspec.Struct, frozen=True, gc=False):
    outcome: ClaimOutcome
    # Of a request that is bound.
    job_id: str = ""
    node_id: str = ""
    attempt: int = 0
    secret: str = ""
    # Of whoever bound it.
    token: str = ""
    # Of a claim that somebody else holds.
    left_ms: int = 0


class Requests:
    def __init__(self, keys: Keys, scripts: Scripts) -> None:
        self._keys = keys
        self._scripts = scripts

    async def claim(self, claim: Claim, *, claim_ms: int, keep_ms: int) -> Claimed:
        reply = await self._scripts.run(
            "request_claim",
            request=self._keys.request(*claim.request),
            token=claim.token,
            instance=claim.instance,
            payload=claim.payload,
            claim_ms=claim_ms,
            keep_ms=keep_ms,
        )
        match ClaimOutcome(reply[0]):
            case ClaimOutcome.BOUND:
                return Claimed(ClaimOutcome.BOUND, reply[1], reply[2], int(reply[3]), reply[4], reply[5])
            case ClaimOutcome.PENDING:
                return Claimed(ClaimOutcome.PENDING, left_ms=int(reply[1]))
            case outcome:
                return Claimed(outcome)

    async def bind(self, claim: Claim, attempt: Attempt, *, keep_ms: int) -> BindOutcome:
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

    async def release(self, claim: Claim) -> ReleaseOutcome:
        reply = await self._scripts.run(
            "request_release", request=self._keys.request(*claim.request), token=claim.token
        )
        return ReleaseOutcome(reply[0])
