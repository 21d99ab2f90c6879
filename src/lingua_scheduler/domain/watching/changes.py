"""The difference of two pictures: as events for people, and as a message for watchers."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from lingua_scheduler.domain.nodes.nodes import NodeState
from lingua_scheduler.domain.watching.following import wide_load
from lingua_scheduler.domain.watching.gathering import gathered
from lingua_scheduler.domain.watching.pairs import covers, is_echo, name_of
from lingua_scheduler.domain.watching.picture import (
    Alarm,
    Event,
    InstanceLook,
    Level,
    NodeLook,
    PairLook,
    Picture,
    Room,
    WideLook,
)
from lingua_sdk.domain.languages import Pair

# At most this many events of one kind are listed; the rest are counted.
EACH_MAX = 100

# What may happen, for pages that say it in their own words.
KINDS = frozenset(
    {
        "node.joined",
        "node.left",
        "node.state_changed",
        "pair.served",
        "pair.lost",
        "instance.joined",
        "instance.died",
        "instance.left",
        "leader.changed",
        "alarm.raised",
        "alarm.cleared",
        "job.failed",
        "letters.died",
    }
)

Values = dict[str, str | int | float]

_FINE = ("ready", "probation", "registering", "draining")


def changes(before: Picture | None, after: Picture, known: Sequence[Alarm] = ()) -> list[Event]:
    """Every event at the time of the later picture, those of a kind together.

    The first picture raises its alarms, without those that the fleet has `known` before.
    """
    if before is None:
        return _bounded(gathered(list(_alarms(known, after))))
    found = [
        *_nodes(before, after),
        *_pairs(before, after),
        *_instances(before, after),
        *_leader(before, after),
        *_letters(before, after),
        *_failures(before, after),
        *_alarms(before.alarms, after),
    ]
    return [
        event for _, some in groupby(gathered(found), key=lambda event: event.kind) for event in _bounded(list(some))
    ]


def delta(before: Picture, after: Picture) -> dict[str, Any]:
    """What a reader of the picture before needs for the one after; parts that are as they were are left out."""
    told: dict[str, Any] = {
        "serial": after.serial,
        "at_ms": after.at_ms,
        "is_stale": after.is_stale,
        "now": after.now,
    }
    if after.nodes is not before.nodes:
        nodes, loads = _changed_nodes(before.nodes, after.nodes)
        told |= {name: part for name, part in (("nodes", nodes), ("loads", loads)) if part}
    if after.pairs is not before.pairs and (pairs := _changed_pairs(before.pairs, after.pairs)):
        told["pairs"] = pairs
    if after.wide != before.wide:
        told |= _changed_wide(before.wide, after.wide)
    if [*map(_steady, after.instances)] != [*map(_steady, before.instances)]:
        told["instances"] = after.instances
    for name in _WHOLE:
        value = getattr(after, name)
        if value != getattr(before, name):
            told[name] = value
    return told


_WHOLE = (
    *("leader", "map_version", "map_made_at_ms", "dead_letters", "failures", "slow", "alarms"),
    *("jobs_ended", "session_languages", "verdict", "needs_look", "rooms", "detours", "scaling"),
)


def _changed_nodes(
    before: Sequence[NodeLook], after: Sequence[NodeLook]
) -> tuple[dict[str, NodeLook | None], dict[str, list[Any]]]:
    known = {node.node_id: node for node in before}
    nodes: dict[str, NodeLook | None] = {}
    loads: dict[str, list[Any]] = {}
    for node in after:
        then = known.pop(node.node_id, None)
        if then is node or then == node:
            continue
        if then is None or _lasting(then) != _lasting(node):
            nodes[node.node_id] = node
        else:
            loads[node.node_id] = [node.held, node.free, node.seen_at_ms, node.cpu, node.memory, node.gpu]
    return nodes | dict.fromkeys(known), loads


def _lasting(node: NodeLook) -> tuple[Any, ...]:
    """All but its load and its signs of life."""
    return (
        *(node.instance_id, node.state, node.shard, node.max_jobs, node.quarantined_until_ms, node.unavailable),
        *(node.speech, node.text, node.services, node.version, node.platform, node.types),
        *(node.cores, node.memory_gb, node.gpu_gb, node.wide, node.tenant),
        # It takes work or it does not: more than a load.
        node.free is None,
    )


def _changed_pairs(before: Sequence[PairLook], after: Sequence[PairLook]) -> dict[str, PairLook | None]:
    known = _by_pair(before)
    changed = {name: pair for name, pair in _by_pair(after).items() if known.pop(name, None) != pair}
    return changed | dict.fromkeys(known)


def _changed_wide(before: Sequence[WideLook], after: Sequence[WideLook]) -> dict[str, Any]:
    """Their languages are sent once, and again when the verdict changes: a name always means the same languages."""
    known = {wide.name: wide for wide in before}
    came = {wide.name: wide for wide in after if wide.name not in known or _judged(known[wide.name]) != _judged(wide)}
    loads = {
        wide.name: wide_load(wide) for wide in after if wide.name not in came and known.get(wide.name, wide) != wide
    }
    gone: dict[str, WideLook | None] = dict.fromkeys(known.keys() - {wide.name for wide in after})
    return {name: part for name, part in (("wide", gone | came), ("wide_loads", loads)) if part}


def _judged(wide: WideLook) -> tuple[Room, Level | None]:
    return wide.room, wide.level


def _steady(instance: InstanceLook) -> tuple[Any, ...]:
    """Without the seconds since its last beat, which pass all the time."""
    silent = 0 if instance.is_alive else instance.silent_ms // 10_000
    return (
        *(instance.instance_id, instance.is_alive, instance.is_leader, instance.address, instance.version),
        *(instance.started_at_ms, instance.inbox_letters, instance.inbox_pending, instance.dead_letters),
        *(instance.nodes, instance.sessions, instance.jobs_waiting, instance.has_left, silent),
    )


def _nodes(before: Picture, after: Picture) -> Iterator[Event]:
    if after.nodes is before.nodes:
        return
    known = {node.node_id: node for node in before.nodes}
    came, changed = [], []
    for node in after.nodes:
        then = known.pop(node.node_id, None)
        if then is None:
            came.append(node)
        elif then.state != node.state:
            changed.append((then, node))
    for node in came:
        values: Values = {"node_id": node.node_id, "instance_id": node.instance_id, "slots": node.max_jobs}
        text = f"{node.node_id} joined with {node.max_jobs} {'slot' if node.max_jobs == 1 else 'slots'}"
        yield _event(after, "node.joined", Level.NOTICE, node.node_id, text, values, node.tenant)
    for node in known.values():
        # The picture does not show whether it drained first; if it did not, there is an alarm.
        announced = ", as announced" if node.state == NodeState.DRAINING else ""
        values = {"node_id": node.node_id, "from": node.state}
        text = f"{node.node_id} left{announced}"
        yield _event(after, "node.left", Level.NOTICE, node.node_id, text, values, node.tenant)
    for then, node in changed:
        level = Level.NOTICE if node.state in _FINE else Level.WARNING
        text = f"{node.node_id} is {node.state}, was {then.state}"
        values = {"node_id": node.node_id, "from": then.state, "to": node.state}
        yield _event(after, "node.state_changed", level, node.node_id, text, values, node.tenant)


def _pairs(before: Picture, after: Picture) -> Iterator[Event]:
    then = {name for name, pair in _by_pair(before.pairs).items() if pair.nodes}
    listed = _by_pair(after.pairs)
    now = {name for name, pair in listed.items() if pair.nodes}
    for kind, level, pairs, told in (
        ("pair.served", Level.NOTICE, now - then, "is served"),
        ("pair.lost", Level.CRITICAL, then - now, "is no longer served"),
    ):
        # A requested pair is listed only while it is requested; wide nodes served it before, and still do afterwards.
        others = before.wide if kind == "pair.served" else after.wide
        news = [pair for pair in pairs if not is_echo(pair) and not any(covers(wide, pair) for wide in others)]
        for pair in sorted(news):
            src, tgt = Pair.parse(pair)
            # A pair without nodes is listed only if it is wanted.
            felt = level if pair in listed else Level.NOTICE
            yield _event(after, kind, felt, pair, f"{src} → {tgt} {told}", {"src": src, "tgt": tgt})


def _instances(before: Picture, after: Picture) -> Iterator[Event]:
    then = {instance.instance_id: instance for instance in before.instances if instance.is_alive}
    now = {instance.instance_id: instance for instance in after.instances}
    for name, instance in now.items():
        if instance.is_alive and name not in then:
            text = f"instance {name} joined"
            yield _event(after, "instance.joined", Level.NOTICE, name, text, {"instance_id": name})
    for name in then:
        found = now.get(name)
        if found is not None and found.is_alive:
            continue
        if found is not None and not found.has_left:
            yield _event(after, "instance.died", Level.WARNING, name, f"instance {name} died", {"instance_id": name})
        else:
            yield _event(after, "instance.left", Level.NOTICE, name, f"instance {name} left", {"instance_id": name})


def _leader(before: Picture, after: Picture) -> Iterator[Event]:
    if after.leader != before.leader:
        level = Level.WARNING if after.leader is None else Level.NOTICE
        text = "there is no leader" if after.leader is None else f"{after.leader} leads"
        values: Values = {"from": before.leader or "", "to": after.leader or ""}
        yield _event(after, "leader.changed", level, after.leader or "", text, values)


def _letters(before: Picture, after: Picture) -> Iterator[Event]:
    died = after.dead_letters - before.dead_letters
    if died > 0:
        text = f"{died} {'letter' if died == 1 else 'letters'} could not be processed"
        yield _event(after, "letters.died", Level.WARNING, "", text, {"letters": died, "total": after.dead_letters})


def _failures(before: Picture, after: Picture) -> Iterator[Event]:
    known = {job.job_id for job in before.failures}
    for job in reversed(after.failures):
        if job.job_id not in known:
            text = f"{job.job_id} ({job.src} → {job.tgt}) failed: {job.reason}"
            values: Values = {name: getattr(job, name) for name in ("job_id", "src", "tgt", "node_id", "reason")}
            yield _event(after, "job.failed", Level.WARNING, job.job_id, text, values, job.tenant)


def _alarms(before: Sequence[Alarm], after: Picture) -> Iterator[Event]:
    then, now = _by_name(before), _by_name(after.alarms)
    for kind, alarms, others, told in (
        ("alarm.raised", now, then, "{}"),
        ("alarm.cleared", then, now, "Over: {}"),
    ):
        for name, alarm in alarms.items():
            if name not in others:
                level = alarm.level if kind == "alarm.raised" else Level.NOTICE
                values: Values = dict(alarm.values) | {"code": alarm.code}
                text = told.format(alarm.text)
                yield _event(after, kind, level, alarm.subject, text, values, alarm.tenant)


def _by_pair(pairs: Iterable[PairLook]) -> dict[str, PairLook]:
    return {name_of(pair): pair for pair in pairs}


def _by_name(alarms: Iterable[Alarm]) -> dict[tuple[str, str], Alarm]:
    return {(alarm.code, alarm.subject): alarm for alarm in alarms}


def _bounded(events: list[Event]) -> list[Event]:
    rest = len(events) - EACH_MAX + 1
    if rest <= 1:
        return events
    last = events[-1]
    told = f"… and {rest} more of the same"
    summary = Event(at_ms=last.at_ms, kind=last.kind, level=last.level, subject="", text=told, values={"more": rest})
    return [*events[: EACH_MAX - 1], summary]


def _event(after: Picture, kind: str, level: Level, subject: str, text: str, values: Values, tenant: str = "") -> Event:
    return Event(at_ms=after.at_ms, kind=kind, level=level, subject=subject, text=text, values=values, tenant=tenant)
