"""What the jobs of each language pair cost the nodes, counted since an instance started; one row of the demand."""

import msgspec

# Pairs that an instance names, and rows of the demand; the others are one row together.
PAIRS_MAX = 200
REST = "other:other"
# A pair without a job for so long is forgotten, so that its name is free for another.
KEPT_MS = 3_600_000


class PairWork(msgspec.Struct, frozen=True, array_like=True, gc=False):
    # Jobs that ended, in whatever way: each of them had arrived.
    jobs: int = 0
    # Of those, the ones that a node answered, and how long their last attempts were at the nodes.
    answered: int = 0
    node_ms: int = 0
    # Of those, the ones whose length of speech is known: that length, and their part of the node time.
    speech_ms: int = 0
    speech_node_ms: int = 0

    def plus(self, other: "PairWork") -> "PairWork":
        return PairWork(
            self.jobs + other.jobs,
            self.answered + other.answered,
            self.node_ms + other.node_ms,
            self.speech_ms + other.speech_ms,
            self.speech_node_ms + other.speech_node_ms,
        )

    def since(self, before: "PairWork") -> "PairWork":
        """The increase; all of it if the counters began anew in between."""
        if self.jobs < before.jobs or self.node_ms < before.node_ms:
            return self
        return PairWork(
            self.jobs - before.jobs,
            self.answered - before.answered,
            self.node_ms - before.node_ms,
            self.speech_ms - before.speech_ms,
            self.speech_node_ms - before.speech_node_ms,
        )


class PairDemand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is asked of the public nodes for one pair."""

    src: str
    tgt: str
    # In the window of scaling.window_ms.
    arrivals_per_s: float
    # Of the jobs in the window, else as it was last; None: no node has answered a job yet.
    node_s_per_job: float | None
    # Node time for a second of speech; None: no job in the window brought speech.
    real_time_factor: float | None
    waiting: int
    # Slots that are busy all the time with this; the highest of the last scaling.hold_ms.
    load: float


class ScalingLook(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is asked of the public nodes, the busiest pairs first."""

    # False: measuring began less than a window ago, so the load may be too low.
    is_settled: bool = False
    headroom: float = 0.0
    pairs: list[PairDemand] = []


class WorkBook:
    """Counters of each pair. Once a pair is named it keeps its name, so that counters never seem to jump."""

    def __init__(self) -> None:
        self._pairs: dict[str, PairWork] = {}
        self._used_ms: dict[str, int] = {}

    def add(self, pair: str, work: PairWork, now_ms: int) -> None:
        if pair not in self._pairs and len(self._pairs) >= PAIRS_MAX:
            pair = REST
        self._pairs[pair] = self._pairs.get(pair, PairWork()).plus(work)
        self._used_ms[pair] = now_ms

    def told(self, now_ms: int) -> dict[str, PairWork]:
        for pair in [pair for pair, at_ms in self._used_ms.items() if now_ms - at_ms >= KEPT_MS]:
            del self._pairs[pair], self._used_ms[pair]
        return dict(self._pairs)
