"""A line of those who wait for a slot: whether it is a burst that passes, or more work than can be done."""

from math import inf

# Of the longest anybody may wait, this much is a long wait for everybody.
LONG_SHARE = 0.1
# A line is looked at twice in that time, but a look is worth something only after so many slots.
LOOKS = 2
# So often in a row it must not have become shorter: a crowd that comes within a second or so may pass.
TOO_OFTEN = 2
SLOTS_PER_LOOK = 8
# So many may always wait: fewer, and a slot would now and then find nobody.
ALWAYS_WAIT = 4


class Line:
    """While a line gets shorter everybody may join. One that is long and does not is kept short.

    A longer one serves nobody more: there are no more slots for it, and everybody in it only waits longer. Times are
    seconds of any clock that does not jump.
    """

    __slots__ = (
        "_length",
        "_long_s",
        "_look_s",
        "_looked_at_s",
        "_most",
        "_served",
        "_served_at_s",
        "_stands",
        "_times",
    )

    def __init__(self, longest_wait_s: float, now_s: float) -> None:
        self._long_s = longest_wait_s * LONG_SHARE
        self._served = 0
        self._served_at_s = now_s
        # The latest look: when, how long it took, how many waited, how many could be served before a wait is long.
        self._looked_at_s = now_s
        self._look_s = inf
        self._length = self._most = 0
        self._stands = False
        # How many looks in a row found it long and no shorter.
        self._times = 0

    def is_full(self, length: int) -> bool:
        return self._stands and length >= self._most

    def served(self, length: int, now_s: float) -> None:
        """Somebody got a slot, and so many still wait."""
        if now_s - self._served_at_s > self._look_s:
            # There were no slots at all, which says nothing about those that come now.
            self._looked_at_s, self._served, self._length, self._times = now_s, 0, 0, 0
        self._served_at_s = now_s
        self._served += 1
        took_s = now_s - self._looked_at_s
        if took_s > self._long_s / LOOKS and self._served >= SLOTS_PER_LOOK:
            self._look(length, took_s)
            self._looked_at_s, self._served = now_s, 0

    def _look(self, length: int, took_s: float) -> None:
        self._most = max(ALWAYS_WAIT, int(self._long_s * self._served / took_s))
        self._times = self._times + 1 if length >= self._length > self._most else 0
        if length <= self._most // 2:
            self._stands = False
        elif self._times >= TOO_OFTEN:
            self._stands = True
        self._length, self._look_s = length, took_s
