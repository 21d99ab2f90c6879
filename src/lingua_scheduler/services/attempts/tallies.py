"""Counts what each node does, for people who ask why it is sick: a few additions per attempt, written in batches."""

import asyncio
from collections import deque

import msgspec

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.watching.tallies import ERRORS_MAX, TalliedError, TallySums, is_failure
from lingua_scheduler.services.attempts.reports import Answered, Cancelled, Report
from lingua_scheduler.store.nodes.tallies import Tallies

# Nodes that are counted between two writes; more than an instance has jobs at once.
MAX_NODES = 20_000
# Nodes written at once, all in one write to Redis.
TOGETHER = 500


class _Node(msgspec.Struct):
    """Added to in place, because it is done for each attempt."""

    shard: int
    done: int = 0
    took_ms: int = 0
    slowest_ms: int = 0
    audio_ms: int = 0
    audio_took_ms: int = 0
    failed: int = 0
    errors: deque[TalliedError] = msgspec.field(default_factory=lambda: deque(maxlen=ERRORS_MAX))

    def sums(self) -> TallySums:
        return TallySums(self.done, self.failed, self.took_ms, self.slowest_ms, self.audio_ms, self.audio_took_ms)

    def put_back(self, earlier: "_Node") -> None:
        """What could not be written."""
        self.done += earlier.done
        self.took_ms += earlier.took_ms
        self.slowest_ms = max(self.slowest_ms, earlier.slowest_ms)
        self.audio_ms += earlier.audio_ms
        self.audio_took_ms += earlier.audio_took_ms
        self.failed += earlier.failed
        self.errors = deque([*earlier.errors, *self.errors], ERRORS_MAX)


class NodeCounts:
    def __init__(self, tallies: Tallies) -> None:
        self._tallies = tallies
        self._nodes: dict[str, _Node] = {}

    def ended(self, attempt: Attempt, report: Report, took_s: float, audio_ms: int) -> None:
        """An attempt ended; `audio_ms` is 0 where the length is not known."""
        node = self._nodes.get(attempt.node_id)
        if node is None:
            if len(self._nodes) >= MAX_NODES:
                return
            node = self._nodes[attempt.node_id] = _Node(attempt.shard)
        node.shard = attempt.shard
        reason = report.meaning.reason if isinstance(report, Answered) else report.reason
        if not reason:
            took_ms = int(took_s * 1000)
            node.done += 1
            node.took_ms += took_ms
            if took_ms > node.slowest_ms:
                node.slowest_ms = took_ms
            if audio_ms:
                node.audio_ms += audio_ms
                node.audio_took_ms += took_ms
        elif not isinstance(report, Cancelled) and is_failure(reason):
            node.failed += 1
            node.errors.append(TalliedError(int(wall_ms()), reason, attempt.job_id))

    async def write(self) -> None:
        """Write what was counted. Raises RedisAway; it is tried again."""
        while self._nodes:
            names = list(self._nodes)[:TOGETHER]
            taken = {name: self._nodes.pop(name) for name in names}
            some = {name: node for name, node in taken.items() if node.done or node.failed}
            writes = (
                self._tallies.add(node.shard, name, node.sums(), list(node.errors)[::-1]) for name, node in some.items()
            )
            results = await asyncio.gather(*writes, return_exceptions=True)
            errors = {name: error for name, error in zip(some, results, strict=True) if error is not None}
            for name in errors:
                self._put_back(name, some[name])
            if errors:
                raise next(iter(errors.values()))

    def _put_back(self, name: str, node: _Node) -> None:
        since = self._nodes.get(name)
        if since is None:
            self._nodes[name] = node
        else:
            since.put_back(node)
