"""Alarms: conditions of the fleet that need attention, each with a level and the next step."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.cluster.instances import key_ids
from lingua_scheduler.domain.nodes.nodes import NodeState
from lingua_scheduler.domain.pools.language_names import language_name
from lingua_scheduler.domain.pools.names import Pool
from lingua_scheduler.domain.watching.figures import MINUTE_MS
from lingua_scheduler.domain.watching.lost_pairs import drained_nodes, lack_of, last_resorts, lost_pools
from lingua_scheduler.domain.watching.pairs import is_echo, name_of, takes_work
from lingua_scheduler.domain.watching.picture import Alarm, InstanceLook, Level, NodeLook, PairLook, WideLook
from lingua_scheduler.domain.watching.succession import missed
from lingua_scheduler.domain.watching.verdict import HURTS, QUARANTINED, UNSERVED, in_order, listed

# At most this many alarms of one kind are listed; the rest are counted.
EACH_MAX = 50
# How long, and for how many nodes at most, a lost node is expected to reconnect.
LOST_MS = 600_000
LOST_MAX = 1_000
# Pairs that are neither served nor wanted now, and were served before.
SERVED_MAX = 1_000
MOST_PAIRS = 5
FAILING_PERCENT = 5.0
FAILING_SOME_PERCENT = 1.0
FEWEST_JOBS = 5
# Fewer failures than this are no outage, whatever their share: unless most jobs fail.
FEWEST_FAILED = 3
FEWEST_OF_MOST = 2
SILENT_INTERVALS = 2
# Of the memory Redis may use.
FILLING_SHARE, FULL_SHARE = 0.8, 0.95


# What may be raised, for pages that say it in their own words.
CODES = frozenset(HURTS)
PAIR_LOST = "pair.lost"
# In place of what no node does: the nodes are there, and take no jobs because a person said so.
DRAINED = "drained"
# Those that are about a pair that is wanted.
ABOUT_WANTED = frozenset({PAIR_LOST, "pair.quarantined", UNSERVED})
# For want of these jobs fail, and the failures need no alarm of their own.
MISSING = frozenset({"nodes.none", *ABOUT_WANTED})
# What an outage of Redis makes look so: neither nodes, heartbeats nor the lease of the leader could be written.
UNSETTLED = MISSING | {"room.language_unserved", "node.silent", "leader.none"}

Values = dict[str, str | int | float]


class LostNode(NamedTuple):
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
    # Of these, for want of a node and of Redis, which have alarms of their own.
    failed_unserved: int = 0
    failed_without_redis: int = 0
    p95_ms: float | None = None
    # src:tgt → the only node that served it last; empty where there were several.
    served_by: Mapping[str, str] = {}
    # Pairs, src:tgt, that nodes served when they were asked for, or that the operator lists.
    expected: Container[str] = ()
    # Quarantined node → the reason of its last failed attempt.
    failed_with: Mapping[str, str] = {}
    # Nodes that vanished and are not back.
    lost: Mapping[str, LostNode] = {}
    # Pools (src:tgt:facet) that are missed if no node serves them, and how many jobs wait for which.
    wanted: Iterable[str] = ()
    waiting: Mapping[str, int] = {}
    slow_ms: int = 5_000
    # Intervals after which a silent node is gone.
    missed_heartbeats: int = 3
    # Redis is back, and other instances may not have written their nodes and heartbeats again yet.
    is_settling: bool = False
    # Instances that let every caller in, and can be reached from other computers.
    unprotected: Sequence[str] = ()
    # Keys in use that end soon, and when (ms).
    expiring: Mapping[str, int] = {}
    # Pools that members of live rooms need to be understood by the others, and how many members do.
    needed_in_rooms: Mapping[str, int] = {}
    # Tenants in which room codes are being guessed, and how many wrong ones were named in a minute.
    guessing: Mapping[str, int] = {}
    # Instances whose TLS certificate expires soon, and when (ms); and those that cannot use their newer files.
    certificates: Mapping[str, int] = {}
    refused_certificates: Sequence[str] = ()
    # When nodes or a wanted pair were last missing.
    missed_at_ms: int = 0

    def is_expected(self, pair: str) -> bool:
        """Every client may ask for anything: only the loss of what was served or is listed is an outage."""
        return pair in self.expected or pair in self.served_by


def alarms(sight: Sight, before: Sequence[Alarm]) -> list[Alarm]:
    """What hurts people most first. One that was there before keeps the time it was raised."""
    if sight.is_redis_away:
        # Nothing else is known any more; what was known stays as it was.
        found = [*_redis(sight), *(alarm for alarm in before if alarm.code != "redis.away")]
    else:
        found = [alarm for look in _LOOKS for alarm in _bounded(list(look(sight)))]
    known = {(alarm.code, alarm.subject): alarm for alarm in before}
    if sight.is_settling:
        found = [alarm for alarm in found if alarm.code not in UNSETTLED or (alarm.code, alarm.subject) in known]
    kept = [_following(alarm, known.get((alarm.code, alarm.subject)), sight.at_ms) for alarm in found]
    return in_order(kept)


def last_to_serve(before: Mapping[str, str], pairs: Iterable[PairLook], wanted: Container[str]) -> dict[str, str]:
    """Who was alone with each pair when it was last served; of pairs that are neither wanted nor served the latest."""
    now = {
        name_of(pair): pair.hangs_on if pair.nodes else before.get(name_of(pair), "")
        for pair in pairs
        if pair.nodes or pair.text_nodes
    }
    past = {pair: node_id for pair, node_id in before.items() if pair not in now}
    others = [pair for pair in past if pair not in wanted]
    for pair in others[: max(0, len(others) - SERVED_MAX)]:
        del past[pair]
    return past | now


def lost_lately(
    before: Mapping[str, LostNode],
    gone: Iterable[NodeLook],
    here: Container[str],
    at_ms: int,
    goodbyes: Container[str] = (),
) -> dict[str, LostNode]:
    """Nodes that disconnected without draining, until they reconnect or `LOST_MS` has passed."""
    kept = {name: lost for name, lost in before.items() if name not in here and at_ms - lost.at_ms < LOST_MS}
    for node in gone:
        if node.state != NodeState.DRAINING and node.node_id not in goodbyes:
            kept.pop(node.node_id, None)
            kept[node.node_id] = LostNode(node, at_ms)
    return dict(list(kept.items())[-LOST_MAX:])


def _redis(sight: Sight) -> Iterator[Alarm]:
    if sight.is_redis_away:
        text = "Redis does not answer or takes no writes: no job can be placed. Check the server and the network to it."
        yield _alarm(sight, "redis.away", Level.CRITICAL, "", text, {})


def _redis_full(sight: Sight) -> Iterator[Alarm]:
    share = sight.memory_used or 0.0
    if share >= FILLING_SHARE:
        level = Level.CRITICAL if share >= FULL_SHARE else Level.WARNING
        percent = int(100 * share)
        text = f"Redis uses {percent} % of its memory; when full, it takes no writes. Raise the limit or free memory."
        yield _alarm(sight, "redis.full", level, "", text, {"percent": percent})


def _nodes_none(sight: Sight) -> Iterator[Alarm]:
    if not any(map(takes_work, sight.nodes)):
        known = len(sight.nodes)
        text = "No node is connected. Start one with lingua node."
        if known:
            none = f"None of the {known} connected nodes accepts" if known > 1 else "The only connected node accepts no"
            text = f"{none} jobs. Run lingua nodes to see why, or start more nodes."
        yield _alarm(sight, "nodes.none", Level.CRITICAL, "", text, {"nodes": known})


def _pairs_lost(sight: Sight) -> Iterator[Alarm]:
    if not any(map(takes_work, sight.nodes)):
        return  # one alarm says it all
    for pool in lost_pools(sight.wanted, sight.pairs, sight.wide):
        if last_resorts(pool, sight.nodes, sight.wide):
            continue
        src, tgt, facet = Pool.parse(pool)
        name = f"{src}:{tgt}"
        lack = lack_of(src, tgt, facet, sight.pairs, sight.wide)
        languages = ",".join(dict.fromkeys((src, tgt)))
        values: Values = {"src": src, "tgt": tgt, "lack": lack.value, "languages": languages}
        start = f"Start one with: lingua node --languages {languages}"
        if not sight.is_expected(name):
            missing = _lower(lack.in_words(src, tgt))
            said = f"{src} → {tgt} is asked for, but no node has ever served it: {missing}. {start}"
            yield _alarm(sight, "pair.unserved", Level.WARNING, name, said, values)
            continue
        if drained := drained_nodes(pool, sight.nodes, sight.wide):
            yield _pair_drained(sight, src, tgt, drained, values)
            continue
        last = sight.served_by.get(name, "")
        said = (
            f"{lack.in_words(src, tgt)}, so {src} → {tgt} is not served although it is wanted"
            f"{f' (the last node was {last})' if last else ''}. {start}"
        )
        if last:
            values["node_id"] = last
        yield _alarm(sight, "pair.lost", Level.CRITICAL, name, said, values)


def _pair_drained(sight: Sight, src: str, tgt: str, nodes: Sequence[str], values: Values) -> Alarm:
    said = (
        f"{src} → {tgt} is not served although it is wanted: {_its_nodes(nodes)} drained. Run: lingua resume"
        f" {nodes[0]}, or start another one with: lingua node --languages {values['languages']}"
    )
    about: Values = {"lack": DRAINED, "node_id": nodes[0], "names": listed(nodes, 0, MOST_PAIRS), "nodes": len(nodes)}
    return _alarm(sight, PAIR_LOST, Level.CRITICAL, f"{src}:{tgt}", said, values | about)


def _its_nodes(nodes: Sequence[str]) -> str:
    names = listed(nodes, 0, MOST_PAIRS)
    return f"its only node, {names}, is" if len(nodes) == 1 else f"all its nodes ({names}) are"


def _on_last_resorts(sight: Sight) -> Iterator[tuple[str, list[str]]]:
    """Pools whose only nodes are quarantined, and these nodes."""
    if any(map(takes_work, sight.nodes)):
        for pool in lost_pools(sight.wanted, sight.pairs, sight.wide):
            if nodes := last_resorts(pool, sight.nodes, sight.wide):
                yield pool, nodes


def _pairs_quarantined(sight: Sight) -> Iterator[Alarm]:
    for pool, nodes in _on_last_resorts(sight):
        src, tgt, _ = Pool.parse(pool)
        node, names = nodes[0], listed(nodes, 0, MOST_PAIRS)
        failure = sight.failed_with.get(node, "")
        said = (
            f"{src} → {tgt}: {_its_nodes(nodes)}"
            f" quarantined{f' (last failure: {failure})' if failure else ''} and used only as a last resort. Run"
            f" lingua node-info {node} and check its log; once it is repaired, run: lingua release {node}"
        )
        values: Values = {"src": src, "tgt": tgt, "node_id": node, "names": names, "nodes": len(nodes)}
        values["failure"] = failure or "–"
        yield _alarm(sight, "pair.quarantined", Level.CRITICAL, f"{src}:{tgt}", said, values)


def _rooms_unserved(sight: Sight) -> Iterator[Alarm]:
    """By the language that is not served: whatever its listeners lack, they are in the room and wait."""
    if not any(map(takes_work, sight.nodes)):
        return
    lost: dict[str, list[Pool]] = {}
    for name in lost_pools(sight.needed_in_rooms, sight.pairs, sight.wide):
        if not last_resorts(name, sight.nodes, sight.wide):
            pool = Pool.parse(name)
            lost.setdefault(pool.tgt, []).append(pool)
    for tgt, pools in sorted(lost.items()):
        sources = [pool.src for pool in pools]
        speakers = sum(sight.needed_in_rooms[str(pool)] for pool in pools)
        named = listed(sources, 0, MOST_PAIRS)
        people = "1 member speaks" if speakers == 1 else f"{speakers} members speak"
        text = (
            f"In rooms {people} {named}, and others there want {language_name(tgt)}: no node translates into it. "
            f"Start one with: lingua node --languages {','.join([*sources[:MOST_PAIRS], tgt])}"
        )
        is_lost = any(sight.is_expected(str(pool.pair)) for pool in pools)
        values: Values = {"language": tgt, "sources": named, "members": speakers}
        values["languages"] = ",".join([*sources[:MOST_PAIRS], tgt])
        level = Level.CRITICAL if is_lost else Level.WARNING
        yield _alarm(sight, "room.language_unserved", level, tgt, text, values)


def _pairs_full(sight: Sight) -> Iterator[Alarm]:
    waiting: Counter[str] = Counter()
    for pool, jobs in sight.waiting.items():
        waiting[str(Pool.parse(pool).pair)] += jobs
    for pair in sight.pairs:
        jobs = waiting[name_of(pair)]
        if jobs and pair.nodes and not pair.free:
            wait = "1 job waits" if jobs == 1 else f"{jobs} jobs wait"
            taken = "its one slot is taken" if pair.slots == 1 else f"all {pair.slots} slots are taken"
            text = f"{wait} for {pair.src} → {pair.tgt}: {taken}. Add nodes for it."
            values: Values = {"src": pair.src, "tgt": pair.tgt, "jobs": jobs, "slots": pair.slots}
            yield _alarm(sight, "pair.full", Level.WARNING, name_of(pair), text, values)


def _pairs_thin(sight: Sight) -> Iterator[Alarm]:
    # Pairs are of public nodes.
    if sum(not node.is_private for node in sight.nodes) < 2:
        return
    for pair in sight.pairs:
        if pair.hangs_on and not is_echo(name_of(pair)):
            text = f"{pair.src} → {pair.tgt} depends on {pair.hangs_on} alone. Add a second node for it."
            values: Values = {"src": pair.src, "tgt": pair.tgt, "node_id": pair.hangs_on}
            yield _alarm(sight, "pair.thin", Level.NOTICE, name_of(pair), text, values)


def _nodes_sick(sight: Sight) -> Iterator[Alarm]:
    # One cause, one alarm.
    told = {node_id for _, nodes in _on_last_resorts(sight) for node_id in nodes}
    for node in sight.nodes:
        if node.state == QUARANTINED and node.node_id not in told:
            text = (
                f"{node.node_id} failed too often and is quarantined: it gets no jobs for now. Run"
                f" lingua node-info {node.node_id} for its last errors, and check its log."
            )
            values: Values = {"node_id": node.node_id, "until_ms": node.quarantined_until_ms}
            yield _alarm(sight, "node.quarantined", Level.WARNING, node.node_id, text, values, node.tenant)


def _nodes_silent(sight: Sight) -> Iterator[Alarm]:
    for node in sight.nodes:
        interval_ms = (node.alive_until_ms - node.seen_at_ms) / sight.missed_heartbeats
        if interval_ms > 0 and sight.at_ms - node.seen_at_ms > SILENT_INTERVALS * interval_ms:
            text = f"{node.node_id} sends no heartbeats. Check whether it runs and can be reached."
            values: Values = {"node_id": node.node_id, "seen_at_ms": node.seen_at_ms}
            yield _alarm(sight, "node.silent", Level.WARNING, node.node_id, text, values, node.tenant)


def _nodes_lost(sight: Sight) -> Iterator[Alarm]:
    for name, (node, at_ms) in sight.lost.items():
        pairs = [pair for pair in node.speech or node.text if not is_echo(pair)]
        served = listed(pairs, 0, MOST_PAIRS) or "nothing"
        if node.wide:
            served = f"{node.wide_pairs} pairs"
        text = f"{name} disconnected without draining; it served {served}. Check its machine, or start another node."
        values: Values = {"node_id": name, "pairs": served}
        yield _since(_alarm(sight, "node.lost", Level.WARNING, name, text, values, node.tenant), at_ms)


def _instances_dead(sight: Sight) -> Iterator[Alarm]:
    for instance in missed(sight.instances, sight.at_ms):
        name, address = instance.instance_id, instance.address
        text = f"Instance {name} ({address}) is dead; others took over. Restart it; if removed, this clears by itself."
        values: Values = {"instance_id": name, "address": address}
        yield _alarm(sight, "instance.dead", Level.WARNING, name, text, values)


def _letters(sight: Sight) -> Iterator[Alarm]:
    if sight.dead_letters:
        letters = "1 letter" if sight.dead_letters == 1 else f"{sight.dead_letters} letters"
        text = f"{letters} could not be processed. Run lingua dead-letters for the reasons; replay or purge them."
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
            f"Messages between instances are not encrypted, or are lost: {names} cannot decrypt those of the others. "
            "Give every instance the same privacy.cluster_key_file."
        )
        yield _alarm(sight, "keys.differ", level, "", text, {"instances": names, "key": key})


def _auth_off(sight: Sight) -> Iterator[Alarm]:
    if sight.unprotected:
        names = listed(sight.unprotected, 0, MOST_PAIRS)
        text = (
            f"Authentication is off: every program that reaches {names} can use it. Run lingua keys create, then "
            "remove auth.mode=off."
        )
        yield _alarm(sight, "auth.off", Level.CRITICAL, "", text, {"instances": names})


def _keys_expiring(sight: Sight) -> Iterator[Alarm]:
    for key, ends_ms in sight.expiring.items():
        minutes = max(0, ends_ms - sight.at_ms) // 60_000
        text = f"The key {key} is in use and ends in {minutes} min. Give its users a newer one."
        yield _alarm(sight, "key.expiring", Level.WARNING, key, text, {"key": key, "ends_ms": ends_ms})


def _rooms_guessing(sight: Sight) -> Iterator[Alarm]:
    for tenant, wrong in sight.guessing.items():
        text = (
            f"Room codes of tenant {tenant} are being guessed: {wrong} wrong ones in a minute. Each address has one "
            "try a minute for now; rooms.guessing in the log names those that were refused."
        )
        yield _alarm(sight, "rooms.guessing", Level.WARNING, tenant, text, {"tenant": tenant, "wrong": wrong}, tenant)


def _certificates(sight: Sight) -> Iterator[Alarm]:
    for instance, ends_ms in sight.certificates.items():
        hours = (ends_ms - sight.at_ms) // 3_600_000
        text = f"The TLS certificate of {instance} expires in {hours} h. Renew it; it is loaded without a restart."
        if ends_ms <= sight.at_ms:
            text = f"The TLS certificate of {instance} has expired: clients and nodes do not connect. Renew it."
        level = Level.CRITICAL if ends_ms <= sight.at_ms else Level.WARNING
        values: Values = {"instance": instance, "ends_ms": ends_ms}
        yield _alarm(sight, "certificate.expiring", level, instance, text, values)
    if sight.refused_certificates:
        names = listed(sight.refused_certificates, 0, MOST_PAIRS)
        text = f"The TLS files of {names} have changed and cannot be used. See tls.unusable in the log."
        yield _alarm(sight, "certificate.refused", Level.WARNING, "", text, {"instances": names})


def _unreadable(sight: Sight) -> Iterator[Alarm]:
    if sight.unreadable:
        families = ", ".join(sight.unreadable)
        text = f"Redis contains malformed data ({families}). Run lingua redis check; with --repair it removes the data."
        yield _alarm(sight, "data.unreadable", Level.WARNING, "", text, {"families": families})


def _leader(sight: Sight) -> Iterator[Alarm]:
    if sight.leader is None:
        text = "There is no leader, so each instance builds its own pool map. One should be elected within seconds."
        yield _alarm(sight, "leader.none", Level.WARNING, "", text, {})


def _jobs_failing(sight: Sight) -> Iterator[Alarm]:
    """One cause, one alarm: failures that another alarm explains, or explained in that minute, are not counted."""
    told = sight.failed_without_redis
    is_missed = any(True for look in (_nodes_none, _pairs_lost) for _ in look(sight))
    if is_missed or sight.at_ms - sight.missed_at_ms < MINUTE_MS:
        told += sight.failed_unserved
    ended, failed = sight.jobs_ended - told, sight.jobs_failed - told
    level = failing_level(ended, failed)
    if level is not None:
        text = f"{failed} of {ended} jobs failed in the last minute. Run lingua jobs --failed for the causes."
        if ended == 1:
            text = "The only job of the last minute failed. Run lingua jobs --failed for the cause."
        values: Values = {"failed": failed, "ended": ended, "percent": round(100 * failed / ended, 1)}
        yield _alarm(sight, "jobs.failing", level, "", text, values)


def failing_level(ended: int, failed: int) -> Level | None:
    """A few failures are no outage, and most jobs failing is one however few they are."""
    if failed <= 0:
        return None
    percent = 100 * failed / ended
    is_most = 2 * failed >= ended
    if (is_most and failed >= FEWEST_OF_MOST) or (percent > FAILING_PERCENT and failed >= FEWEST_FAILED):
        return Level.CRITICAL
    return Level.WARNING if is_most or (percent > FAILING_SOME_PERCENT and ended >= FEWEST_JOBS) else None


def _latency(sight: Sight) -> Iterator[Alarm]:
    if sight.p95_ms is not None and sight.jobs_ended >= FEWEST_JOBS and sight.p95_ms > sight.slow_ms:
        text = f"One in twenty outcomes takes longer than {sight.p95_ms / 1000:.1f} s. Check slow jobs and full pairs."
        values: Values = {"p95_ms": round(sight.p95_ms), "slow_ms": sight.slow_ms}
        yield _alarm(sight, "latency.high", Level.WARNING, "", text, values)


_LOOKS = (
    _redis,
    _redis_full,
    _nodes_none,
    _pairs_lost,
    _pairs_quarantined,
    _rooms_unserved,
    _pairs_full,
    _pairs_thin,
    _nodes_sick,
    _nodes_silent,
    _nodes_lost,
    _instances_dead,
    _letters,
    _keys_differ,
    _auth_off,
    _keys_expiring,
    _rooms_guessing,
    _certificates,
    _unreadable,
    _leader,
    _jobs_failing,
    _latency,
)


def _bounded(found: list[Alarm]) -> list[Alarm]:
    if len(found) <= EACH_MAX:
        return found
    last, rest = found[EACH_MAX - 1], len(found) - EACH_MAX + 1
    told = f"The same applies to {rest} more."
    summary = Alarm(
        code=last.code, level=last.level, subject="", since_ms=last.since_ms, text=told, values={"more": rest}
    )
    return [*found[: EACH_MAX - 1], summary]


def _alarm(sight: Sight, code: str, level: Level, subject: str, text: str, values: Values, tenant: str = "") -> Alarm:
    return Alarm(code=code, level=level, subject=subject, since_ms=sight.at_ms, text=text, values=values, tenant=tenant)


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _following(alarm: Alarm, before: Alarm | None, at_ms: int) -> Alarm:
    if before is None:
        return alarm
    is_worse = alarm.level == Level.CRITICAL != before.level and not before.worse_since_ms
    worse_ms = at_ms if is_worse else before.worse_since_ms
    kept = _since(alarm, before.since_ms)
    return kept if kept.worse_since_ms == worse_ms else msgspec.structs.replace(kept, worse_since_ms=worse_ms)


def _since(alarm: Alarm, since_ms: int) -> Alarm:
    if alarm.since_ms == since_ms:
        return alarm
    return msgspec.structs.replace(alarm, since_ms=since_ms)
