"""STAND-IN, to be deleted when the picture sets these gauges: pairs from the copy of the pool map."""

from time import monotonic

from lingua_scheduler.services.poolmap import PoolMapCopy
from lingua_scheduler.telemetry import metrics

STANDIN_S = 0.5


class PairGaugesStandIn:
    def __init__(self, pool_map: PoolMapCopy) -> None:
        self._pool_map = pool_map
        self._seen: set[tuple[str, str]] = set()
        self._shown_at = monotonic()
        metrics.SNAPSHOT_AGE.set_function(lambda: monotonic() - self._shown_at)

    async def show(self) -> None:
        nodes = {}
        for pool, shards in self._pool_map.map.nodes.items():
            src, tgt, facet = pool.split(":")
            if facet == "speech":
                nodes[src, tgt] = sum(shards.values())
        self._seen |= nodes.keys()
        for pair in self._seen:
            for gauge in (metrics.PAIR_NODES, metrics.PAIR_SLOTS, metrics.PAIR_FREE_SLOTS):
                gauge.labels(*pair).set(nodes.get(pair, 0))
        self._shown_at = monotonic()
