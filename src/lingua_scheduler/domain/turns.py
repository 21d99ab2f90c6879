"""Groups: results that a listener hears as one stretch of speech."""

from typing import NamedTuple

WINDOW_MS = 2_000
MAX_PARTS = 8


class Part(NamedTuple):
    group_id: str
    part_index: int


class Groups:
    """Numbers the parts of a group; a group stays open for a while after the last part or its playback."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._group_id = ""
        self._parts = 0
        self._began_ms = 0
        self._open_until_ms = 0.0

    def next_part(self, now_ms: float) -> Part:
        if now_ms >= self._open_until_ms or self._parts >= MAX_PARTS:
            # Two groups may begin in the same millisecond, but not under the same name.
            self._began_ms = max(round(now_ms), self._began_ms + 1)
            self._group_id = f"group_{self._session_id}_{self._began_ms}"
            self._parts = 0
        part = Part(self._group_id, self._parts)
        self._parts += 1
        self._open_until_ms = now_ms + WINDOW_MS
        return part

    def playback_ended(self, now_ms: float) -> None:
        if self._parts:
            self._open_until_ms = now_ms + WINDOW_MS
