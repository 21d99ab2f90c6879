"""Back-pressure: limits on the audio waiting for translation, per session and in total, including HTTP callers'."""

from collections import Counter
from enum import Enum, auto
from typing import Protocol

from lingua_scheduler.telemetry import metrics

# Above this share of its budget a session is asked to pause, while there is still room for audio on its way.
PAUSE_ABOVE = 0.75
# Of what the process may hold: HTTP callers may try again later, and those who speak live cannot.
CALLERS_SHARE = 0.5


class AudioRoom(Enum):
    ENOUGH = auto()
    SHORT = auto()  # taken, but a pause would be good
    NONE = auto()  # not taken


class AudioOwner(Protocol):
    """What the budget knows of a session: how much of its audio is waiting."""

    audio_bytes: int


class AudioBudget:
    def __init__(self, session_max_bytes: int, process_max_bytes: int) -> None:
        self._session_max = session_max_bytes
        self._process_max = process_max_bytes
        self._session_short = PAUSE_ABOVE * session_max_bytes
        self._process_short = PAUSE_ABOVE * process_max_bytes
        self._callers_max = CALLERS_SHARE * process_max_bytes
        self._held = 0
        self._held_of_callers = 0
        self._held_by: Counter[str] = Counter()
        metrics.AUDIO_HELD.set_function(lambda: self._held)

    @property
    def held_bytes(self) -> int:
        return self._held

    def take(self, session: AudioOwner, size: int) -> AudioRoom:
        of_session, of_all = session.audio_bytes + size, self._held + size
        if of_session > self._session_max or of_all > self._process_max:
            return AudioRoom.NONE
        session.audio_bytes, self._held = of_session, of_all
        is_short = of_session > self._session_short or of_all > self._process_short
        return AudioRoom.SHORT if is_short else AudioRoom.ENOUGH

    def take_of_caller(self, size: int, caller: str = "") -> bool:
        """Take room for an HTTP caller's audio, which has no session; False if there is none.

        A caller that is named may hold as much as it leaves free: alone half of it, one of two a third. So there is
        room for the next one, however many files it sends.
        """
        of_callers = self._held_of_callers + size
        if self._held + size > self._process_max or of_callers > self._callers_max:
            return False
        if caller:
            # The first one is taken if it fits.
            held = self._held_by[caller]
            if held and held + size > self._callers_max - of_callers:
                return False
            self._held_by[caller] = held + size
        self._held += size
        self._held_of_callers = of_callers
        return True

    def give_back_of_caller(self, size: int, caller: str = "") -> None:
        self._held -= size
        self._held_of_callers -= size
        if caller:
            self._held_by[caller] -= size
            if self._held_by[caller] <= 0:
                del self._held_by[caller]

    def give_back(self, session: AudioOwner, size: int) -> None:
        session.audio_bytes -= size
        self._held -= size
