"""Invalid entries in Redis: skipped by readers, counted, and logged once in a while.

`lingua redis check --repair` removes it."""

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.telemetry import logs, metrics

_log = logs.get()

# One line in the log for each family of keys in this time, however often it is met.
TELL_EVERY_S = 60.0
# What was not met again for so long is not spoken of any more.
LATELY_S = 60.0
MOST_CHARS = 80


class UnreadableKeys:
    """By family of keys, as `store/keys.py` names them."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._met_at_s: dict[str, float] = {}
        self._told_at_s: dict[str, float] = {}
        self._untold: dict[str, int] = {}

    def met(self, family: str, what: str = "", count: int = 1) -> None:
        """`what` is its key or name, never what it holds: that may be speech."""
        if not count:
            return
        metrics.UNREADABLE_DATA.labels(family).inc(count)
        now_s = self._clock()
        self._met_at_s[family] = now_s
        self._untold[family] = self._untold.get(family, 0) + count
        if now_s - self._told_at_s.get(family, float("-inf")) >= TELL_EVERY_S:
            self._told_at_s[family] = now_s
            _log.warning("redis.unreadable", family=family, what=printable(what), count=self._untold.pop(family))

    @property
    def lately(self) -> list[str]:
        """Families in which something was met in the last minute."""
        since_s = self._clock() - LATELY_S
        return sorted(family for family, met_s in self._met_at_s.items() if met_s > since_s)


def printable(text: str | bytes) -> str:
    """Any value as text that is safe for logs and terminals."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in _shown(raw))
    return shown if len(shown) <= MOST_CHARS else f"{shown[:MOST_CHARS]}…"


def _shown(raw: bytes) -> str:
    return raw[: 4 * MOST_CHARS].decode("utf-8", "backslashreplace")
