"""So many a second: what comes beyond it waits, or is left out."""


class Bucket:
    """So many a second, with a reserve for bursts. What is taken beyond it is a debt that time pays off."""

    __slots__ = ("_at_s", "_burst", "_left", "_per_s")

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = burst
        self._at_s = 0.0

    def take(self, amount: float, now_s: float) -> float:
        """Take, and hear how many seconds to wait before taking more: 0 while the reserve lasts."""
        # Without min(), because every frame of every client comes by here.
        left = self._left + (now_s - self._at_s) * self._per_s
        self._left = left = (left if left < self._burst else self._burst) - amount
        self._at_s = now_s
        return 0.0 if left >= 0 else -left / self._per_s


class Budget:
    """What comes beyond it is left out, not queued."""

    __slots__ = ("_at_s", "_left", "_per_s")

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
