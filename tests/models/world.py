"""The ledger as a few lines of Python: what Redis must agree with, in state and in replies."""

from dataclasses import dataclass, field

from lingua_scheduler.domain.attempts import Attempt

ACK_MS = 5_000
LIVE = {"DISPATCHED", "ACCEPTED", "RUNNING"}


@dataclass
class ModelNode:
    epoch: str
    boot_id: str
    link: str
    limit: int
    pools: frozenset[str]
    acknowledges: bool
    takes: bool
    alive_until: int
    is_drained: bool = False

    @property
    def in_pools(self) -> frozenset[str]:
        return frozenset() if self.is_drained else self.pools


@dataclass
class ModelJob:
    state: str
    attempt: Attempt
    epoch: str
    run_ms: int


@dataclass
class World:
    nodes: dict[str, ModelNode] = field(default_factory=dict)
    jobs: dict[str, ModelJob] = field(default_factory=dict)
    leases: dict[Attempt, int] = field(default_factory=dict)

    def held(self, node_id: str) -> int:
        return sum(attempt.node_id == node_id for attempt in self.leases)

    def free(self, node_id: str) -> int | None:
        node = self.nodes[node_id]
        return max(0, node.limit - self.held(node_id)) if node.takes and not node.is_drained else None

    def members(self, pool: str) -> set[str]:
        return {node_id for node_id, node in self.nodes.items() if pool in node.in_pools}

    def candidates(self, pool: str, excluded: tuple[str, ...], now: int) -> set[str]:
        return {
            node_id
            for node_id in self.members(pool)
            if node_id not in excluded and (self.free(node_id) or 0) > 0 and self.nodes[node_id].alive_until > now
        }

    def load(self, node_id: str) -> float:
        return 1 - (self.free(node_id) or 0) / self.nodes[node_id].limit

    def hand_back(self, node_id: str) -> set[Attempt]:
        """Make every lease of a node overdue."""
        mine = {attempt for attempt in self.leases if attempt.node_id == node_id}
        for attempt in mine:
            self.leases[attempt] = 0
        return mine

    def end(self, attempt: Attempt, epoch: str, state: str, *, if_overdue: bool, linger_ms: int, now: int) -> str:
        """The reply of attempt_end."""
        job = self.jobs.get(attempt.job_id)
        if attempt not in self.leases:
            return "stale" if job else "gone"
        if if_overdue and self.leases[attempt] > now:
            return "alive"
        is_current = job is not None and job.attempt == attempt and job.state in LIVE
        if is_current and job is not None and epoch not in ("", job.epoch):
            return "stale"
        if is_current and linger_ms:
            self.leases[attempt] = now + linger_ms
        else:
            del self.leases[attempt]
        if not is_current or job is None:
            return "stale"
        job.state = state
        return "ended"

    def advance(self, attempt: Attempt, epoch: str, state: str, now: int) -> str:
        job = self.jobs.get(attempt.job_id)
        if job is None or job.attempt != attempt or job.epoch != epoch:
            return "stale"
        if self.leases.get(attempt, 0) <= now:
            return "stale"
        if job.state == state:
            return "advanced"
        if job.state not in {"ACCEPTED": {"DISPATCHED"}, "RUNNING": {"DISPATCHED", "ACCEPTED"}}[state]:
            return "stale"
        job.state = state
        self.leases[attempt] = now + job.run_ms
        return "advanced"
