"""The last scenes of a client's script: its session is lost, and it is dismissed. Each may end the program."""

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial

from lingua_scheduler.conformance.client_talk import ClientTalk
from lingua_scheduler.conformance.play import PeerLost, arriving

# Without a program that can be started again, the one that is played.
_ALONE = 4004


async def _lost_session(talk: ClientTalk) -> None:
    if talk.play.program is None:
        talk.book.not_tested("lost-session")
        return
    if talk.book.has_failed("session-id"):
        talk.book.does_not_apply("lost-session", "session-id has failed")
        return
    assert talk.line is not None
    talk.line.cut()
    if await talk.meet(talk.play.reconnect_within_s):
        talk.record.session_check = "lost-session"
        await talk.acknowledge()
        before = talk.record.spoken
        # One that gives up here told its user, and that is allowed.
        with contextlib.suppress(PeerLost):
            await talk.until(lambda: talk.record.spoken > before)
    talk.book.passed("lost-session")
    talk.record.session_check = "session-id"
    await _again(talk)


async def _dismissed(talk: ClientTalk, code: int) -> None:
    if talk.play.program is None and code != _ALONE:
        talk.book.not_tested(f"stops-after-{code}")
        return
    assert talk.line is not None
    await talk.line.close(code, "conformance: dismissed")
    line = await arriving(talk.door, talk.play.program, talk.play.quiet_s)
    came = f"one within {talk.play.quiet_s:g} s"
    talk.book.judge(f"stops-after-{code}", line is None, "no further connection", came)
    if line is not None:
        line.cut()
    if talk.play.program is not None:
        await _again(talk)


async def _again(talk: ClientTalk) -> None:
    """Start the program for the next scene; its session is a new one."""
    assert talk.play.program is not None
    talk.line = None
    await talk.play.program.start()


LEAVING: tuple[tuple[str, Callable[[ClientTalk], Awaitable[None]]], ...] = (
    ("lost-session", _lost_session),
    ("stops-after-4003", partial(_dismissed, code=4003)),
    ("stops-after-4007", partial(_dismissed, code=4007)),
    ("stops-after-4004", partial(_dismissed, code=4004)),
)
