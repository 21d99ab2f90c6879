"""Utterances as services pass them on, and audio that has speech in it."""

from typing import Any

import msgspec

from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.domain.sessions.utterances import CutReason
from lingua_scheduler.services.attempts.work import Work
from tests.support.fleet import POOL

# A framed Opus packet of 20 ms that is as long as speech makes it.
PACKET = b"\x20\x00" + b"a word is in this packet of Opus"


def packet_of(text: str) -> bytes:
    """One whose bytes begin with the text."""
    return b"\x20\x00" + text.encode().ljust(32, b".")


_PLAIN = Work(
    session_id="s-00000001",
    utterance_index=0,
    terms=Terms("en", "zh"),
    pools=(POOL,),
    audio=b"",
    audio_format="pcm16",
    sample_rate=16_000,
    duration_ms=0,
    trace_id="t",
    turn_id="t",
    reason=CutReason.IS_FINAL,
    padding_ms=0,
)


def work(**changes: Any) -> Work:
    return msgspec.structs.replace(_PLAIN, **changes)
