"""What the benchmark tells its load process, and what it hears back: one JSON object a line."""

import msgspec


class Cast(msgspec.Struct, frozen=True, kw_only=True):
    """Who connects, and where. Without nodes the other end is the echo server."""

    port: int
    talkers: int
    nodes: int = 0
    slots: int = 0
    # Where the nodes connect; 0: where the talkers do.
    node_port: int = 0


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One run: so many jobs (or echoes), all talkers together."""

    jobs: int
    in_flight: int
    audio_bytes: int
    audio_format: str = "pcm16"
    # Work for nodes that acknowledge, or for those that do not.
    acknowledges: bool = False
    # Jobs a second; 0: as fast as results come back.
    rate: float = 0.0


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What the load process saw; `failure` says why it could not finish."""

    jobs: int = 0
    took_s: float = 0.0
    cpu_s: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    p999_ms: float = 0.0
    failure: str = ""


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """A page, and how often a second it is asked for."""

    port: int
    path: str
    rate: float


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """How that went."""

    answers: int
    failures: int
    took_s: float
    p99_ms: float
