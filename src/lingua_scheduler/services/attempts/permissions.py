"""What a caller's credential allows of its work; the same for sessions, utterances and HTTP jobs."""

from collections.abc import Iterable

from lingua_scheduler.domain.access.principals import Principal
from lingua_scheduler.domain.pools.names import Pool
from lingua_scheduler.services.attempts.work import Refusal
from lingua_sdk.domain.errors import ErrorCode

_SHOWN_PAIRS = 8


def denial(principal: Principal, pools: Iterable[str]) -> Refusal | None:
    """None if it may translate all of these pairs. Where several languages may be spoken, it must be allowed each."""
    if not principal.pairs:
        return None
    for pool in map(Pool.parse, pools):
        if not principal.may_translate(pool.src, pool.tgt):
            allowed = ", ".join(principal.pairs[:_SHOWN_PAIRS])
            more = ", …" if len(principal.pairs) > _SHOWN_PAIRS else ""
            told = f"this credential does not allow {pool.src}→{pool.tgt}; it allows {allowed}{more}"
            return Refusal(ErrorCode.PERMISSION_DENIED, told)
    return None
