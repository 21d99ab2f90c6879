"""Recognises letters that this process has had before, in constant memory: an anti-replay window for each sender.

A letter comes again under another entry id if the reply to its post was lost, or if a client of Redis copied it."""

from collections import OrderedDict

from lingua_scheduler.protocol.sealing import is_sealed
from lingua_scheduler.store.cluster.inbox import InboxEntry

# Letters of one sender overtake each other by no more than it posts at once.
WINDOW = 4_096
MAX_SENDERS = 1_000

_FULL = (1 << WINDOW) - 1


class Repeats:
    """By uid, which counts up for as long as a sender lives. Sealed and other letters are counted apart: a uid that
    is not sealed may be forged, and must not make sealed ones look old."""

    def __init__(self) -> None:
        # The newest serial of each sender, and which of those before it have come: bit 0 is the newest.
        self._windows: OrderedDict[tuple[bool, str], tuple[int, int]] = OrderedDict()

    def has_come(self, letter: InboxEntry) -> bool:
        """Whether it came before, or is so old that this is not known. Call it once for each letter that was opened."""
        sender, _, serial = letter.uid.rpartition("-")
        try:
            number = int(serial, 16)
        except ValueError:
            return False
        key = is_sealed(letter.body), sender
        window = self._windows.get(key)
        if window is None:
            self._windows[key] = number, 1
            if len(self._windows) > MAX_SENDERS:
                self._windows.popitem(last=False)
            return False
        newest, seen = window
        ahead = number - newest
        if ahead > 0:
            self._windows[key] = number, (seen << ahead | 1) & _FULL if ahead < WINDOW else 1
            return False
        if -ahead >= WINDOW or seen >> -ahead & 1:
            return True
        self._windows[key] = newest, seen | 1 << -ahead
        return False
