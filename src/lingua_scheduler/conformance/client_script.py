"""The script for clients, scene by scene. A scene that breaks the connection does not end the next one."""

import time
from collections.abc import Awaitable, Callable

from lingua_scheduler.conformance.checks import PeerProfile
from lingua_scheduler.conformance.client_leaving import LEAVING
from lingua_scheduler.conformance.client_record import GATEWAY
from lingua_scheduler.conformance.client_talk import ClientTalk
from lingua_scheduler.conformance.play import PeerGone, PeerLost
from lingua_scheduler.conformance.refusing import refuse
from lingua_sdk.protocol.session import Backpressure, UiEvent
from lingua_sdk.protocol.shapes import ErrorMessage

# The pause that is asked for, and how long speech that is on its way may still come.
PAUSE_S, GRACE_S = 2.0, 0.5
# Of a machine that is too busy to say.
PAUSE_TRIES = 3
# A client that waits for each outcome before it speaks on is not waited for longer.
OVERTAKE_WITHIN_S = 5.0
LOST_FRAMES = 2
UNKNOWN_MESSAGE = '{"type":"conformance_unknown","value":{"is":["unknown"]}}'

ClientScene = Callable[[ClientTalk], Awaitable[None]]


async def check_client(talk: ClientTalk) -> None:
    """Play every scene; what was found is in the book."""
    if not await talk.meet(talk.play.wait_s):
        if talk.line is not None and not talk.book.has_failed("init-fields"):
            talk.book.failed("init-first", "session_init after connecting", "no readable session_init")
        talk.book.not_reached("no client connected" if talk.line is None else "the client opened no session")
        return
    try:
        await talk.acknowledge()
        for check, scene in (*SCENES, *LEAVING):
            if talk.book.is_open(check):
                await _play(talk, check, scene)
            if check == "speaks" and talk.book.has_failed("speaks"):
                raise PeerLost("the client sends no speech")
        _settle(talk)
    except PeerLost as lost:
        talk.book.not_reached(str(lost))


def _settle(talk: ClientTalk) -> None:
    """What the client had no reason to show."""
    reasons = {
        "binary-frames": "the client sends no binary frames",
        "seq": "the client sends no chunks",
        "utterance-index": "the client sends no whole utterances",
        "no-repeats": "the client sends no whole utterances",
    }
    if not talk.book.is_open("utterance-index"):
        talk.book.passed("no-repeats")
    for name, why in reasons.items():
        talk.book.does_not_apply(name, why)


async def _play(talk: ClientTalk, check: str, scene: ClientScene) -> None:
    talk.play.tell(check)
    try:
        await talk.must_be_connected()
    except PeerLost:
        talk.book.failed("reconnects", f"a connection within {talk.play.reconnect_within_s:g} s", "none")
        raise
    try:
        await talk.catch_up()
        await scene(talk)
    except PeerGone:
        raise
    except PeerLost as lost:
        talk.book.failed(check, "more speech on an open connection", str(lost))


async def _speaks(talk: ClientTalk) -> None:
    is_met = await talk.until(lambda: talk.record.spoken > 0)
    talk.book.judge("speaks", is_met, f"speech within {talk.play.patience_s:g} s", "none")


async def _unknown_fields(talk: ClientTalk) -> None:
    speech = await talk.next_speech()
    await talk.translate(speech, conformance_unknown={"is": ["unknown"]}, extra=None, group_id=None)
    await talk.goes_on("unknown-fields", "more speech after a result with unknown fields")


async def _unknown_types(talk: ClientTalk) -> None:
    assert talk.line is not None
    await talk.line.send_text(UNKNOWN_MESSAGE)
    event = UiEvent(
        trace_id="trace-1",
        session_id=talk.record.session_id,
        job_id="job-0",
        utterance_index=0,
        event="CONFORMANCE_UNKNOWN",
        status="ok",
    )
    await talk.say(event)
    # One utterance has been on its way already; the next was said after the unknown message.
    await talk.translate(await talk.next_speech())
    await talk.goes_on("unknown-types", "more speech after a message of an unknown type")


async def _missing(talk: ClientTalk) -> None:
    await talk.miss(await talk.next_speech())
    await talk.translate(await talk.next_speech())
    await talk.goes_on("missing-result", "more speech after missing_result")


async def _late(talk: ClientTalk) -> None:
    first = await talk.next_speech()
    within_s = min(OVERTAKE_WITHIN_S, talk.play.patience_s)
    if not await talk.until(lambda: len(talk.record.ended) > 1, within_s):
        talk.book.does_not_apply("late-results", "the client waits for each outcome before it speaks on")
        return
    await talk.translate(talk.record.ended[1])
    await talk.translate(first, late=True)
    await talk.goes_on("late-results", "more speech after outcomes that overtook each other")


async def _ping(talk: ClientTalk) -> None:
    assert talk.line is not None
    if talk.record.platform == GATEWAY:
        talk.book.does_not_apply("ping", "a gateway is not pinged")
        return
    is_met = await talk.line.ping(talk.play.patience_s)
    talk.book.judge("ping", is_met, f"a pong within {talk.play.patience_s:g} s", "none")


