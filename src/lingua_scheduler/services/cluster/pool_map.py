"""This instance's copy of the pool map: built by the leader, read by the others, refreshed before reporting a miss."""

import asyncio
from collections.abc import Callable, Collection

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.cluster.leadership import PublishOutcome, Term
from lingua_scheduler.domain.pools.lanes import Lanes, Whose, lanes_of
from lingua_scheduler.domain.pools.selection import PoolMap
from lingua_scheduler.services.cluster.leadership import Leadership
from lingua_scheduler.store.pools.pools import Pools
from lingua_scheduler.telemetry import metrics
from lingua_scheduler.telemetry.tasks import SingleFlight

# Requests for a pair without nodes must not read every shard each time.
MISS_CACHE_S = 0.1

_BUILDS = metrics.by(metrics.MAP_BUILDS, "leader", "miss", "no_leader")


def _tell_nobody(*_: int) -> None:
    pass


class PoolMapCopy:
    """The copy of the pool map. Without a `leadership` it only reads.

    `on_changed` asks the leader to read the shards again; `on_published` tells the others of a new map.
    """

    def __init__(
        self,
        pools: Pools,
        leadership: Leadership | None = None,
        on_changed: Callable[[], None] = _tell_nobody,
        on_published: Callable[[int], None] = _tell_nobody,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._pools = pools
        self._leadership = leadership
        self._on_changed = on_changed
        self._on_published = on_published
        self.looking = SingleFlight[None]()
        self._looked_at = float("-inf")
        # How many changes there were; how many of them a look at the shards has seen, and how many were passed on.
        self._changes = 0
        self._changes_looked = 0
        self._changes_passed_on = 0
        self._must_tell = False
        # What the copy is a copy of; the digest is empty when it was built here.
        self._digest = ""
        self.version = 0
        self.map = PoolMap({})
        # Tenants whose jobs never go to public nodes.
        self.private_only: Collection[str] = ()

    @property
    def has_private(self) -> bool:
        """Whether any job looks elsewhere than among the public nodes."""
        return bool(self.map.private or self.private_only)

    def lanes(self, whose: Whose) -> Lanes:
        """Among which nodes a job looks for one, in this order."""
        return lanes_of(whose, self.map, self.private_only)

    async def refresh(self) -> None:
        """Bring the copy up to date: the leader builds and publishes, the others read."""
        changes = self._changes
        if self._term is not None:
            await self._lead()
        if self._term is None:  # perhaps only just lost: the new leader must learn what we did not publish
            if self._must_tell:
                self._on_changed()
            await self._follow()
        self._must_tell = False
        self._changes_passed_on = changes

    async def look_again(self) -> None:
        """Read the shards before reporting that a pair has no nodes, unless that was just done."""
        wanted = self._changes
        if self._changes_looked < wanted or self._clock() - self._looked_at > MISS_CACHE_S:
            await self._look("miss")
        if self._changes_looked < wanted:
            # That was a look others had begun before the change.
            await self._look("miss")

    async def look_anew(self) -> None:
        """As `look_again`, but what is reported is never older than the question: if the shards were read just before,
        it waits a moment and shares the next look. A node may have joined another instance in between."""
        asked_at = self._clock()
        await self.look_again()
        if self._looked_at < asked_at:
            await asyncio.sleep(MISS_CACHE_S - (asked_at - self._looked_at))
            if self._looked_at < asked_at:
                await self._look("miss")

    def changed(self) -> None:
        """A node joined or left here: the next miss reads the shards, and the leader soon builds a new map."""
        self._changes += 1
        self._must_tell = True

    def changed_elsewhere(self) -> None:
        """The same at another instance."""
        self._changes += 1

    def published_elsewhere(self, version: int) -> None:
        """The leader has published a new map; refresh the copy soon."""
        if version != self.version:
            self._changes += 1

    @property
    def _term(self) -> Term | None:
        return None if self._leadership is None else self._leadership.term

    async def refresh_if_outdated(self) -> None:
        if self._changes_passed_on < self._changes:
            await self.refresh()

    async def _lead(self) -> None:
        await self._look("leader")
        term = self._term
        if term is None or self._leadership is None:
            return
        outcome, version = await self._pools.publish(term, self.map)
        match outcome:
            case PublishOutcome.PUBLISHED:
                self.version = version
                self._on_published(version)
            case PublishOutcome.CONFIRMED:
                self.version = version
            case _:
                self._leadership.lost()

    async def _follow(self) -> None:
        about = await self._pools.published()
        if about.version and about.digest == self._digest:
            self.version = about.version
            return
        has_leader = self._leadership is None or self._leadership.leader
        read = await self._pools.read_published() if about.version and has_leader else None
        if read is None:
            # There is no leader or no published map yet: build it from the shards.
            await self._look("no_leader")
            self.version = 0
        else:
            about, self.map = read
            self.version, self._digest = about.version, about.digest

    async def _look(self, why: str) -> None:
        """Build the map from the shards. Concurrent callers are coalesced into one read."""
        await self.looking.join(lambda: self._build(why))

    async def _build(self, why: str) -> None:
        _BUILDS[why].inc()
        began_at, changes = self._clock(), self._changes
        self.map, self._digest = await self._pools.build_map(), ""
        self._looked_at, self._changes_looked = began_at, changes
