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
    """What comes beyond it is left out, not queued. The reserve is one second's worth, unless another is given."""

    __slots__ = ("_at_s", "_burst", "_left", "_per_s")

    def __init__(self, per_s: int, burst: int | None = None) -> None:
        self._per_s = per_s
        self._burst = per_s if burst is None else burst
        self._left = float(self._burst)
        self._at_s = float("-inf")

    def take(self, now_s: float) -> bool:
        """Whether there is one left at this moment; it is used up then."""
        self._left = self._left_at(now_s)
        self._at_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def is_whole(self, now_s: float) -> bool:
        """Whether the reserve is full again, as if nothing was ever taken."""
        return self._left_at(now_s) >= self._burst

    def _left_at(self, now_s: float) -> float:
        return min(self._burst, self._left + (now_s - self._at_s) * self._per_s)


class Allowance:
    """So much a second, with a reserve. What is not there is refused; more than the reserve counts as all of it."""

    __slots__ = ("_at_s", "_left", "_most", "_per_s")

    def __init__(self, per_s: float, most: float) -> None:
        self._per_s = per_s
        self._most = most
        self._left = most
        self._at_s = float("-inf")

    def has(self, amount: float, now_s: float) -> bool:
        self._left = min(self._most, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        return self._left >= min(amount, self._most)

    def take(self, amount: float, now_s: float) -> bool:
        """Whether it was there; it is used up then."""
        if not self.has(amount, now_s):
            return False
        self._left -= min(amount, self._most)
        return True

    def take_some(self, amount: int, now_s: float) -> int:
        """As much of it as there is, in whole numbers."""
        self.has(0, now_s)
        some = min(amount, int(self._left))
        self._left -= some
        return some


class Paces:
    """A budget for each of many things, of which the latest are remembered."""

    __slots__ = ("_budgets", "_max_known", "_per_s")

    def __init__(self, per_s: int, max_known: int) -> None:
        self._per_s = per_s
        self._max_known = max_known
        self._budgets: dict[str, Budget] = {}

    def may_show(self, name: str, now_s: float) -> bool:
        budget = self._budgets.get(name)
        if budget is None:
            if len(self._budgets) >= self._max_known:
                del self._budgets[next(iter(self._budgets))]
            budget = self._budgets[name] = Budget(self._per_s)
        return budget.take(now_s)
