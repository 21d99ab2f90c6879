"""The fleet for monitoring: nodes and pairs read from the columns of the shards, with a verdict on each."""

import asyncio
from collections.abc import Collection, Mapping
from typing import NamedTuple

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.domain.nodes.nodes import Machine, NodeState
from lingua_scheduler.domain.pools.lookup import ServedTags, ordered
from lingua_scheduler.domain.pools.names import Facet, Pool
from lingua_scheduler.domain.pools.reach import SPEECH
from lingua_scheduler.domain.watching.pairs import Pairs
from lingua_scheduler.domain.watching.picture import NodeLook, PairLook, WideLook
from lingua_scheduler.domain.watching.verdict import PROBATION, QUARANTINED, node_level
from lingua_scheduler.store.nodes.fleet_columns import Row, Said
from lingua_scheduler.store.store import Store

# Nodes that are looked at before others get a turn.
SLICE = 200
# Quarantined nodes whose last error is read for a picture.
SICK_MAX = 50
_UNHEARD = Said("", "", [], [], Machine(), [], [])


class Member(NamedTuple):
    """A node: as it is written, and as it is shown."""

    row: Row
    said: Said
    look: NodeLook

    @property
    def is_pooled(self) -> bool:
        """A draining node is in no pool."""
        return self.row.state != NodeState.DRAINING

    @property
    def pairs(self) -> list[str]:
        """The pairs it has a pool for each: none for a wide node, which has too many to name."""
        return sorted({*self.said.text, *self.said.speech}) if self.is_pooled else []

    @property
    def wide_pairs(self) -> int:
        """How many pairs a wide node serves; 0 for all others."""
        return self.said.reach.count() if self.said.reach and self.is_pooled else 0

    def serves(self, src: str, tgt: str, facet: str) -> bool:
        if not self.is_pooled:
            return False
        if self.said.reach is not None:
            return self.said.reach.serves(src, tgt, facet)
        return f"{src}:{tgt}" in (self.said.speech if facet == SPEECH else self.said.text)

    @property
    def private_to(self) -> str:
        """The only tenant whose jobs it gets; empty if it gets those of all."""
        return self.said.tenant if self.said.is_private else ""

    def is_for(self, tenant: str | None) -> bool:
        """Whether jobs of the tenant may go there; None: of any."""
        return tenant is None or self.private_to in ("", tenant)

    def quarantined_for_ms(self, now_ms: int) -> int | None:
        """None: it is not quarantined. 0: its time is up, and the next job is its probe."""
        until_ms = self.row.quarantined_until_ms
        return max(0, until_ms - now_ms) if until_ms else None

    def unavailable_for_ms(self, now_ms: int) -> dict[str, int]:
        return {service: until - now_ms for service, until in self.row.unavailable if until > now_ms}


Members = Mapping[str, Member]


def served_pair(members: Members, src: str, tgt: str) -> tuple[str, str]:
    """The pair that a client gets who asks for this one, in the tags of the nodes; the same if none serves it."""

    def is_served(pair: tuple[str, str]) -> bool:
        return any(member.serves(*pair, Facet.TEXT) for member in members.values())

    if is_served((src, tgt)):
        return src, tgt
    # Nodes of the same kind share what they said.
    said = {id(member.said): member.said for member in members.values()}
    tags = ServedTags({tag for one in said.values() for tag in _tags_of(one)})
    return next(filter(is_served, ordered(tags.candidates(src), tags.candidates(tgt))), (src, tgt))


def _tags_of(said: Said) -> Collection[str]:
    if said.reach is not None:
        return said.reach.sources | said.reach.text
    return {tag for pair in (*said.text, *said.speech) for tag in pair.split(":")}


class Fleet(NamedTuple):
    members: Members
    nodes: list[NodeLook]
    pairs: list[PairLook]
    wide: list[WideLook]
    # Pools that are wanted, under the names that nodes use.
    wanted: Collection[str] = ()
    # Pools whose loss is an outage, under those names too.
    expected: Collection[str] = ()


async def read_members(store: Store, now_ms: int, known: Members) -> dict[str, Member]:
    """Seven commands for each hundred nodes. Nodes that look as they did are the ones that are `known`, literally:
    a comparison of two pictures finds it quickly."""
    rows: list[Row] = []
    async for some in store.looks.rows():
        rows += some
    said = await store.looks.said(rows)
    members: dict[str, Member] = {}
    for place, row in enumerate(rows):
        members[row.node_id] = _member(row, said.get(row.digest, _UNHEARD), now_ms, known.get(row.node_id))
        if place % SLICE == SLICE - 1:
            await asyncio.sleep(0)
    return members


