"""HTTP: how many slots are wanted, for autoscalers."""

from collections.abc import Iterable

from lingua_scheduler.console.operations import Call, KnownProblem, Operation, Problem
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.domain.watching.scaling import Scaling
from lingua_scheduler.protocol.http_watching import ScalingQuery
from lingua_scheduler.services.watching.scaling import ScalingDesk
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.languages import tag_of


def scaling_operations(desk: ScalingDesk) -> Iterable[Operation]:
    async def scaling(call: Call[None, ScalingQuery]) -> Scaling:
        return await desk.read(_pairs(call.query.pair), call.principal.limited_to)

    return (
        Operation(
            method="GET",
            path="/v1/scaling",
            needs=(Scope.FLEET_READ, Scope.METRICS_READ),
            tag="watching",
            summary="How many slots the load calls for, of the fleet and of each language pair",
            description=(
                "For autoscalers: `wanted_slots` is one number for all pairs, or with `pair` for those alone, and "
                "`capacity` says what there is. The metrics-api scaler of KEDA reads it with `valueLocation: "
                "wanted_slots`; `targetValue` is the number of slots of a node. More slots are wanted at once, fewer "
                "after `scaling.hold_ms`. Answered from memory, with the latest picture (`watch.interval_ms`). "
                "Nodes and jobs that are private to a tenant do not count. An operator of one tenant is not shown "
                "pairs that no node serves. The formula is in docs/scaling.md."
            ),
            handle=scaling,
            query=ScalingQuery,
            answer=Scaling,
            problems=(
                KnownProblem(
                    503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN.value, "Redis is unavailable, and no state is known yet"
                ),
            ),
        ),
    )


def _pairs(text: str) -> tuple[str, ...] | None:
    return tuple(map(_pair, text.split(","))) if text else None


def _pair(word: str) -> str:
    src, separator, tgt = word.strip().partition(":")
    tags = (tag_of(src), tag_of(tgt))
    if not separator or not all(tags):
        detail = f"pair: {word[:64]!r} is not a language pair; write src:tgt, for example en:zh or en:zh,zh:en"
        raise Problem(400, ErrorCode.INVALID_MESSAGE, detail)
    return f"{tags[0]}:{tags[1]}"
