"""How long listeners in rooms wait: from the end of speech to its delivery in their language."""

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.watching.figures import OTHER
from lingua_scheduler.domain.watching.latency import LatencyTally, merged
from lingua_scheduler.domain.watching.rooms import LANGUAGES_MAX, sparse
from lingua_scheduler.telemetry import metrics
from lingua_sdk.domain.languages import is_code

# What is shown covers the present window and the one before.
WINDOW_S = 60.0


class RoomLag:
    """Languages are what clients name: those beyond a limit, and what is no language, are counted together."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._known: set[str] = set()
        self._began_s = clock()
        self._present: dict[str, LatencyTally] = {}
        self._before: dict[str, LatencyTally] = {}

    def note_lag(self, language: str, seconds: float) -> None:
        """An utterance was delivered to a listener, or to several at once, in this language."""
        name = self._name(language)
        metrics.ROOM_LAG.labels(name).observe(seconds)
        self._turn()
        self._present.setdefault(name, LatencyTally()).add(seconds * 1000)

    def lately(self) -> dict[str, dict[int, int]]:
        """Language → step of a LatencyTally → how many."""
        self._turn()
        return {
            name: sparse(merged(some[name] for some in (self._present, self._before) if name in some))
            for name in sorted(self._present.keys() | self._before.keys())
        }

    def _turn(self) -> None:
        passed_s = self._clock() - self._began_s
        if passed_s >= WINDOW_S:
            self._before = self._present if passed_s < 2 * WINDOW_S else {}
            self._present = {}
            self._began_s = self._clock()

    def _name(self, language: str) -> str:
        if language not in self._known:
            if len(self._known) >= LANGUAGES_MAX or not is_code(language):
                return OTHER
            self._known.add(language)
        return language
