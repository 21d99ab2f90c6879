"""Log rate limiter: a number of lines per event and window; further ones are suppressed and counted."""

from collections.abc import Callable
from time import monotonic

WINDOW_S = 10.0
# Names are static, so there are fewer; names beyond this number share one entry.
MAX_NAMES = 1000
OTHERS = "others"


class _Window:
    __slots__ = ("began_at", "left_out", "written")

    def __init__(self, began_at: float) -> None:
        self.began_at = began_at
        self.written = 0
        self.left_out = 0


class Storms:
    def __init__(self, most: int, clock: Callable[[], float] = monotonic) -> None:
        self._most = most
        self._clock = clock
        self._windows: dict[str, _Window] = {}
        # Windows with suppressed lines that are not reported yet.
        self._raging: dict[str, _Window] = {}

    def may_write(self, name: str) -> bool:
        now = self._clock()
        if name not in self._windows and len(self._windows) >= MAX_NAMES:
            name = OTHERS
        window = self._windows.get(name)
        if window is None or (now - window.began_at >= WINDOW_S and not window.left_out):
            window = self._windows[name] = _Window(now)
        if window.written < self._most:
            window.written += 1
            return True
        window.left_out += 1
        self._raging[name] = window
        return False

    def over(self) -> list[tuple[str, int]]:
        """Expired windows and how many lines each suppressed; each is returned once."""
        if not self._raging:
            return []
        now = self._clock()
        told = [(name, window.left_out) for name, window in self._raging.items() if now - window.began_at >= WINDOW_S]
        for name, _ in told:
            del self._raging[name], self._windows[name]
        return told
