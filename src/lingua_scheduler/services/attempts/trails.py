"""The trail of an utterance while tracing is on: timestamps recorded on the way, turned into spans at the end."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock, wall_ms
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.jobs import JobState, target_of
from lingua_scheduler.services.attempts.reports import Answered, Report
from lingua_scheduler.services.attempts.timings import service_timings
from lingua_scheduler.telemetry.traces import Attributes, Kind, Traces
from lingua_sdk.domain.errors import ErrorCode

if TYPE_CHECKING:
    from lingua_scheduler.telemetry.traces import Span

# A node's figures are believed up to this; a liar's number must still fit wherever it goes.
MAX_STAGE_MS = 1e9

_GOOD = (JobState.DONE, JobState.NO_TEXT)


class Wall(NamedTuple):
    """One reading of the wall clock dates every mark of a trail, so that no span ends before it began."""

    clock: Callable[[], float]
    offset_ns: int

    def ns(self, at_s: float) -> int:
        return self.offset_ns + int(at_s * 1e9)


class Leg:
    """One attempt: the wait for a slot, the way to a node, the node's work."""

    __slots__ = ("ended_s", "number", "outcome", "placing_s", "sent_s", "span", "waiting_s")

    def __init__(self, number: int, waiting_s: float) -> None:
        self.number = number
        self.waiting_s = waiting_s
        self.placing_s: float | None = None
        self.sent_s: float | None = None
        self.ended_s: float | None = None
        self.span: Span | None = None
        self.outcome: dict[str, str | float] = {}


class Trail:
    """From the first sound, or from the call, to the outcome. `root` is the span all others hang under."""

    __slots__ = ("_began_s", "_legs", "_outcome", "_root", "_said_s", "_settled_s", "_traces", "_wall")

    def __init__(self, traces: Traces, wall: Wall, root: "Span", began_s: float, said_s: float) -> None:
        self._traces = traces
        self._wall = wall
        self._root = root
        self._began_s = began_s
        self._said_s = said_s
        self._settled_s: float | None = None
        self._legs: list[Leg] = []
        self._outcome: dict[str, str] = {"lingua.outcome": "abandoned"}

    @property
    def trace_id(self) -> str:
        return self._traces.trace_id(self._root)

    def stage(self, about: Attributes) -> "Trail":
        """Of one of several jobs of the utterance; to be settled and finished by itself."""
        now_s = self._wall.clock()
        root = self._traces.begin("job", Kind.INTERNAL, self._wall.ns(now_s), self._root, about)
        return Trail(self._traces, self._wall, root, now_s, now_s)

    def wants_slot(self, number: int) -> None:
        self._legs.append(Leg(number, self._wall.clock()))

    def waits(self) -> None:
        """In line: what was tried before came to nothing."""
        self._legs[-1].placing_s = None

    def places(self) -> None:
        self._legs[-1].placing_s = self._wall.clock()

    def leaves(self, attempt: Attempt) -> str:
        """The job is about to be sent: the trace context that it carries."""
        if not self._root.is_recording():
            return self._traces.traceparent(self._root)
        leg, about = self._legs[-1], _of_attempt(attempt)
        leg.span = self._traces.begin("attempt", Kind.CLIENT, self._wall.ns(self._wall.clock()), self._root, about)
        return self._traces.traceparent(leg.span)

    def sent(self) -> None:
        self._legs[-1].sent_s = self._wall.clock()

    def reported(self, report: Report) -> None:
        if not self._root.is_recording():
            return
        leg = self._legs[-1]
        leg.ended_s = self._wall.clock()
        leg.outcome = _of_result(report) if isinstance(report, Answered) else {"lingua.outcome": report.reason}

    def settled(self, state: JobState, error: ErrorCode | None, job_id: str) -> None:
        self._settled_s = self._wall.clock()
        self._outcome |= {"lingua.outcome": state.value, "lingua.job_id": job_id}
        if error is not None:
            self._outcome["lingua.error"] = error.value

    def left(self, *, is_late: bool, is_heard: bool) -> None:
        """The answer is on its way, or waits for a client that is away; late when a later one was before it."""
        self._outcome["lingua.delivery"] = ("late" if is_late else "sent") if is_heard else "parked"
        self.finish()

    def finish(self) -> None:
        """Make the spans. Nothing is settled when everything stops before there is an outcome."""
        if not self._root.is_recording():
            return
        now_s = self._wall.clock()
        settled_s = now_s if self._settled_s is None else self._settled_s
        if self._began_s < self._said_s:
            self._add("cut", self._began_s, self._said_s)
        for leg in self._legs:
            self._add_leg(leg, settled_s)
        if delivery := self._outcome.get("lingua.delivery"):
            self._add("delivery", settled_s, now_s, {"lingua.delivery": delivery})
        has_failed = self._outcome["lingua.outcome"] not in _GOOD
        self._traces.end(self._root, self._wall.ns(now_s), self._outcome, failed=has_failed)

    def _add_leg(self, leg: Leg, settled_s: float) -> None:
        ended_s = settled_s if leg.ended_s is None else leg.ended_s
        placing_s = ended_s if leg.placing_s is None else leg.placing_s
        about: dict[str, str | float] = {"lingua.attempt": leg.number}
        self._add("queue", leg.waiting_s, placing_s, about)
        if leg.span is None:
            about |= leg.outcome
        if leg.placing_s is not None:
            is_sent = leg.sent_s is not None
            self._add(
                "dispatch", placing_s, leg.sent_s if leg.sent_s is not None else ended_s, about, failed=not is_sent
            )
        if leg.span is not None:
            has_failed = leg.outcome.get("lingua.outcome") not in _GOOD
            self._traces.end(leg.span, self._wall.ns(ended_s), leg.outcome, failed=has_failed)

    def _add(
        self, name: str, start_s: float, end_s: float, attributes: Attributes | None = None, *, failed: bool = False
    ) -> None:
        span = self._traces.begin(name, Kind.INTERNAL, self._wall.ns(start_s), self._root)
        self._traces.end(span, self._wall.ns(end_s), attributes or {}, failed=failed)


