"""Acknowledges, silences and forgets alarms, for all instances."""

from lingua_scheduler.domain.pools.names import Facet, Pool
from lingua_scheduler.domain.watching.alarms import ABOUT_WANTED, CODES
from lingua_scheduler.domain.watching.demand import Demand, wanted_pools
from lingua_scheduler.domain.watching.handling import AlarmAction, HandleOutcome, code_and_subject
from lingua_scheduler.services.watching.snapshot import Snapshots
from lingua_scheduler.setting_sections.pools import PoolsSettings
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.languages import Pair


class ListedPair(Exception):
    """The operator's own list says that this pair must be served."""


class AlarmDesk:
    def __init__(self, store: Store, snapshots: Snapshots, pools: PoolsSettings) -> None:
        self._store = store
        self._snapshots = snapshots
        self._listed = wanted_pools(Demand(), pools.wanted, 0)

    async def handle(self, name: str, action: AlarmAction, for_ms: int, by: str) -> HandleOutcome:
        """Raises RedisAway, and ListedPair."""
        code, subject = code_and_subject(name)
        if code not in CODES:
            return HandleOutcome.GONE
        is_known = code in ABOUT_WANTED and action is AlarmAction.FORGET and await self._forget_demand(subject)
        outcome = await self._store.alarms.handle(name, action, for_ms, by)
        # Who did it wants to see it done.
        self._snapshots.build_soon()
        return HandleOutcome.HANDLED if is_known else outcome

    async def _forget_demand(self, pair: str) -> bool:
        """The pair does not count as wanted until it is asked for again."""
        src, tgt = Pair.parse(pair)
        pools = {str(Pool(src, tgt, facet)) for facet in Facet}
        if pools & self._listed:
            raise ListedPair
        return await self._store.demand.forget(pools) > 0
