"""Leader election: the leader builds the pool map for all. Any instance can take over; dispatch needs no leader."""

from lingua_scheduler.domain.cluster.leadership import LeaderClaimOutcome, Term
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.pools.pools import Pools
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()


class Leadership:
    """A lease that the leader renews. One that renews too late has lost it, and learns that when it publishes."""

    def __init__(self, instance: str, pools: Pools, lease_ms: int) -> None:
        self._instance = instance
        self._pools = pools
        self._lease_ms = lease_ms
        self.term: Term | None = None
        # Who leads as far as we know.
        self.leader = ""

    @property
    def is_leading(self) -> bool:
        return self.term is not None

    async def stand(self) -> None:
        outcome, term = await self._pools.claim(self._instance, self._lease_ms)
        is_leading = outcome is LeaderClaimOutcome.LEADING
        if is_leading and term != self.term:
            _log.info("leader.elected", instance=term.instance, epoch=term.epoch)
        if self.is_leading and not is_leading:
            self.lost()
        self.term = term if is_leading else None
        self.leader = term.instance
        metrics.LEADING.set(is_leading)

    def lost(self) -> None:
        """Another instance has become the leader."""
        if self.term is not None:
            _log.warning("leader.lost", instance=self._instance, epoch=self.term.epoch)
        self.term = None
        metrics.LEADING.set(0)

    async def resign(self) -> None:
        """Give up the lease immediately, so that the others need not wait for it to expire."""
        term, self.term = self.term, None
        if term is not None:
            try:
                await self._pools.resign(term)
            except RedisAway:
                _log.info("leader.left_without_word", epoch=term.epoch)
