"""Load shedding: tells a queue that is a passing burst from one that only grows, and limits the latter."""

from math import inf

# A wait longer than this share of the maximum wait counts as long.
LONG_SHARE = 0.1
# The queue is measured twice in that time, and only after enough slots were given out.
LOOKS = 2
# Measurements in a row that must find it long and not shrinking; a crowd that comes within a second may pass.
TOO_OFTEN = 2
SLOTS_PER_LOOK = 8
# This many jobs may always wait: with fewer, a slot would now and then find the queue empty.
ALWAYS_WAIT = 4


class QueueAdmission:
    """Admission to one queue. Any job may join while the queue shrinks; a long queue that does not is kept short.

    A longer queue increases the waiting time, not the throughput: there are no more slots. Times are seconds of a
    monotonic clock.
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
        # The latest measurement: when, over how long, the queue's length, and the length at which waits become long.
        self._looked_at_s = now_s
        self._look_s = inf
        self._length = self._most = 0
        self._stands = False
        # Measurements in a row that found it long and not shrinking.
        self._times = 0

    def is_full(self, length: int) -> bool:
        return self._stands and length >= self._most

    def served(self, length: int, now_s: float) -> None:
        """A job got a slot, and `length` jobs still wait."""
        if now_s - self._served_at_s > self._look_s:
            # There were no slots for a while, so the old measurement is not valid.
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
