"""Shortened session ids, as shown to people who look at jobs."""

import re

# 32 of its 64 random bits: enough to find it again, too few to be taken for its client.
_SHOWN_CHARS = 10
_OURS = re.compile(r"s-[0-9A-F]{8}(…|[0-9A-F]{8})?")


def shown_session(session_id: str) -> str:
    """The beginning of a generated id; an id that a caller chose is shown whole. Idempotent."""
    return f"{session_id[:_SHOWN_CHARS]}…" if _OURS.fullmatch(session_id) else session_id
