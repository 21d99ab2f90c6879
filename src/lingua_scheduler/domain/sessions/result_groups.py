"""Groups: results that a listener hears as one stretch of speech, and their text so far."""

from typing import NamedTuple

WINDOW_MS = 2_000
MAX_PARTS = 8
# Maximum length of the preceding text that a node gets as context; its end matters most.
MAX_CONTEXT_CHARS = 400


class TurnPart(NamedTuple):
    group_id: str
    part_index: int


class Context(NamedTuple):
    """What an utterance would continue, as far as is known when it begins."""

    group_id: str
    part_index: int
    text: str
    # The node that recognised the text; None if any node may have it.
    heard_at: str | None = None


class Groups:
    """Numbers the parts of a group; a group stays open for a while after the last part or its playback."""

    __slots__ = ("_began_ms", "_group_id", "_heard_at", "_open_until_ms", "_parts", "_session_id", "_text")

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._group_id = ""
        self._parts = 0
        self._text = ""
        self._heard_at: str | None = None
        self._began_ms = 0
        self._open_until_ms = 0.0

    def next_part(self, text: str, now_ms: float, heard_at: str | None = None) -> TurnPart:
        if not self._is_open(now_ms):
            # Two groups may begin in the same millisecond, but not under the same name.
            self._began_ms = max(round(now_ms), self._began_ms + 1)
            self._group_id = f"group_{self._session_id}_{self._began_ms}"
            self._parts = 0
            self._text = ""
        part = TurnPart(self._group_id, self._parts)
        self._parts += 1
        before = self._text if heard_at == self._heard_at else ""
        self._text, self._heard_at = f"{before} {text}".strip()[-MAX_CONTEXT_CHARS:], heard_at
        self._open_until_ms = now_ms + WINDOW_MS
        return part

    def context(self, now_ms: float) -> Context | None:
        """The open group that speech beginning now would continue."""
        return Context(self._group_id, self._parts, self._text, self._heard_at) if self._is_open(now_ms) else None

    def playback_ended(self, now_ms: float) -> None:
        if self._parts:
            self._open_until_ms = now_ms + WINDOW_MS

    def _is_open(self, now_ms: float) -> bool:
        return now_ms < self._open_until_ms and self._parts < MAX_PARTS
