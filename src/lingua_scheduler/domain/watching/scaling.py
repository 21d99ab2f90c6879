"""How many slots are wanted: square-root staffing of the load, and what exists, each slot counted once."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.nodes.nodes import NodeState
from lingua_scheduler.domain.watching.pair_work import PairDemand
from lingua_scheduler.domain.watching.pairs import can_write, reaches
from lingua_scheduler.domain.watching.picture import NodeLook, Picture

# No answer is larger, whatever was measured.
MAX_SLOTS = 100_000
# Rounding of floating point must not cost a slot.
_EPSILON = 1e-9


def slots_for(load: float, headroom: float) -> int:
    """Square-root staffing: the slots that are busy on average, and `headroom` standard deviations of that number."""
    if load <= 0:
        return 0
    return min(MAX_SLOTS, math.ceil(load + headroom * math.sqrt(load) - _EPSILON))


class Capacity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Public nodes and their slots, each counted once."""

    # Those that take work now, with their slots.
    nodes: int = 0
    slots: int = 0
    free: int = 0
    # Slots with a job, also at nodes that take no more work.
    busy: int = 0
    # Slots of nodes that are being drained.
    draining: int = 0

    def plus(self, other: "Capacity") -> "Capacity":
        return Capacity(
            nodes=self.nodes + other.nodes,
            slots=self.slots + other.slots,
            free=self.free + other.free,
            busy=self.busy + other.busy,
            draining=self.draining + other.draining,
        )


class PairScaling(PairDemand, frozen=True, kw_only=True, gc=False):
    """One pair. A node counts in each pair that it can at least write, so pairs do not add up to the sums."""

    wanted_slots: int
    capacity: Capacity


class Scaling(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Of the pairs in question together."""

    at_ms: int
    # Redis is unavailable: this is what was known last.
    is_stale: bool
    # False: measuring began less than a window ago, and no fewer slots are wanted than there are.
    is_settled: bool
    wanted_slots: int
    # Slots that are busy all the time with the arrivals and the queue; the highest of the last scaling.hold_ms.
    load: float
    arrivals_per_s: float
    waiting: int
    capacity: Capacity
    # The busiest first.
    pairs: list[PairScaling]


class _Kind(NamedTuple):
    """Nodes that serve the same of the pairs in question."""

    pairs: frozenset[str]
    capacity: Capacity


def scaling_of(picture: Picture, asked: Collection[str] | None, only_served: bool = False) -> Scaling:
    """Of these pairs, src:tgt; None: of the whole fleet. `only_served`: without pairs that no node serves."""
    look = picture.scaling
    demand = {f"{row.src}:{row.tgt}": row for row in look.pairs}
    names = list(demand) if asked is None else list(dict.fromkeys(asked))
    kinds = _kinds(picture, names)
    served = {name for kind in kinds if kind.capacity.nodes for name in kind.pairs}
    if only_served:
        names = [name for name in names if name in served]
    loads = {name: demand[name].load if name in demand else 0.0 for name in names}
    counted = loads
    if asked is None and any(kind.capacity.nodes or kind.capacity.draining for kind in kinds):
        # More of the same nodes are no help to a pair that no node has ever served.
        counted = {name: load for name, load in loads.items() if name in served or _was_served(demand[name])}
    capacity = _summed(kind for kind in kinds if asked is None or kind.pairs)
    wanted = _wanted(counted, kinds, look.headroom, is_one_pool=asked is not None)
    if not look.is_settled:
        # Until a window is measured nothing shrinks.
        wanted = max(wanted, capacity.slots)
    rows = [demand.get(name) or _nothing(name) for name in names]
    return Scaling(
        at_ms=picture.at_ms,
        is_stale=picture.is_stale,
        is_settled=look.is_settled,
        wanted_slots=wanted,
        load=round(sum(counted.values()), 3),
        waiting=sum(row.waiting for row in rows),
        arrivals_per_s=round(sum(row.arrivals_per_s for row in rows), 2),
        capacity=capacity,
        pairs=[_pair(row, kinds, look.headroom, look.is_settled) for row in rows],
    )


def _was_served(row: PairDemand) -> bool:
    return row.node_s_per_job is not None


def _pair(row: PairDemand, kinds: Sequence[_Kind], headroom: float, is_settled: bool) -> PairScaling:
    capacity = _summed(kind for kind in kinds if f"{row.src}:{row.tgt}" in kind.pairs)
    wanted = slots_for(row.load, headroom)
    return PairScaling(
        **msgspec.structs.asdict(row),
        wanted_slots=wanted if is_settled else max(wanted, capacity.slots),
        capacity=capacity,
    )


def _wanted(loads: Mapping[str, float], kinds: Iterable[_Kind], headroom: float, is_one_pool: bool) -> int:
    """Pairs that share nodes share their headroom: their loads are added before slots are counted."""
    if is_one_pool:
        return slots_for(sum(loads.values()), headroom)
    groups: list[set[str]] = [{name} for name in loads]
    for kind in kinds:
        mine = [group for group in groups if kind.capacity.nodes and group & kind.pairs]
        if len(mine) > 1:
            groups = [group for group in groups if group not in mine] + [set().union(*mine)]
    wanted = (slots_for(math.fsum(sorted(loads[name] for name in group)), headroom) for group in groups)
    return min(MAX_SLOTS, sum(wanted))


def _kinds(picture: Picture, names: Collection[str]) -> list[_Kind]:
    """Nodes that say the same are looked at once: most share the lists of their pairs."""
    wide = {one.name: one for one in picture.wide}
    found: dict[tuple[int, int, str], tuple[frozenset[str], list[NodeLook]]] = {}
    for node in picture.nodes:
        if node.is_private:
            continue
        key = (id(node.text), id(node.speech), node.wide)
        if key not in found:
            reach = wide.get(node.wide)
            if reach is not None:
                served = frozenset(name for name in names if reaches(reach, name, reach.text))
            else:
                served = frozenset(names) & {*node.text, *node.speech}
            found[key] = (served, [])
        found[key][1].append(node)
    return [_Kind(served, _capacity(nodes)) for served, nodes in found.values()]


def _capacity(nodes: Iterable[NodeLook]) -> Capacity:
    count = slots = free = busy = draining = 0
    for node in nodes:
        busy += node.held
        if can_write(node):
            count += 1
            slots += node.max_jobs
            free += node.free or 0
        elif node.state == NodeState.DRAINING:
            draining += node.max_jobs
    return Capacity(nodes=count, slots=slots, free=free, busy=busy, draining=draining)


def _summed(kinds: Iterable[_Kind]) -> Capacity:
    total = Capacity()
    for kind in kinds:
        total = total.plus(kind.capacity)
    return total


def _nothing(name: str) -> PairDemand:
    src, _, tgt = name.partition(":")
    return PairDemand(
        src=src, tgt=tgt, arrivals_per_s=0.0, node_s_per_job=None, real_time_factor=None, waiting=0, load=0.0
    )
