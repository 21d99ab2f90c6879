"""How peers spread over instances: how many an instance sends elsewhere now, so that all have about as many."""

from collections.abc import Sequence

# Looks in a row that must see too many here: a restart, or a rush to one instance, is over by then.
STEADY_LOOKS = 3
# Of what is too much, a part at a time, and never more than this.
PART = 4
MOST = 50
# Looks to wait for those that were sent away to be counted somewhere again. Some never connect again.
PATIENCE = 10
# Sending peers away that all come back is useless: after a few tries the next one waits longer and longer, in looks.
FUTILE_TRIES = 3
LONGEST_REST = 360


class Balancer:
    """Of one kind of peer on one instance. It tolerates `percent` more than the mean of all instances."""

    def __init__(self, percent: int) -> None:
        self._share = 1 + percent / 100
        self._steady = 0
        self._rest = 0
        self._futile = 0
        # How many all instances had when some were sent away, and for how many looks that is still waited for.
        self._total = 0
        self._patience = 0
        # The most that the emptiest instance had since this began; None while nothing was sent away.
        self._best: int | None = None

    def look(self, mine: int, others: Sequence[int]) -> int:
        """How many may be sent elsewhere now, given how many each other live instance has."""
        total = mine + sum(others)
        mean = total / (1 + len(others))
        surplus = mine - mean
        is_even = surplus <= 1 or mine <= mean * self._share
        if is_even and not _can_spare_one(mine, others):
            self._settle()
            return 0
        self._steady += 1
        if self._steady < STEADY_LOOKS:
            return 0
        if total < self._total and self._patience > 0:
            self._patience -= 1
            return 0
        if self._rest > 0:
            self._rest -= 1
            return 0
        return max(1, min(MOST, int(surplus / PART)))

    def sent(self, mine: int, others: Sequence[int]) -> None:
        """Some of these are sent away. If none of the earlier ones came to the emptiest instance, the next time is put
        off."""
        self._total, self._patience = mine + sum(others), PATIENCE
        emptiest = min(others)
        is_better = self._best is None or emptiest > self._best
        self._futile = 0 if is_better else self._futile + 1
        self._best = emptiest if self._best is None else max(self._best, emptiest)
        self._rest = min(LONGEST_REST, 2 ** max(0, self._futile - FUTILE_TRIES)) - 1

    def _settle(self) -> None:
        self._steady, self._rest, self._futile, self._best = 0, 0, 0, None
        self._total, self._patience = 0, 0


def _can_spare_one(mine: int, others: Sequence[int]) -> bool:
    """Whether an instance has none and this one, with two at least, has the most: of few peers, one is much."""
    return mine >= 2 and 0 in others and mine >= max(others)
