"""The audio that waits for its translation: so much a session, so much altogether, HTTP callers' too."""

from enum import Enum, auto
from typing import Protocol

from lingua_scheduler.telemetry import metrics

# Beyond this part of its budget a session is asked to pause, while there is still room for what is on its way.
PAUSE_ABOVE = 0.75


class Room(Enum):
    ENOUGH = auto()
    SHORT = auto()  # taken, but a pause would be good
    NONE = auto()  # not taken


class AudioOwner(Protocol):
    """A session, as the budget sees it: how much of its audio waits."""

    audio_bytes: int


class AudioBudget:
    def __init__(self, session_max_bytes: int, process_max_bytes: int) -> None:
        self._session_max = session_max_bytes
        self._process_max = process_max_bytes
        self._session_short = PAUSE_ABOVE * session_max_bytes
        self._process_short = PAUSE_ABOVE * process_max_bytes
        self._held = 0
        metrics.AUDIO_HELD.set_function(lambda: self._held)

    @property
    def held_bytes(self) -> int:
        return self._held

    def take(self, session: AudioOwner, size: int) -> Room:
        of_session, of_all = session.audio_bytes + size, self._held + size
        if of_session > self._session_max or of_all > self._process_max:
            return Room.NONE
        session.audio_bytes, self._held = of_session, of_all
        is_short = of_session > self._session_short or of_all > self._process_short
        return Room.SHORT if is_short else Room.ENOUGH

    def take_of_caller(self, size: int) -> bool:
        """Of an HTTP caller, who has no session; False when there is no room."""
        if self._held + size > self._process_max:
            return False
        self._held += size
        return True

    def give_back_of_caller(self, size: int) -> None:
        self._held -= size

    def give_back(self, session: AudioOwner, size: int) -> None:
        session.audio_bytes -= size
        self._held -= size
