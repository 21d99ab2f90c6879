"""Which outcomes of a room have arrived, so that each is told once, and the rest can be asked for after a reconnect."""

from lingua_sdk.domain.received_frames import Received

# Outcomes from before the first that arrived: late ones, and those of the history.
MAX_EARLIER = 1_000


class RoomSeqs:
    """Utterances of a room are numbered without gaps. One that joins later starts with the first that it gets."""

    def __init__(self) -> None:
        self._received: Received | None = None
        self._first = 0
        self._earlier: dict[int, None] = {}
        self.highest = 0

    def begin(self, latest: int) -> None:
        """One that enters gets what is said after this number."""
        self._received, self._first = Received(latest + 1), latest + 1

    @property
    def last(self) -> int | None:
        """Everything up to this number has arrived; None: nothing has."""
        return None if self._received is None else self._received.next - 1

    def take(self, seq: int) -> bool:
        """Whether it is news."""
        self.highest = max(self.highest, seq)
        if seq in self._earlier or (self._received is not None and seq >= self._first and seq in self._received):
            return False
        if self._received is None:
            self._received, self._first = Received(seq), seq
        if seq < self._first:
            self.know(seq)
        else:
            self._received.add(seq)
        return True

    def know(self, seq: int) -> None:
        """It was told in another way."""
        self._earlier[seq] = None
        if len(self._earlier) > MAX_EARLIER:
            del self._earlier[next(iter(self._earlier))]
