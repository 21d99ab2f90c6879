"""Rate limiters: a token bucket that delays, a budget that drops, and an allowance that refuses."""

MINUTE_S = 60.0
# Names whose tries are counted; the oldest are forgotten first.
MAX_KNOWN = 10_000


class Bucket:
    """A token bucket that delays: a rate per second and a burst.

    Taking more than is left becomes a debt to wait off.
    """

    __slots__ = ("_at_s", "_burst", "_left", "_per_s")

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = burst
        self._at_s = 0.0

    def take(self, amount: float, now_s: float) -> float:
        """Take tokens. Returns the seconds to wait before taking more; 0 while tokens are left."""
        # Without min(): this is the hot path of every frame.
        left = self._left + (now_s - self._at_s) * self._per_s
        self._left = left = (left if left < self._burst else self._burst) - amount
        self._at_s = now_s
        return 0.0 if left >= 0 else -left / self._per_s


class Budget:
    """A token bucket that drops: one token per event, none is queued. The burst is one second's worth by default."""

    __slots__ = ("_at_s", "_burst", "_left", "_per_s")

    def __init__(self, per_s: int, burst: int | None = None) -> None:
        self._per_s = per_s
        self._burst = per_s if burst is None else burst
        self._left = float(self._burst)
        self._at_s = float("-inf")

    def take(self, now_s: float) -> bool:
        """Take one token; False if none is left."""
        self._left = self._left_at(now_s)
        self._at_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def is_whole(self, now_s: float) -> bool:
        """Whether the bucket is full again, as if nothing had been taken."""
        return self._left_at(now_s) >= self._burst

    def _left_at(self, now_s: float) -> float:
        return min(self._burst, self._left + (now_s - self._at_s) * self._per_s)


class Allowance:
    """A token bucket that refuses: amounts per second with a burst. An amount above the burst counts as the burst."""

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
        """Take the amount; False if too little is left."""
        if not self.has(amount, now_s):
            return False
        self._left -= min(amount, self._most)
        return True

    def take_some(self, amount: int, now_s: float) -> int:
        """Take as many whole tokens of the amount as are left. Returns their number."""
        self.has(0, now_s)
        some = min(amount, int(self._left))
        self._left -= some
        return some


class MinuteAllowances:
    """So many per minute and name; without a name as many as one likes."""

    __slots__ = ("_known", "_per_min")

    def __init__(self, per_min: int) -> None:
        self._per_min = per_min
        self._known: dict[str, Allowance] = {}

    def has(self, name: str, now_s: float) -> bool:
        return not name or name not in self._known or self._known[name].has(1, now_s)

    def take(self, name: str, now_s: float) -> bool:
        if not name:
            return True
        allowance = self._known.pop(name, None) or Allowance(self._per_min / MINUTE_S, self._per_min)
        self._known[name] = allowance
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        return allowance.take(1, now_s)


class Paces:
    """A budget per name, for a bounded number of names; the oldest names are dropped."""

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
