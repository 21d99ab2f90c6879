"""What was seen in a run: the checker is given these, and nothing else. Times are of CLOCK_MONOTONIC, in seconds."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Span(NamedTuple):
    """A word, and which of its slices of 20 ms were heard."""

    word: str
    first: int
    last: int
    total: int

    def __str__(self) -> str:
        return f"{self.word}:{self.first}-{self.last}/{self.total}"

    @classmethod
    def read(cls, text: str) -> "Span":
        word, _, slices = text.rpartition(":")
        heard, _, total = slices.partition("/")
        first, _, last = heard.partition("-")
        return cls(word, int(first), int(last), int(total))


class Spoken(NamedTuple):
    """A sentence, or as much of it as was sent in one session."""

    speaker: str
    session: str
    words: tuple[str, ...]
    began_s: float
    ended_s: float


@dataclass(frozen=True)
class Outcome:
    """`reason` is "" of a translation. `connection` counts the sockets of the session: what is sent again after a
    reconnect is no second outcome."""

    speaker: str
    session: str
    index: int
    at_s: float
    connection: int
    reason: str = ""
    code: str = ""
    words: tuple[Span, ...] = ()


@dataclass
class Session:
    """`kind`: sdk, browser, phone or gateway. `ended_by`: "" while it is open, finished, or broken."""

    speaker: str
    session: str
    kind: str
    opened_s: float
    ended_s: float | None = None
    ended_by: str = ""
    # When its socket broke and it went on by itself.
    resumed_s: list[float] = field(default_factory=list)


class Incident(NamedTuple):
    """A session that somebody had to open again."""

    speaker: str
    at_s: float
    why: str


class Worked(NamedTuple):
    """An attempt on a node's slot. `process` and `connection` say of which socket it was; `ended_s` is None when the
    process died first."""

    node: str
    process: str
    connection: int
    job: str
    attempt: int
    began_s: float
    ended_s: float | None
    slots: int


class Refused(NamedTuple):
    """A node of ours was given more than it has slots."""

    node: str
    at_s: float
    why: str


class Ledger(NamedTuple):
    """A look at Redis: a node with leases for more jobs than it has slots."""

    at_s: float
    node: str
    jobs: int
    slots: int


class Happened(NamedTuple):
    """A fault, as it really was."""

    what: str
    name: str
    target: str
    began_s: float
    ended_s: float


class Memory(NamedTuple):
    process: str
    at_s: float
    mb: float


@dataclass
class Evidence:
    spoken: list[Spoken] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    worked: list[Worked] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    ledger: list[Ledger] = field(default_factory=list)
    faults: list[Happened] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    # Processes under test that ended by themselves.
    crashes: list[Incident] = field(default_factory=list)
    # What is left when all is over, in words.
    leftovers: list[str] = field(default_factory=list)
    # Where the test itself failed: then its verdict is worth nothing.
    failures: list[str] = field(default_factory=list)
