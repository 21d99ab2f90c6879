"""The ledger as a few lines of Python: what Redis must agree with, in state and in replies."""

from dataclasses import dataclass, field

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.quarantine import QuarantineRules
from lingua_scheduler.domain.pools.names import is_wide

ACK_MS = 5_000
# Small numbers, so that nodes come and go often.
QUARANTINE = QuarantineRules(failures=3, window=5, consecutive=2, first_ms=6_000, longest_ms=15_000)
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
    given_ms: int


@dataclass
class Trouble:
    outcomes: str = ""
    times: int = 0
    since: int = 0


@dataclass
class World:
    nodes: dict[str, ModelNode] = field(default_factory=dict)
    jobs: dict[str, ModelJob] = field(default_factory=dict)
    leases: dict[Attempt, int] = field(default_factory=dict)
    trouble: dict[str, Trouble] = field(default_factory=dict)
    # Node → quarantined until.
    sick: dict[str, int] = field(default_factory=dict)
    # Of nodes that left: their trouble, and until when they are quarantined.
    past: dict[str, tuple[Trouble | None, int | None]] = field(default_factory=dict)
    # Of nodes that left drained: which process it was.
    drained: dict[str, str] = field(default_factory=dict)

    def held(self, node_id: str) -> int:
        return sum(attempt.node_id == node_id for attempt in self.leases)

    def free(self, node_id: str) -> int | None:
        node = self.nodes[node_id]
        return max(0, node.limit - self.held(node_id)) if node.takes and not node.is_drained else None

    def members(self, pool: str) -> set[str]:
        return {node_id for node_id, node in self.nodes.items() if pool in node.in_pools}

    def serving(self, pool: str) -> set[str]:
        """Its own members, and wide nodes, which serve every pool of the model."""
        return self.members(pool) | {
            node_id for node_id in self.nodes if any(map(is_wide, self.nodes[node_id].in_pools))
        }

    def candidates(self, pool: str, excluded: tuple[str, ...], now: int) -> set[str]:
        return {
            node_id
            for node_id in self.serving(pool)
            if node_id not in excluded and (self.free(node_id) or 0) > 0 and self.nodes[node_id].alive_until > now
        }

    def load(self, node_id: str) -> float:
        return 1 - (self.free(node_id) or 0) / self.nodes[node_id].limit

    def choices(self, pools: tuple[str, ...], excluded: tuple[str, ...], now: int) -> set[str]:
        """Those a job may go to, whatever their load."""
        members = set.intersection(*map(self.serving, pools))
        fit = self.candidates(pools[0], excluded, now) & members
        quarantined = {node_id for node_id, until in self.sick.items() if until > now}
        well = {
            node_id
            for node_id in members - set(excluded) - quarantined
            if self.nodes[node_id].takes and self.nodes[node_id].alive_until > now
        }
        return fit - quarantined if well else fit

    def remove(self, node_id: str) -> None:
        gone = self.nodes.pop(node_id)
        self.drained[node_id] = gone.boot_id if gone.is_drained else ""
        self.past[node_id] = self.trouble.pop(node_id, None), self.sick.pop(node_id, None)

    def come_back(self, node_id: str) -> None:
        trouble, sick_until = self.past.pop(node_id, (None, None))
        if trouble is not None:
            self.trouble[node_id] = trouble
        if sick_until is not None:
            self.sick[node_id] = sick_until

    def judge(self, node_id: str, is_good: bool, given_ms: int, now: int) -> str:
        """The verdict of attempt_end."""
        if node_id not in self.trouble and (is_good or node_id not in self.nodes):
            return ""
        entry = self.trouble.setdefault(node_id, Trouble())
        entry.outcomes = (entry.outcomes + ("o" if is_good else "x"))[-QUARANTINE.window :]
        is_probe = node_id in self.sick and given_ms > entry.since
        if is_good:
            if is_probe or (node_id not in self.sick and "x" not in entry.outcomes):
                del self.trouble[node_id]
                return "recovered" if self.sick.pop(node_id, None) else ""
            return ""
        too_many = entry.outcomes.count("x") >= QUARANTINE.failures
        in_a_row = entry.outcomes.endswith("x" * QUARANTINE.consecutive)
        if is_probe or (node_id not in self.sick and (too_many or in_a_row)):
            self.sick[node_id] = now + min(QUARANTINE.first_ms * 2**entry.times, QUARANTINE.longest_ms)
            entry.times, entry.since = entry.times + 1, now
            return "quarantined"
        return ""

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
            if job and epoch and (job.attempt, job.epoch, job.state) == (attempt, epoch, state):
                return "repeated"
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
            return "gone" if job is None else "stale"
        job.state = state
        return "ended"

    def advance(self, attempt: Attempt, epoch: str, state: str, now: int) -> str:
        job = self.jobs.get(attempt.job_id)
        if job is None or job.attempt != attempt or job.epoch != epoch:
            return "stale"
        if self.leases.get(attempt, 0) <= now:
            return "stale"
        if job.state == state:
            return "repeated"
        if job.state not in {"ACCEPTED": {"DISPATCHED"}, "RUNNING": {"DISPATCHED", "ACCEPTED"}}[state]:
            return "stale"
        job.state = state
        self.leases[attempt] = now + job.run_ms
        return "advanced"