class Passage:
    """A job of another instance on its way through this one: letter, node, letter."""

    __slots__ = ("_about", "_came_s", "_parent", "_sent_s", "_taken_s", "_traces", "_wall")

    def __init__(self, traces: Traces, wall: Wall, traceparent: str, about: Attributes) -> None:
        self._traces = traces
        self._wall = wall
        self._parent = {"traceparent": traceparent}
        self._about = about
        self._taken_s = wall.clock()
        self._sent_s: float | None = None
        self._came_s: float | None = None

    def sent(self) -> None:
        self._sent_s = self._wall.clock()

    def came(self) -> None:
        self._came_s = self._wall.clock()

    def ended(self, outcome: str) -> None:
        """`result` when its owner has it; else why not."""
        now_s, is_good = self._wall.clock(), outcome == "result"
        relay = self._traces.begin("relay", Kind.CONSUMER, self._wall.ns(self._taken_s), self._parent, self._about)
        if relay.is_recording():
            came_s = now_s if self._came_s is None else self._came_s
            if self._sent_s is not None:
                self._add(relay, "relay.node", self._sent_s, came_s)
            if self._came_s is not None:
                self._add(relay, "relay.reply", self._came_s, now_s)
        self._traces.end(relay, self._wall.ns(now_s), {"lingua.outcome": outcome}, failed=not is_good)

    def _add(self, relay: "Span", name: str, start_s: float, end_s: float) -> None:
        span = self._traces.begin(name, Kind.INTERNAL, self._wall.ns(start_s), relay)
        self._traces.end(span, self._wall.ns(end_s), {})


class Trails:
    """`clock` is the one that everything here is timed by, in seconds."""

    def __init__(self, traces: Traces, instance: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._traces = traces
        self._instance = instance
        self._clock = clock

    def utterance(self, began_s: float, said_s: float, about: Attributes) -> Trail:
        return self._begin("utterance", began_s, said_s, about, None)

    def call(self, carrier: Mapping[str, str], about: Attributes) -> Trail:
        """`carrier` may hold the caller's `traceparent`."""
        now_s = self._clock()
        return self._begin("call", now_s, now_s, about, carrier)

    def passage(self, traceparent: str, attempt: Attempt, sender: str) -> Passage:
        about = {**_of_attempt(attempt), "lingua.instance": self._instance, "lingua.sender": sender}
        return Passage(self._traces, self._wall(), traceparent, about)

    def _begin(
        self, name: str, began_s: float, said_s: float, about: Attributes, parent: Mapping[str, str] | None
    ) -> Trail:
        wall = self._wall()
        about = {"lingua.instance": self._instance, **about}
        root = self._traces.begin(name, Kind.SERVER, wall.ns(began_s), parent, about)
        return Trail(self._traces, wall, root, began_s, said_s)

    def _wall(self) -> Wall:
        return Wall(self._clock, int(wall_ms() * 1e6) - int(self._clock() * 1e9))


def _of_attempt(attempt: Attempt) -> dict[str, str | int]:
    return {"lingua.job_id": attempt.job_id, "lingua.attempt": attempt.number, "lingua.node_id": attempt.node_id}


def _of_result(report: Answered) -> dict[str, str | float]:
    """Never a node's own words: its codes are taken if they are ours, its figures if they are numbers."""
    result = report.result
    code = result.error.code if result.error else None
    about: dict[str, str | float] = {"lingua.outcome": target_of(report.meaning.event).value}
    if not result.success:
        about["lingua.error"] = ErrorCode.__members__.get(code or "", "other")
    if (stages := service_timings(result)) is not None:
        for name in ("asr_ms", "nmt_ms", "tts_ms", "total_ms"):
            if (took_ms := getattr(stages, name)) is not None:
                about[f"lingua.node.{name}"] = float(min(max(took_ms, 0), MAX_STAGE_MS))
    return about
