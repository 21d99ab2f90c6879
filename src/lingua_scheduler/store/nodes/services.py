"""Services of nodes in Redis: which of them are out, for how long, and how often a node may say so."""

import hashlib

from lingua_scheduler.domain.nodes.complaints import Complaint, ComplaintRules, SuspendOutcome
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts


class Services:
    def __init__(self, keys: Keys, scripts: Scripts) -> None:
        self._keys = keys
        self._scripts = scripts

    async def suspend(
        self,
        shard: int,
        node_id: str,
        complaint: Complaint,
        services: tuple[str, ...],
        suspend_ms: int,
        rules: ComplaintRules,
    ) -> SuspendOutcome:
        """No jobs that need one of these kinds of service go to the node for a while."""
        keys = self._keys.shard(shard)
        reply = await self._scripts.run(
            "service_suspend",
            keys,
            complaints=keys.complaints(node_id),
            node=node_id,
            # Only to be known again: what a node calls a service may be anything.
            complaint=hashlib.sha256(" ".join(complaint).encode("utf-8", "replace")).hexdigest()[:16],
            services=" ".join(services),
            suspend_ms=suspend_ms,
            debounce_ms=rules.debounce_ms,
            window_ms=rules.window_ms,
            most=rules.most,
        )
        return SuspendOutcome(reply[0])
