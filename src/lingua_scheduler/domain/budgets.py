"""A budget of so many a second: what comes beyond it is left out, not queued."""


class Budget:
    def __init__(self, per_s: int) -> None:
        self._per_s = per_s
        self._left = float(per_s)
        self._at_s = float("-inf")

    def take(self, now_s: float) -> bool:
        """Whether there is one left at this moment; it is used up then."""
        self._left = min(self._per_s, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True
