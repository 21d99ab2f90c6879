"""The whole scheduler at one moment, as values: what pages, terminals, gauges and alarms are made of."""

from enum import StrEnum

import msgspec

from lingua_scheduler.domain.pools.ladder import Rung
from lingua_scheduler.domain.watching.pair_work import ScalingLook


class Look(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A part of a picture."""


class Level(StrEnum):
    NOTICE = "notice"  # worth knowing
    WARNING = "warning"  # needs attention today
    CRITICAL = "critical"  # people are not being translated


class Room(StrEnum):
    """How much of the slots for a pair is free."""

    NONE = "none"  # no node serves it
    FULL = "full"
    LOW = "low"
    HALF = "half"
    WIDE = "wide"


class NodeLook(Look, frozen=True, kw_only=True):
    node_id: str
    instance_id: str
    # registering, ready, degraded, draining, quarantined or probation (its time is up, the next job is its probe).
    state: str
    shard: int
    max_jobs: int
    held: int
    # None while it takes no work.
    free: int | None
    # Its last sign of life, and when it counts as gone without another.
    seen_at_ms: int
    alive_until_ms: int
    # 0 unless it is quarantined.
    quarantined_until_ms: int = 0
    # Services it said it lacks.
    unavailable: list[str] = []
    # src:tgt, those it also speaks.
    speech: list[str] = []
    # src:tgt, those it can at least write.
    text: list[str] = []
    services: list[str] = []
    version: str = ""
    platform: str = ""
    # Machine load reported by the node, in percent; None if unknown.
    cpu: float | None = None
    memory: float | None = None
    gpu: float | None = None
    # Kinds of service it has: asr, nmt, tts …
    types: list[str] = []
    # Hardware declared by the node; 0 if unknown.
    cores: float = 0
    memory_gb: float = 0
    gpu_gb: float = 0
    # Of a wide node, which serves too many pairs to name each: its pool, and how many pairs it speaks.
    wide: str = ""
    wide_pairs: int = 0
    # The verdict on it; None: it is well.
    level: Level | None = None
    # The tenant of its credential; empty if that is not known: a release before wrote it.
    tenant: str = ""
    # Whether it gets jobs of that tenant alone. Pairs and sums are of the other nodes.
    is_private: bool = False


class PairLook(Look, frozen=True, kw_only=True):
    """One language pair, counting the nodes that also speak the target (TTS)."""

    src: str
    tgt: str
    # Nodes that serve it and take work now; slots and free slots of those.
    nodes: int
    slots: int
    free: int
    # Nodes that could at least write it.
    text_nodes: int
    # The only node that serves it.
    hangs_on: str = ""
    room: Room = Room.NONE
    # The verdict on it; None: it is well.
    level: Level | None = None


class DetourLook(Look, frozen=True, kw_only=True):
    """A pair that no node translates alone, and how the ladder serves it."""

    src: str
    tgt: str
    rung: Rung
    # The third language, if there is one.
    pivot: str = ""


class WideLook(Look, frozen=True, kw_only=True):
    """Wide nodes with the same languages, described once instead of pair by pair."""

    # Of their pool; the same name always stands for the same languages.
    name: str
    sources: list[str]
    # Targets they can write, and those of them they speak.
    text: list[str]
    speech: list[str]
    # Source → targets; None: any source into any target.
    translations: dict[str, list[str]] | None = None
    # How many pairs they speak.
    pairs: int
    # Nodes that take work now, slots and free slots of those, nodes that could at least write.
    nodes: int
    slots: int
    free: int
    text_nodes: int
    # The only one of them, if there is one alone.
    hangs_on: str = ""
    room: Room = Room.NONE
    level: Level | None = None


class InstanceLook(Look, frozen=True, kw_only=True):
    instance_id: str
    is_alive: bool
    is_leader: bool
    host: str
    pid: int
    version: str
    address: str
    started_at_ms: int
    silent_ms: int
    inbox_letters: int
    inbox_pending: int
    dead_letters: int
    nodes: int
    sessions: int
    jobs_waiting: int
    # It shut down properly; it did not die.
    has_left: bool = False
    # Words for what it can open: parked outcomes, and letters sealed with the cluster keys of these ids.
    seals: str = ""


class JobLook(Look, frozen=True, kw_only=True):
    """A job that failed or was slow."""

    job_id: str
    state: str
    src: str
    tgt: str
    node_id: str
    attempts: int
    reason: str
    ended_at_ms: int
    took_ms: int
    # Shortened; empty in what a release before told of it.
    session_id: str = ""
    utterance_index: int = -1
    # Whose job it is; empty if that is not known, as below.
    tenant: str = ""


class Moment(Look, frozen=True, kw_only=True):
    """A point of the time series: all instances together; rates and latencies cover the last 15 seconds."""

    at_ms: int
    # Jobs that ended, a second.
    done_per_s: float
    no_text_per_s: float
    failed_per_s: float
    cancelled_per_s: float
    retries_per_s: float
    # From the end of an utterance to its outcome; None when nothing ended.
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    sessions: int
    jobs_waiting: int
    slots_taken: int
    slots_total: int

    @property
    def ended_per_s(self) -> float:
        return self.done_per_s + self.no_text_per_s + self.failed_per_s + self.cancelled_per_s


class Alarm(Look, frozen=True, kw_only=True):
    """An alarm. With `code` and `values` a page can translate it; `text` is English, with the next step."""

    code: str
    level: Level
    # What it is about: a pair, a node, an instance; empty: everything.
    subject: str
    since_ms: int
    text: str
    values: dict[str, str | int | float] = {}
    # What people did about it: 0 is nothing. While it is silenced it does not count in the verdict.
    acknowledged_at_ms: int = 0
    silenced_until_ms: int = 0
    handled_by: str = ""
    # When it first became critical after it was less; 0: never. What was acknowledged before was not that bad.
    worse_since_ms: int = 0
    # Of the node that it is about; empty if it is about anything else.
    tenant: str = ""


class Event(Look, frozen=True, kw_only=True):
    """A change from one picture to the next."""

    at_ms: int
    # noun.verb
    kind: str
    level: Level
    subject: str
    text: str
    values: dict[str, str | int | float] = {}
    # Of the node or job that it is about; empty if it is about anything else.
    tenant: str = ""


class FleetVerdict(Look, frozen=True, kw_only=True):
    """Whether people are being translated. `code`, `subject` and `more` let a page say it in any language."""

    # None: all is well.
    level: Level | None
    # Of the worst alarm when it is critical; else translating, failing when most jobs fail, or ready when there is no
    # speech.
    code: str
    # What the worst alarm is about.
    subject: str = ""
    # Critical: how many more alarms of this code there are. Warning: how many warnings there are.
    more: int = 0
    # In English.
    text: str


class NeedsLook(Look, frozen=True, kw_only=True):
    """Nodes that need attention, the worst first."""

    nodes: list[str]
    # Those that are only counted.
    more: int = 0


class RoomsLook(Look, frozen=True, kw_only=True):
    """All rooms together. Which there are is listed elsewhere."""

    rooms: int = 0
    members: int = 0
    # Those who only listen.
    guests: int = 0
    # In which languages people read and hear the others, and how many.
    languages: dict[str, int] = {}
    # From the end of speech to its delivery, by language, in the last minute or two.
    lag_p50_ms: dict[str, float] = {}
    lag_p95_ms: dict[str, float] = {}


class Picture(Look, frozen=True, kw_only=True):
    # Counts the pictures of the instance that made it.
    serial: int
    at_ms: int
    # Redis is away: this is what was known last.
    is_stale: bool
    made_by: str
    release: str
    redis_version: str
    key_prefix: str
    now: Moment
    # Since each living instance started, by state.
    jobs_ended: dict[str, int]
    # Sessions by what they asked for: src:tgt, or auto:src+tgt for two-way ones.
    session_languages: dict[str, int]
    nodes: list[NodeLook]
    # Pairs with their own pool, and pairs that a session or viewer asks for; wide nodes count in each that they serve.
    pairs: list[PairLook]
    instances: list[InstanceLook]
    leader: str | None
    map_version: int
    map_made_at_ms: int
    dead_letters: int
    # The latest few of each, the newest first.
    failures: list[JobLook]
    slow: list[JobLook]
    alarms: list[Alarm]
    wide: list[WideLook] = []
    # None in pictures of a release that does not judge.
    verdict: FleetVerdict | None = None
    needs_look: NeedsLook | None = None
    rooms: RoomsLook = RoomsLook()
    # Of public nodes.
    detours: list[DetourLook] = []
    scaling: ScalingLook = ScalingLook()
