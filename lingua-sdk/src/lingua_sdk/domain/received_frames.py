"""Which numbered frames of a client have arrived: after a reconnect it sends the rest, and none counts twice."""

# A client that skips numbers must not make us remember for ever.
MAX_AHEAD = 64


class Received:
    """Numbers arrive in any order: a final may overtake the chunk before it."""

    __slots__ = ("_ahead", "_next")

    def __init__(self, first: int = 0) -> None:
        self._next = first
        self._ahead: set[int] = set()

    @property
    def next(self) -> int:
        """The lowest number that has not come."""
        return self._next

    def __contains__(self, seq: int) -> bool:
        return seq < self._next or seq in self._ahead

    def add(self, seq: int) -> None:
        if seq == self._next:
            self._next += 1
        elif seq > self._next:
            self._ahead.add(seq)
            if len(self._ahead) > MAX_AHEAD:
                # Those that are missing will not come any more.
                self._next = min(self._ahead)
        while self._next in self._ahead:
            self._ahead.discard(self._next)
            self._next += 1