async def _pause(talk: ClientTalk) -> None:
    assert talk.line is not None
    for _ in range(PAUSE_TRIES):
        ends_s = time.monotonic() + PAUSE_S
        await talk.say(Backpressure(action="PAUSE", resume_after_ms=int(PAUSE_S * 1000), message="conformance"))
        # A pong comes after what was sent before the ping was read; a gateway is not pinged.
        if talk.record.platform != GATEWAY:
            await talk.line.ping(PAUSE_S)
        await talk.until(lambda: False, GRACE_S)
        if ends_s - time.monotonic() > GRACE_S:
            break
    before = talk.record.spoken
    has_spoken = await talk.until(lambda: talk.record.spoken > before, (ends_s - time.monotonic()) * 0.9)
    expected = f"no speech for {PAUSE_S:g} s"
    if talk.book.judge("honours-pause", not has_spoken, expected, "speech in the pause"):
        await talk.goes_on("honours-pause", "speech again after the pause")


async def _cut(talk: ClientTalk) -> None:
    """Without a close frame; one utterance has no outcome, and the last frames are lost."""
    assert talk.line is not None
    held = await talk.next_speech()
    # What is answered after it is known to the client, and sent again all the same.
    await talk.until(lambda: len(talk.record.ended) > 1, min(OVERTAKE_WITHIN_S, talk.play.patience_s))
    for speech in talk.record.ended[1:]:
        await talk.translate(speech)
    # The outcomes that were sent have arrived before the cut.
    if talk.record.platform != GATEWAY:
        await talk.line.ping(talk.play.patience_s)
        await talk.lose(LOST_FRAMES)
    talk.line.cut()
    await _comes_back(talk, "after a cut")
    if talk.play.profile is PeerProfile.STANDARD and talk.record.init is not None:
        _judge_resume(talk)
        await talk.resume(talk.record.next_seq)
        await _outcomes_again(talk)
        await _replays(talk, held.number if held.is_whole else None)
    else:
        await talk.take_in()
    await talk.catch_up()
    assert talk.line is not None
    await talk.line.close(1012, "conformance: restart")
    await _comes_back(talk, "after close code 1012")
    await talk.take_in()
    await talk.goes_on("reconnects", "speech after the reconnect")


def _judge_resume(talk: ClientTalk) -> None:
    init = talk.record.init
    assert init is not None
    came = "none" if init.resume_token is None else "another one"
    talk.book.judge("resume-token", init.resume_token == talk.record.token, "the resume_token of the session", came)
    last, most = init.last_utterance_index, talk.record.contiguous
    came = f"last_utterance_index {last}"
    talk.book.judge("last-index", last is None or last <= most, f"at most {most}, or absent", came)


async def _outcomes_again(talk: ClientTalk) -> None:
    """As a scheduler does: what came after `last_utterance_index` may have been lost."""
    assert talk.record.init is not None
    last = talk.record.init.last_utterance_index
    for result in list(talk.sent.values()):
        if result.session_id == talk.record.session_id and result.utterance_index > (-1 if last is None else last):
            await talk.say(result)


async def _replays(talk: ClientTalk, whole: int | None) -> None:
    if whole is not None:
        is_met = await talk.until(lambda: whole in talk.record.repeated)
        talk.book.judge("replay", is_met, f"utterance {whole} again, which had no outcome", "it is missing")
        return
    # Which seq comes first is judged as it comes.
    await talk.goes_on("replay", f"chunks from seq {talk.record.next_seq} on")


async def _comes_back(talk: ClientTalk, when: str) -> None:
    within_s = talk.play.reconnect_within_s
    if not await talk.meet(within_s):
        talk.book.failed("reconnects", f"a connection within {within_s:g} s {when}", "none")
        raise PeerGone("the client did not come back")


async def _tries_later(talk: ClientTalk) -> None:
    assert talk.line is not None
    talk.line.cut()
    await _comes_back(talk, "after a cut")
    await talk.say(ErrorMessage(code="SCHEDULER_DEPENDENCY_DOWN", message="conformance: refused on purpose"))
    await talk.line.close(1013, "conformance: try later")
    is_met = await talk.meet(talk.play.reconnect_within_s)
    talk.book.judge("tries-later", is_met, f"another try within {talk.play.reconnect_within_s:g} s", "none")
    if is_met:
        await talk.take_in()


async def _refused(talk: ClientTalk) -> None:
    if await refuse(talk):
        await talk.take_in()


async def _shows(talk: ClientTalk) -> None:
    program = talk.play.program
    due = list(talk.sent)
    if program is None:
        talk.book.not_tested("shows-once")
        return
    shown = program.output()
    if not any(text in shown for text in due):
        talk.book.does_not_apply("shows-once", "the client prints no translations")
        return
    await talk.until(lambda: all(text in program.output() for text in due))
    shown = program.output()
    for text in due:
        times = shown.count(text)
        talk.book.judge("shows-once", times == 1, f"{text!r} once in the output", f"{times} times")


# In this order; each is played while its check is open.
SCENES: tuple[tuple[str, ClientScene], ...] = (
    ("speaks", _speaks),
    ("unknown-fields", _unknown_fields),
    ("unknown-types", _unknown_types),
    ("missing-result", _missing),
    ("late-results", _late),
    ("ping", _ping),
    ("honours-pause", _pause),
    ("reconnects", _cut),
    ("tries-later", _tries_later),
    ("backs-off", _refused),
    ("shows-once", _shows),
)
