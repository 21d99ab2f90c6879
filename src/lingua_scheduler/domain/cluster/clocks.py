"""Detects jumps of Redis's clock against a monotonic one: after a jump, times in Redis prove nothing for a while."""

TOLERANCE_MS = 1_000.0


class Drift:
    """The offset between two clocks. It may drift, but must not jump."""

    __slots__ = ("_ahead_ms",)

    def __init__(self) -> None:
        self._ahead_ms: float | None = None

    def jump_ms(self, theirs_ms: float, asked_ms: float, heard_ms: float) -> float:
        """How far Redis's clock has jumped since the last reading; 0 if it has not.

        It was read between `asked_ms` and `heard_ms` of our own clock, so a slow reply may hide a small jump.
        """
        ahead_ms = theirs_ms - (asked_ms + heard_ms) / 2
        before_ms = ahead_ms if self._ahead_ms is None else self._ahead_ms
        jump_ms = ahead_ms - before_ms
        if abs(jump_ms) <= TOLERANCE_MS + (heard_ms - asked_ms):
            # What a slow answer says is no measure for the next one.
            self._ahead_ms = ahead_ms if heard_ms - asked_ms < TOLERANCE_MS else before_ms
            return 0.0
        self._ahead_ms = ahead_ms
        return jump_ms