async def last_errors(store: Store, members: Members, now_ms: int) -> dict[str, str]:
    """Quarantined node → the reason of its last failed attempt, of the first few."""
    sick = [member for member in members.values() if member.look.state == QUARANTINED][:SICK_MAX]
    tallies = await asyncio.gather(*(store.tallies.read(one.row.shard, one.row.node_id, now_ms) for one in sick))
    return {one.row.node_id: tally.errors[0].reason for one, tally in zip(sick, tallies, strict=True) if tally.errors}


async def read_member(store: Store, node_id: str) -> Member | None:
    """One node alone; None when there is no such node."""
    place = await store.placements.find(node_id)
    row = None if place is None else await store.looks.row(node_id, place.shard)
    if row is None:
        return None
    said = await store.looks.said([row])
    return _member(row, said.get(row.digest, _UNHEARD), int(wall_ms()), None)


async def fleet_of(
    members: Members,
    asked: Collection[str] = (),
    wanted: Collection[str] = (),
    expected: Collection[str] = (),
    private_to: str = "",
) -> Fleet:
    """With the pairs that these nodes serve, and those of the pools that sessions request and that are wanted.

    Private nodes serve no pair: most of those who look at the pairs cannot use them. With `private_to` the pairs are
    those of the private nodes of this tenant.
    """
    pairs = Pairs()
    for place, member in enumerate(members.values()):
        if member.private_to == private_to:
            pairs.add(member.look, member.said.reach)
        if place % SLICE == SLICE - 1:
            await asyncio.sleep(0)
    for place, _ in enumerate(pairs.settle()):
        if place % SLICE == SLICE - 1:
            await asyncio.sleep(0)
    # First all: what is mentioned counts as known.
    asked, wanted, expected = map(pairs.as_served, (asked, wanted, expected))
    for pool in asked:
        pairs.mention(str(Pool.parse(pool).pair))
    for pool in wanted:
        pairs.mention_unless_covered(str(Pool.parse(pool).pair))
    wide = []
    for look in pairs.wide_looks():
        wide.append(look)
        await asyncio.sleep(0)
    return Fleet(members, [member.look for member in members.values()], pairs.looks(), wide, wanted, expected)


class FreshFleet:
    """Reads the fleet directly, for callers that must see the latest writes; a picture may be seconds old.

    Calls are coalesced: all that wait while one reads share the next reading.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reading = asyncio.Lock()
        # Readings are numbered as they begin.
        self._begun = 0
        self._latest = (0, Fleet({}, [], [], []))

    async def read(self) -> Fleet:
        """Raises RedisAway."""
        asked_after = self._begun
        async with self._reading:
            number, fleet = self._latest
            if number <= asked_after:
                self._begun += 1
                number = self._begun
                members = await read_members(self._store, int(wall_ms()), fleet.members)
                fleet = await fleet_of(members)
                self._latest = (number, fleet)
            return fleet


def _member(row: Row, said: Said, now_ms: int, known: Member | None) -> Member:
    if known is not None and known.row == row and known.said is said and not _is_sick(row):
        return known
    node = _node(row, said, now_ms)
    return Member(row, said, known.look if known is not None and known.look == node else node)


def _is_sick(row: Row) -> bool:
    """Values that change as time passes, without a write to Redis."""
    return bool(row.quarantined_until_ms or row.unavailable)


def _node(row: Row, said: Said, now_ms: int) -> NodeLook:
    state = row.state
    if row.quarantined_until_ms:
        state = QUARANTINED if row.quarantined_until_ms > now_ms else PROBATION
    unavailable = sorted(service for service, until in row.unavailable if until > now_ms)
    return NodeLook(
        node_id=row.node_id,
        instance_id=row.owner.owner.instance,
        state=state,
        shard=row.shard,
        max_jobs=row.max_jobs,
        held=row.held,
        free=row.free,
        seen_at_ms=row.alive_until_ms - row.alive_ms,
        alive_until_ms=row.alive_until_ms,
        quarantined_until_ms=row.quarantined_until_ms,
        unavailable=unavailable,
        speech=said.speech,
        text=said.text,
        services=said.services,
        version=said.version,
        platform=said.platform,
        cpu=row.load.cpu,
        memory=row.load.memory,
        gpu=row.load.gpu,
        types=said.types,
        cores=said.machine.cores,
        memory_gb=said.machine.memory_gb,
        gpu_gb=said.machine.gpu_gb,
        wide=said.wide if said.reach else "",
        wide_pairs=said.reach.count(SPEECH) if said.reach else 0,
        level=node_level(state, unavailable),
        tenant=said.tenant,
        is_private=said.is_private,
    )
