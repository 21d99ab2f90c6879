"""What somebody should know about, from what a look at everything found: each with a level and the next step."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from lingua_scheduler.domain.cluster.instances import key_ids
from lingua_scheduler.domain.nodes.nodes import NodeState
from lingua_scheduler.domain.pools.pools import Facet
from lingua_scheduler.domain.watching.pairs import QUARANTINED, covers, is_echo, name_of, takes_work
from lingua_scheduler.domain.watching.picture import Alarm, InstanceLook, Level, NodeLook, PairLook, WideLook
from lingua_scheduler.domain.watching.verdict import listed

# Of one kind no more than this are told apart; the rest are counted.
EACH_MAX = 50
REMEMBERED_MS = 3_600_000
# A node that vanished is expected back for so long, and of so many.
LOST_MS = 600_000
LOST_MAX = 1_000
MOST_PAIRS = 5
FAILING_PERCENT = 5.0
FAILING_SOME_PERCENT = 1.0
FEWEST_JOBS = 5
SILENT_INTERVALS = 2
# Of the memory Redis may use.
FILLING_SHARE, FULL_SHARE = 0.8, 0.95


# What may be raised, for pages that say it in their own words.
CODES = frozenset(
    {
        "redis.away",
        "redis.full",
        "nodes.none",
        "pair.lost",
        "pair.full",
        "pair.thin",
        "node.quarantined",
        "node.silent",
        "node.lost",
        "instance.dead",
        "letters.dead",
        "keys.differ",
        "leader.none",
        "data.unreadable",
        "jobs.failing",
        "latency.high",
    }
)

Values = dict[str, str | int | float]


class Lost(NamedTuple):
    """A node that vanished, as it was."""

    node: NodeLook
    at_ms: int


class Sight(NamedTuple):
    """All that alarms are made of."""

    at_ms: int
    is_redis_away: bool = False
    # Of the memory Redis may use; None: it has no limit.
    memory_used: float | None = None
    nodes: Sequence[NodeLook] = ()
    pairs: Sequence[PairLook] = ()
    wide: Sequence[WideLook] = ()
    instances: Sequence[InstanceLook] = ()
    leader: str | None = None
    dead_letters: int = 0
    # Families of keys in which something was met that no scheduler can have written.
    unreadable: Sequence[str] = ()
    # In the last minute.
    jobs_ended: int = 0
    jobs_failed: int = 0
    p95_ms: float | None = None
    # src:tgt → when it was last served as speech.
    served_at_ms: Mapping[str, int] = {}
    # src:tgt → the only node that served it last; empty where there were several.
    served_by: Mapping[str, str] = {}
    # Nodes that vanished and are not back.
    lost: Mapping[str, Lost] = {}
    # Pools (src:tgt:facet) that sessions ask for, and how many jobs wait for which.
    wanted: Iterable[str] = ()
    waiting: Mapping[str, int] = {}
    slow_ms: int = 5_000
    # Intervals after which a silent node is gone.
    missed_heartbeats: int = 3


def alarms(sight: Sight, before: Sequence[Alarm]) -> list[Alarm]:
    """The gravest first. One that was there before keeps the time it was raised."""
    if sight.is_redis_away:
        # Nothing else is known any more; what was known stays as it was.
        found = [*_redis(sight), *(alarm for alarm in before if alarm.code != "redis.away")]
    else:
        found = [alarm for look in _LOOKS for alarm in _bounded(list(look(sight)))]
    since = {(alarm.code, alarm.subject): alarm.since_ms for alarm in before}
    kept = [_since(alarm, since.get((alarm.code, alarm.subject), alarm.since_ms)) for alarm in found]
    return sorted(kept, key=lambda alarm: (_RANK[alarm.level], alarm.code, alarm.subject))


def served_lately(before: Mapping[str, int], pairs: Iterable[PairLook], at_ms: int) -> dict[str, int]:
    """When each pair was last served, as far back as it matters."""
    kept = {pair: served for pair, served in before.items() if at_ms - served < REMEMBERED_MS}
    return kept | {name_of(pair): at_ms for pair in pairs if pair.nodes}


def last_to_serve(before: Mapping[str, str], pairs: Iterable[PairLook], served: Container[str]) -> dict[str, str]:
    """Who was alone with each pair when it was last served; only of pairs that are remembered."""
    kept = {pair: node_id for pair, node_id in before.items() if pair in served}
    return kept | {name_of(pair): pair.hangs_on for pair in pairs if pair.nodes}


def lost_lately(
    before: Mapping[str, Lost],
    gone: Iterable[NodeLook],
    here: Container[str],
    at_ms: int,
    goodbyes: Container[str] = (),
) -> dict[str, Lost]:
    """Nodes that went without a word and were not drained, until they are back or nobody expects them any more."""
    kept = {name: lost for name, lost in before.items() if name not in here and at_ms - lost.at_ms < LOST_MS}
    for node in gone:
        if node.state != NodeState.DRAINING and node.node_id not in goodbyes:
            kept.pop(node.node_id, None)
            kept[node.node_id] = Lost(node, at_ms)
    return dict(list(kept.items())[-LOST_MAX:])


def _redis(sight: Sight) -> Iterator[Alarm]:
    if sight.is_redis_away:
        text = "Redis does not answer, or takes no writes: no job can be placed. Look at the server and the way to it."
        yield _alarm(sight, "redis.away", Level.CRITICAL, "", text, {})


def _redis_full(sight: Sight) -> Iterator[Alarm]:
    share = sight.memory_used or 0.0
    if share >= FILLING_SHARE:
        level = Level.CRITICAL if share >= FULL_SHARE else Level.WARNING
        percent = int(100 * share)
        text = f"Redis uses {percent} % of its memory; full, it takes no writes. Give it more, or see what fills it."
        yield _alarm(sight, "redis.full", level, "", text, {"percent": percent})


def _nodes_none(sight: Sight) -> Iterator[Alarm]:
    if not any(map(takes_work, sight.nodes)):
        known = len(sight.nodes)
        text = f"No node takes work, of {known} that are connected. Start nodes, or see why these take none."
        yield _alarm(sight, "nodes.none", Level.CRITICAL, "", text, {"nodes": known})


def _pairs_lost(sight: Sight) -> Iterator[Alarm]:
    if not any(map(takes_work, sight.nodes)):
        return  # one alarm says it all
    speech = {name_of(pair) for pair in sight.pairs if pair.nodes}
    text = {name_of(pair) for pair in sight.pairs if pair.text_nodes}
    lost = {
        pair
        for pair in sight.served_at_ms
        if pair not in speech and not is_echo(pair) and not any(covers(wide, pair) for wide in sight.wide)
    }
    for pool in sight.wanted:
        pair, _, facet = pool.rpartition(":")
        if pair not in (speech if facet == Facet.SPEECH else text):
            lost.add(pair)
    for pair in sorted(lost):
        src, _, tgt = pair.partition(":")
        last = sight.served_by.get(pair, "")
        told = f"; {last} was the last" if last else ""
        said = f"Nobody serves {src} → {tgt}{told}. Bring a node back that does, or start one."
        values: Values = {"src": src, "tgt": tgt}
        if last:
            values["node_id"] = last
        yield _alarm(sight, "pair.lost", Level.CRITICAL, pair, said, values)


def _pairs_full(sight: Sight) -> Iterator[Alarm]:
    waiting: Counter[str] = Counter()
    for pool, jobs in sight.waiting.items():
        waiting[pool.rpartition(":")[0]] += jobs
    for pair in sight.pairs:
        jobs = waiting[name_of(pair)]
        if jobs and pair.nodes and not pair.free:
            wait = "1 job waits" if jobs == 1 else f"{jobs} jobs wait"
            taken = "its one slot is taken" if pair.slots == 1 else f"all {pair.slots} slots are taken"
            text = f"{wait} for {pair.src} → {pair.tgt}: {taken}. Add nodes for it."
            values: Values = {"src": pair.src, "tgt": pair.tgt, "jobs": jobs, "slots": pair.slots}
            yield _alarm(sight, "pair.full", Level.WARNING, name_of(pair), text, values)


def _pairs_thin(sight: Sight) -> Iterator[Alarm]:
    if len(sight.nodes) < 2:
        return
    for pair in sight.pairs:
        if pair.hangs_on and not is_echo(name_of(pair)):
            text = f"{pair.src} → {pair.tgt} hangs on {pair.hangs_on} alone. Add a second node for it."
            values: Values = {"src": pair.src, "tgt": pair.tgt, "node_id": pair.hangs_on}
            yield _alarm(sight, "pair.thin", Level.NOTICE, name_of(pair), text, values)


def _nodes_sick(sight: Sight) -> Iterator[Alarm]:
    for node in sight.nodes:
        if node.state == QUARANTINED:
            text = f"{node.node_id} failed too often and gets no work for now. See its log."
            values: Values = {"node_id": node.node_id, "until_ms": node.quarantined_until_ms}
            yield _alarm(sight, "node.quarantined", Level.WARNING, node.node_id, text, values)


def _nodes_silent(sight: Sight) -> Iterator[Alarm]:
    for node in sight.nodes:
        interval_ms = (node.alive_until_ms - node.seen_at_ms) / sight.missed_heartbeats
        if interval_ms > 0 and sight.at_ms - node.seen_at_ms > SILENT_INTERVALS * interval_ms:
            text = f"{node.node_id} gives no sign of life. See whether it runs and can be reached."
            values: Values = {"node_id": node.node_id, "seen_at_ms": node.seen_at_ms}
            yield _alarm(sight, "node.silent", Level.WARNING, node.node_id, text, values)


def _nodes_lost(sight: Sight) -> Iterator[Alarm]:
    for name, (node, at_ms) in sight.lost.items():
        pairs = [pair for pair in node.speech or node.text if not is_echo(pair)]
        served = listed(pairs, 0, MOST_PAIRS) or "nothing"
        if node.wide:
            served = f"{node.wide_pairs} pairs"
        text = f"{name} vanished; it served {served}. See its machine, or start another."
        values: Values = {"node_id": name, "pairs": served}
        yield _since(_alarm(sight, "node.lost", Level.WARNING, name, text, values), at_ms)


def _instances_dead(sight: Sight) -> Iterator[Alarm]:
    for instance in sight.instances:
        if not instance.is_alive and not instance.has_left:
            name, address = instance.instance_id, instance.address
            text = f"Instance {name} ({address}) is dead; others do its work. Start it again, or let it be forgotten."
            values: Values = {"instance_id": name, "address": address}
            yield _alarm(sight, "instance.dead", Level.WARNING, name, text, values)


def _letters(sight: Sight) -> Iterator[Alarm]:
    if sight.dead_letters:
        letters = "1 letter" if sight.dead_letters == 1 else f"{sight.dead_letters} letters"
        text = f"{letters} could not be handled. See lingua dead-letters; replay or purge what is there."
        yield _alarm(sight, "letters.dead", Level.WARNING, "", text, {"letters": sight.dead_letters})


def _keys_differ(sight: Sight) -> Iterator[Alarm]:
    """Of several instances that are alive, those that cannot open what most of the others seal."""
    living = [instance for instance in sight.instances if instance.is_alive]
    sealing = Counter(key_ids(instance.seals)[0] for instance in living if key_ids(instance.seals))
    if not sealing:
        return
    key = max(sealing, key=lambda found: (sealing[found], found))
    without = sorted(instance.instance_id for instance in living if key not in key_ids(instance.seals))
    if without:
        level = Level.WARNING if len(sealing) > 1 else Level.NOTICE
        names = listed(without, 0, MOST_PAIRS)
        text = (
            f"Letters between instances are not sealed, or not read: {names} cannot open those of the others. "
            "Give every instance the same privacy.cluster_key_file."
        )
        yield _alarm(sight, "keys.differ", level, "", text, {"instances": names, "key": key})


def _unreadable(sight: Sight) -> Iterator[Alarm]:
    if sight.unreadable:
        families = ", ".join(sight.unreadable)
        text = (
            f"Redis holds what no scheduler can have written ({families}). See lingua redis check; --repair removes it."
        )
        yield _alarm(sight, "data.unreadable", Level.WARNING, "", text, {"families": families})


def _leader(sight: Sight) -> Iterator[Alarm]:
    if sight.leader is None:
        text = "No instance leads, so the pool map is not renewed. One should take over within seconds."
        yield _alarm(sight, "leader.none", Level.WARNING, "", text, {})


def _jobs_failing(sight: Sight) -> Iterator[Alarm]:
    ended, failed = sight.jobs_ended, sight.jobs_failed
    percent = 100 * failed / ended if ended >= FEWEST_JOBS else 0.0
    if percent > FAILING_SOME_PERCENT:
        level = Level.CRITICAL if percent > FAILING_PERCENT else Level.WARNING
        text = f"{failed} of {ended} jobs failed in the last minute. See the recent failures and why."
        values: Values = {"failed": failed, "ended": ended, "percent": round(percent, 1)}
        yield _alarm(sight, "jobs.failing", level, "", text, values)


def _latency(sight: Sight) -> Iterator[Alarm]:
    if sight.p95_ms is not None and sight.jobs_ended >= FEWEST_JOBS and sight.p95_ms > sight.slow_ms:
        text = (
            f"One in twenty outcomes takes longer than {sight.p95_ms / 1000:.1f} s. See the slow jobs and full pairs."
        )
        values: Values = {"p95_ms": round(sight.p95_ms), "slow_ms": sight.slow_ms}
        yield _alarm(sight, "latency.high", Level.WARNING, "", text, values)


_LOOKS = (
    _redis,
    _redis_full,
    _nodes_none,
    _pairs_lost,
    _pairs_full,
    _pairs_thin,
    _nodes_sick,
    _nodes_silent,
    _nodes_lost,
    _instances_dead,
    _letters,
    _keys_differ,
    _unreadable,
    _leader,
    _jobs_failing,
    _latency,
)
_RANK = {Level.CRITICAL: 0, Level.WARNING: 1, Level.NOTICE: 2}


def _bounded(found: list[Alarm]) -> list[Alarm]:
    if len(found) <= EACH_MAX:
        return found
    last, rest = found[EACH_MAX - 1], len(found) - EACH_MAX + 1
    told = f"The same is so for {rest} more."
    summary = Alarm(
        code=last.code, level=last.level, subject="", since_ms=last.since_ms, text=told, values={"more": rest}
    )
    return [*found[: EACH_MAX - 1], summary]


def _alarm(sight: Sight, code: str, level: Level, subject: str, text: str, values: Values) -> Alarm:
    return Alarm(code=code, level=level, subject=subject, since_ms=sight.at_ms, text=text, values=values)


def _since(alarm: Alarm, since_ms: int) -> Alarm:
    if alarm.since_ms == since_ms:
        return alarm
    return Alarm(
        code=alarm.code,
        level=alarm.level,
        subject=alarm.subject,
        since_ms=since_ms,
        text=alarm.text,
        values=alarm.values,
    )
