"""The last scenes of a node's script: it is asked to leave, and it is dismissed. Each may end the program."""

import contextlib

from lingua_scheduler.conformance.node_talk import NodeTalk
from lingua_scheduler.conformance.play import PeerLost, arriving

# Ends by itself, or by the signal that asked for it.
_GOOD_ENDS = (0, 143, -15)


async def _leaves(talk: NodeTalk) -> None:
    program = talk.play.program
    if program is None:
        talk.book.not_tested("leaves")
        return
    job = await talk.assign()
    # Not before the node has read the job.
    assert talk.line is not None
    await talk.line.ping(talk.play.patience_s)
    program.ask_to_leave()
    try:
        is_answered = await talk.answered(job)
    except PeerLost:
        is_answered = bool(talk.record.results[job.job_id])
    if talk.book.judge("leaves", is_answered, "the result of the running job after SIGTERM", "none"):
        await _read_on(talk)
        code = await program.exit_code(talk.play.patience_s)
        came = "the program still runs" if code is None else f"exit code {code}"
        talk.book.judge("leaves", code in _GOOD_ENDS, "the end of the program", came)
    talk.line = None
    talk.record.restarted()
    await program.start()


async def _read_on(talk: NodeTalk) -> None:
    """Results are confirmed as long as the node is there."""
    with contextlib.suppress(PeerLost):
        await talk.until(lambda: not talk.is_connected)


async def _dismissed_4003(talk: NodeTalk) -> None:
    if talk.play.program is None:
        # The other code is played, and the node is expected to end at the first.
        talk.book.not_tested("stops-after-4003")
        return
    await _dismissed(talk, 4003)
    talk.record.restarted()
    await talk.play.program.start()


async def _dismissed_4004(talk: NodeTalk) -> None:
    await _dismissed(talk, 4004)


async def _dismissed(talk: NodeTalk, code: int) -> None:
    assert talk.line is not None
    await talk.line.close(code, "conformance: dismissed")
    line = await arriving(talk.door, talk.play.program, talk.play.quiet_s)
    talk.book.judge(f"stops-after-{code}", line is None, "no further connection", f"one within {talk.play.quiet_s:g} s")
    talk.line = None
    if line is not None:
        line.cut()


LEAVING = (
    ("leaves", _leaves),
    ("stops-after-4003", _dismissed_4003),
    ("stops-after-4004", _dismissed_4004),
)
