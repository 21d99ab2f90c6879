"""Claims in Redis: which principal a node id belongs to, so that no other node key can register as it."""

from lingua_scheduler.domain.nodes.nodes import NodeClaimOutcome
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts

# A claim outlives the last connection by a day: it is renewed every hour while the node is connected.
KEEP_MS = 25 * 3_600_000


class NodeClaims:
    def __init__(self, keys: Keys, scripts: Scripts) -> None:
        self._keys = keys
        self._scripts = scripts

    async def claim(self, node_id: str, belongs_to: str, tenant: str, *, is_bound: bool) -> NodeClaimOutcome:
        """`belongs_to` is a digest of the principal; `is_bound`: its credential names this id and no other. It
        takes the id from other principals of its tenant."""
        reply = await self._scripts.run(
            "node_claim",
            claim=self._keys.node_claim(node_id),
            belongs_to=belongs_to,
            tenant=tenant,
            bound=int(is_bound),
            keep_ms=KEEP_MS,
        )
        return NodeClaimOutcome(reply[0])
