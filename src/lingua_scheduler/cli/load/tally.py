"""What became of everything that a load test said."""

import math
from collections import Counter

import msgspec

from lingua_scheduler.cli.wording import counted
from lingua_sdk.results import Failed, Gap, NoText, Result, Translation

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
# The load test itself is the bottleneck if its timers ring this late.
LATE_MS = 50.0
# Reasons are free text of the scheduler and the system; at most this many are listed separately.
MOST_REASONS = 20


class Percentiles:
    """Percentiles and maximum of many durations, exact to three significant digits, in bounded memory."""

    def __init__(self) -> None:
        self._counts: Counter[float] = Counter()

    @property
    def max_ms(self) -> float:
        """0 without values."""
        return max(self._counts, default=0.0)

    def add(self, took_ms: float) -> None:
        self._counts[_rounded(took_ms)] += 1

    def remove(self, took_ms: float) -> None:
        """A duration that was added before."""
        self._counts -= Counter((_rounded(took_ms),))

    def at(self, share: float) -> float | None:
        """The smallest value that at least this share of the values does not exceed; None without values."""
        left = math.ceil(share * self._counts.total())
        for took_ms in sorted(self._counts):
            left -= self._counts[took_ms]
            if left <= 0:
                return took_ms
        return None


def _rounded(took_ms: float) -> float:
    return float(f"{took_ms:.3g}")


def _add(counts: Counter[str], what: str, by: int) -> None:
    counts[what] += by
    if not counts[what]:
        del counts[what]


class LoadTally:
    """Counts utterances by outcome, and sessions."""

    def __init__(self) -> None:
        self.said = self.translated = self.late = self.no_text = self.unanswered = 0
        self.failed: Counter[str] = Counter()
        self.gaps: Counter[str] = Counter()
        self.connected = self.resumed = 0
        self.sessions_lost: Counter[str] = Counter()
        # The scheduler cut an utterance before its end, so its results cannot be assigned.
        self.is_cut = False
        self.took = Percentiles()
        self.lag = Percentiles()

    @property
    def under_way(self) -> int:
        outcomes = self.translated + self.no_text + self.failed.total() + self.gaps.total() + self.unanswered
        return self.said - outcomes

    def take(self, outcome: Result, took_ms: float) -> None:
        """The outcome of an utterance whose speech ended `took_ms` ago."""
        self._count(outcome, 1)
        if isinstance(outcome, Translation):
            self.took.add(took_ms)

    def take_back(self, outcome: Result, took_ms: float) -> None:
        """It was that of the first part of an utterance."""
        self._count(outcome, -1)
        if isinstance(outcome, Translation):
            self.took.remove(took_ms)

    def _count(self, outcome: Result, by: int) -> None:
        match outcome:
            case Translation():
                self.translated += by
                self.late += by * outcome.is_late
            case NoText():
                self.no_text += by
            case Failed():
                _add(self.failed, outcome.code or "unknown", by)
            case Gap():
                _add(self.gaps, outcome.reason, by)

    def lose_session(self, why: str) -> None:
        known = why in self.sessions_lost or len(self.sessions_lost) < MOST_REASONS
        self.sessions_lost[why if known else "other reasons"] += 1

    def problems(self, max_p99_ms: float | None) -> list[str]:
        """Why the load test failed; empty if it did not."""
        p99_ms = self.took.at(SHARES["p99"])
        failed, skipped, lost = self.failed.total(), self.gaps.total(), self.sessions_lost.total()
        found = []
        if failed:
            found.append(f"{counted(failed, 'utterance')} failed")
        if skipped:
            found.append(f"{counted(skipped, 'utterance')} {'was' if skipped == 1 else 'were'} skipped")
        if self.unanswered:
            found.append(f"{counted(self.unanswered, 'utterance')} got no answer")
        if lost:
            found.append(f"{counted(lost, 'session')} {'was' if lost == 1 else 'were'} lost")
        if not self.translated:
            found.append("nothing was translated")
        if max_p99_ms is not None and p99_ms is not None and p99_ms > max_p99_ms:
            found.append(f"p99 is {p99_ms:g} ms, more than {max_p99_ms:g} ms")
        return found

    def notes(self) -> list[str]:
        """What to know before one believes the figures."""
        notes = []
        lag_ms = self.lag.at(SHARES["p99"])
        if lag_ms is not None and lag_ms > LATE_MS:
            notes.append(
                f"This machine was late itself (p99 {lag_ms:.0f} ms), so latencies are too high:"
                " use fewer speakers, or a faster machine."
            )
        if self.is_cut:
            notes.append("The scheduler cut utterances before they ended: use a shorter recording with --audio.")
        return notes


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """A finished load test, as `--json` prints it."""

    url: str
    src_lang: str = msgspec.field(name="from")
    tgt_lang: str = msgspec.field(name="to")
    speakers: int | None
    rate: float | None
    seconds: float
    said: int
    translated: int
    late: int
    no_text: int
    failed: dict[str, int]
    gaps: dict[str, int]
    unanswered: int
    sessions_lost: dict[str, int]
    sessions_resumed: int
    latency_ms: dict[str, float | None]
    problems: list[str]
    notes: list[str]
