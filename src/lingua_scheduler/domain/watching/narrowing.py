"""What an operator of one tenant sees: what belongs to the tenant, and sums of what all share, without names."""

import re
from collections.abc import Collection, Iterable
from typing import TypeVar

import msgspec

from lingua_scheduler.domain.watching.failures import FailedJob
from lingua_scheduler.domain.watching.pair_work import ScalingLook
from lingua_scheduler.domain.watching.picture import Alarm, Event, JobLook, PairLook, Picture, RoomsLook, WideLook
from lingua_scheduler.domain.watching.verdict import judged

Served = TypeVar("Served", PairLook, WideLook)

# In place of the name of a node that a caller may not know.
A_NODE = "a node"
# About everything, and without names: those that a tenant feels too.
_ALARMS_FOR_ALL = frozenset({"redis.away", "nodes.none", "latency.high"})
_EVENTS_FOR_ALL = frozenset({"pair.served", "pair.lost"})


def narrowed(picture: Picture, tenant: str) -> Picture:
    """The picture of one tenant. What is not known to be its own is left out.

    Pairs and rates are sums of the shared pool. A pair without a node is left out: that it is listed tells that a
    client, perhaps another tenant's, asked for it.
    """
    nodes = [node for node in picture.nodes if node.tenant == tenant]
    own = {node.node_id for node in nodes}
    return judged(
        msgspec.structs.replace(
            picture,
            made_by="",
            redis_version="",
            key_prefix="",
            session_languages={},
            nodes=nodes,
            pairs=[_nameless(pair, own) for pair in picture.pairs if pair.nodes or pair.text_nodes],
            wide=[_nameless(wide, own) for wide in picture.wide],
            instances=[],
            leader=None,
            map_version=0,
            map_made_at_ms=0,
            dead_letters=0,
            failures=_jobs_of(picture.failures, tenant, own),
            slow=_jobs_of(picture.slow, tenant, own),
            alarms=[_shown(alarm) for alarm in picture.alarms if _is_for(alarm, tenant)],
            verdict=None,
            needs_look=None,
            rooms=RoomsLook(),
            scaling=ScalingLook(),
        )
    )


def nodes_of(picture: Picture | None, tenant: str) -> set[str]:
    return {node.node_id for node in picture.nodes if node.tenant == tenant} if picture is not None else set()


def events_of(events: Iterable[Event], tenant: str, own: Collection[str]) -> list[Event]:
    """In their order. `own`: the nodes of the tenant."""
    found = []
    for event in events:
        if event.tenant == tenant:
            found.append(event if event.values.get("node_id", "") in ("", *own) else _anywhere(event))
        elif not event.tenant and event.kind in _EVENTS_FOR_ALL:
            found.append(event)
    return found


def failure_for(failure: FailedJob, own: Collection[str]) -> FailedJob:
    """One of the tenant's failures, with the names of its own nodes alone."""
    if not failure.node_id or failure.node_id in own:
        return failure
    reason = without_names(failure.reason, [failure.node_id])
    return msgspec.structs.replace(failure, node_id="", reason=reason)


def without_names(text: str, names: Collection[str]) -> str:
    """With these names of nodes replaced, where they are whole words."""
    for name in names:
        if name in text:
            text = re.sub(rf"(?<![\w.:-]){re.escape(name)}(?![\w:-])", A_NODE, text)
    return text


def _jobs_of(jobs: Iterable[JobLook], tenant: str, own: Collection[str]) -> list[JobLook]:
    return [
        job if job.node_id in own or not job.node_id else msgspec.structs.replace(job, node_id="")
        for job in jobs
        if job.tenant == tenant
    ]


def _nameless(served: Served, own: Collection[str]) -> Served:
    if not served.hangs_on or served.hangs_on in own:
        return served
    return msgspec.structs.replace(served, hangs_on="")


def _is_for(alarm: Alarm, tenant: str) -> bool:
    return alarm.tenant == tenant or (not alarm.tenant and not alarm.subject and alarm.code in _ALARMS_FOR_ALL)


def _shown(alarm: Alarm) -> Alarm:
    """Who handled what all feel is not the tenant's business."""
    return alarm if alarm.tenant or not alarm.handled_by else msgspec.structs.replace(alarm, handled_by="")


def _anywhere(event: Event) -> Event:
    values = {**event.values, "node_id": ""}
    return msgspec.structs.replace(event, values=values, text=without_names(event.text, [str(event.values["node_id"])]))
