"""So many lines of one kind in a while; of the rest only the number is kept, and told when the while is over."""

from collections.abc import Callable
from time import monotonic

WINDOW_S = 10.0
# Names are static, so there are fewer; whatever comes beyond them shares one place.
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
        # Those that hold a number somebody must be told.
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
        """Storms whose while is over, each told once, and how many lines were left out; then it may begin anew."""
        if not self._raging:
            return []
        now = self._clock()
        told = [(name, window.left_out) for name, window in self._raging.items() if now - window.began_at >= WINDOW_S]
        for name, _ in told:
            del self._raging[name], self._windows[name]
        return told
