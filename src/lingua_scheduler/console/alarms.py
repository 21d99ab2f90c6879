"""HTTP: alarms, and what people do about them."""

from collections.abc import Iterable

from lingua_scheduler.console.operations import Call, KnownProblem, Operation, Problem
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.domain.watching.handling import HandleOutcome, alarm_id
from lingua_scheduler.protocol.http_watching import AlarmChoice, AlarmHandled, AlarmList
from lingua_scheduler.services.watching.alarm_handling import AlarmDesk, ListedPair
from lingua_scheduler.services.watching.views import Views
from lingua_sdk.domain.errors import ErrorCode, HttpCode

_TAG = "watching"
_AWAY = KnownProblem(
    503, ErrorCode.SCHEDULER_DEPENDENCY_DOWN.value, "Redis is unavailable; for the list: and no state is known yet"
)


def alarm_operations(desk: AlarmDesk, views: Views) -> Iterable[Operation]:
    async def list_alarms(call: Call[None, None]) -> AlarmList:
        return AlarmList(alarms=(await views.read(call.principal.limited_to)).alarms)

    async def handle(call: Call[AlarmChoice, None]) -> AlarmHandled:
        choice = call.body
        if not f"{choice.alarm}{choice.by}".isprintable():
            raise Problem(400, ErrorCode.INVALID_MESSAGE, "alarm and by must be printable text")
        await _check_owner(views, call.principal.limited_to, choice.alarm)
        try:
            outcome = await desk.handle(choice.alarm, choice.action, choice.for_ms, choice.by)
        except ListedPair:
            detail = f"{choice.alarm} is about a pair of pools.wanted; remove it from that list, or silence the alarm"
            raise Problem(409, HttpCode.ALARM_KEPT, detail) from None
        match outcome:
            case HandleOutcome.GONE:
                raise _unknown(choice.alarm)
            case HandleOutcome.FULL:
                raise Problem(409, HttpCode.ALARM_KEPT, "too many alarms are silenced; reset some first")
        return AlarmHandled(alarm=choice.alarm, action=choice.action)

    return (
        Operation(
            method="GET",
            path="/v1/alarms",
            needs=(Scope.FLEET_READ,),
            tag=_TAG,
            summary="List the alarms that are raised, and what was done about them",
            handle=list_alarms,
            answer=AlarmList,
            problems=(_AWAY,),
        ),
        Operation(
            method="POST",
            path="/v1/alarms",
            needs=(Scope.FLEET_OPERATE,),
            tag=_TAG,
            summary="Acknowledge, silence or forget an alarm",
            description=(
                "`acknowledge`: a person works on it; it stays in the list and in the verdict. `silence`: it does not "
                "count in the verdict, in `lingua status --check` and in gauges for `for_ms`; an alarm that may come "
                "can be silenced before. `forget`: it is not shown until it is raised anew; of `pair.lost`, the pair "
                "does not count as wanted until it is asked for again. `reset` undoes all of these. All instances "
                "that share the Redis follow, each with its next picture."
            ),
            handle=handle,
            body=AlarmChoice,
            answer=AlarmHandled,
            problems=(
                _AWAY,
                KnownProblem(404, HttpCode.UNKNOWN_ALARM.value, "No such alarm is raised"),
                KnownProblem(
                    409, HttpCode.ALARM_KEPT.value, "The pair is listed in `pools.wanted`, or too many are silenced"
                ),
            ),
        ),
    )


async def _check_owner(views: Views, tenant: str | None, name: str) -> None:
    """An operator of one tenant handles what is about its nodes; what all feel is not its to silence."""
    if tenant is None:
        return
    shown = {alarm_id(one.code, one.subject): one for one in (await views.read(tenant)).alarms}
    if name not in shown:
        raise _unknown(name)
    if not shown[name].tenant:
        raise Problem(403, HttpCode.PERMISSION_DENIED, f"{name} is for operators of all tenants to handle")


def _unknown(name: str) -> Problem:
    detail = f"no alarm {name} is raised; lingua alarms lists them, and GET /v1/alarms"
    return Problem(404, HttpCode.UNKNOWN_ALARM, detail)
