"""What the benchmark tells its load process, and what it hears back: one JSON object a line."""

import msgspec


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Something a load process is told to do."""

    @property
    def lasts_s(self) -> float:
        """How long it takes by its own nature, however fast everybody is."""
        return 0.0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a load process saw; `failure` says why it could not finish."""

    failure: str = ""


class Cast(msgspec.Struct, frozen=True, kw_only=True):
    """Who connects, and where. Without nodes the other end is the echo server."""

    port: int
    talkers: int
    nodes: int = 0
    slots: int = 0
    # Keys of nodes and of talkers, where they need one.
    node_key: str = ""
    talker_key: str = ""
    # Whether an utterance without a result is counted, and not the end of everything.
    takes_no: bool = False
    # How long a talker stays before another takes its place; 0: all of them to the end.
    life_s: float = 0.0


class Order(Command, frozen=True, kw_only=True):
    """One run: so many jobs (or echoes), all talkers together."""

    jobs: int
    in_flight: int
    audio_bytes: int
    audio_format: str = "pcm16"
    # Work for nodes that acknowledge, or for those that do not.
    acknowledges: bool = False
    # Jobs a second; 0: as fast as results come back.
    rate: float = 0.0

    @property
    def lasts_s(self) -> float:
        return self.jobs / self.rate if self.rate else 0.0


class Tally(Answer, frozen=True, kw_only=True):
    jobs: int = 0
    took_s: float = 0.0
    cpu_s: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    p999_ms: float | None = None  # of fewer than a thousand jobs there is none
    # Utterances without a result, by what their clients were told.
    refusals: dict[str, int] = {}
    # Talkers that went, and had another come in their place.
    replaced: int = 0


class Speech(Command, frozen=True, kw_only=True):
    """Everybody speaks, at real pace, or goes on, for so long; 0 s: whoever speaks ends, and is answered."""

    seconds: float = 0.0
    is_binary: bool = False
    # Without ends nobody pauses and there is no job.
    has_ends: bool = True

    @property
    def lasts_s(self) -> float:
        return self.seconds


class Spoken(Answer, frozen=True, kw_only=True):
    """Times are from the moment a final chunk left, the hangover included."""

    chunks: int = 0
    utterances: int = 0
    took_s: float = 0.0
    cpu_s: float = 0.0
    assigned_ms: tuple[float, float] | None = None  # p50, p99
    answered_ms: tuple[float, float] | None = None
    # Of every job: when it came to a node, in seconds of `perf_counter`, and the time until then, in ms.
    assignments: list[tuple[float, float]] = []
    # How late the load process itself was with a chunk, p99.
    late_ms: float = 0.0
    # Jobs that came to a node although one had them before.
    again: int = 0
    # Utterances without a result, and what the first of them was told.
    refused: int = 0
    complaint: str = ""


class Fleet(Cast, frozen=True, kw_only=True):
    """Nodes that take a while for every job."""

    job_ms: float


class Pressure(Command, frozen=True, kw_only=True):
    """Phases without a pause between them; each is so many utterances a second for so many seconds.

    A rate of 0 keeps `in_flight` utterances under way.
    """

    phases: list[tuple[float, float]]
    in_flight: int = 0

    @property
    def lasts_s(self) -> float:
        return sum(seconds for _, seconds in self.phases)


class Said(msgspec.Struct, frozen=True, array_like=True):
    """One utterance: when it was due, when it was settled, and how: "" is a result, else why there is none."""

    due_s: float
    settled_s: float
    refusal: str


class Pressed(Answer, frozen=True, kw_only=True):
    """Times begin with the first phase."""

    said: list[Said] = []
    cpu_s: float = 0.0
    # Error frames by code: they do not say which utterance they are about.
    errors: dict[str, int] = {}
