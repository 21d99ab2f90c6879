"""The script for nodes, scene by scene. A scene that breaks the connection does not end the next one."""

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from lingua_scheduler.conformance.checks import PeerProfile
from lingua_scheduler.conformance.node_leaving import LEAVING
from lingua_scheduler.conformance.node_record import JobKey
from lingua_scheduler.conformance.node_talk import SAMPLE_RATE, NodeTalk
from lingua_scheduler.conformance.play import PeerGone, PeerLost
from lingua_scheduler.conformance.refusing import refuse
from lingua_sdk.protocol.node import JobCancel, NodeControl
from lingua_sdk.protocol.shapes import ErrorMessage, JobPipeline

LARGE_AUDIO_S = 40
# How many jobs at once are tried, at most.
MOST_AT_ONCE = 64
UNKNOWN_MESSAGE = '{"type":"conformance_unknown","value":{"is":["unknown"]}}'
UNKNOWN_FIELDS = {"conformance_unknown": {"is": ["unknown"]}, "dialect": None, "mode": None, "group_id": None}

Scene = Callable[[NodeTalk], Awaitable[None]]


async def check_node(talk: NodeTalk) -> None:
    """Play every scene; what was found is in the book."""
    if not await talk.meet(talk.play.wait_s):
        why = "no node connected" if talk.line is None else "the node did not register"
        if talk.line is not None and not talk.book.has_failed("register-fields"):
            talk.book.failed("registers-first", "node_register after connecting", "no readable node_register")
        talk.book.not_reached(why)
        return
    try:
        for check, scene in (*SCENES, *LEAVING):
            if talk.book.is_open(check):
                await _play(talk, check, scene)
            if check == "result" and talk.book.has_failed("result"):
                raise PeerLost("the node answers no job")
        if talk.book.is_open("running-ids"):
            talk.book.does_not_apply("running-ids", "the node does not list its running jobs")
    except PeerLost as lost:
        talk.book.not_reached(str(lost))


async def _play(talk: NodeTalk, check: str, scene: Scene) -> None:
    talk.play.tell(check)
    if not talk.is_connected and not await talk.meet(talk.play.reconnect_within_s):
        talk.book.failed("reconnects", f"a connection within {talk.play.reconnect_within_s:g} s", "none")
        raise PeerLost("the node did not come back")
    try:
        await scene(talk)
    except PeerGone:
        raise
    except PeerLost as lost:
        talk.book.failed(check, "an answer on an open connection", str(lost))
    finally:
        talk.verdict, talk.confirms = "granted", True


async def _heartbeat(talk: NodeTalk) -> None:
    within_s = talk.record.interval_s + talk.play.patience_s
    is_met = await talk.until(lambda: talk.record.heartbeats > 0, within_s)
    talk.book.judge("heartbeat-fields", is_met, f"node_heartbeat within {within_s:g} s of the acknowledgement", "none")


async def _result(talk: NodeTalk) -> None:
    # Not the first attempt, so that a node which makes the number up is found.
    job = await talk.assign(replace(talk.job(), attempt_id=2))
    await talk.is_answered("result", job)


async def _job_ack(talk: NodeTalk) -> None:
    if not talk.record.asks_first:
        for name in ("job-ack", "waits-for-grant", "keeps-results"):
            talk.book.does_not_apply(name, "the node does not list job_ack")
        return
    job = await talk.assign()
    key = JobKey(job.job_id, job.attempt_id)
    is_met = await talk.until(lambda: key in talk.record.acks or bool(talk.record.results[job.job_id]))
    is_met = is_met and key in talk.record.acks
    talk.book.judge("job-ack", is_met, f"job_ack within {talk.play.patience_s:g} s", "no job_ack before the work")
    await talk.answered(job)


async def _stale(talk: NodeTalk) -> None:
    talk.verdict = "stale"
    job = await talk.assign()
    await talk.until(lambda: JobKey(job.job_id, job.attempt_id) in talk.record.acks)
    talk.verdict = "granted"
    # What was wrongly begun is reported before the next job has its result.
    await talk.answered(await talk.assign())
    talk.book.passed("waits-for-grant")


async def _unknown_fields(talk: NodeTalk) -> None:
    await talk.is_answered("unknown-fields", await talk.assign(None, **UNKNOWN_FIELDS))


async def _unknown_types(talk: NodeTalk) -> None:
    assert talk.line is not None
    await talk.line.send_text(UNKNOWN_MESSAGE)
    await talk.say(NodeControl(command="conformance_unknown"))
    await talk.is_answered("unknown-types", await talk.assign())


async def _errors(talk: NodeTalk) -> None:
    await talk.say(ErrorMessage(code="INTERNAL_ERROR", message="conformance: sent on purpose"))
    await talk.is_answered("errors-survived", await talk.assign())


async def _twice(talk: NodeTalk) -> None:
    job = await talk.assign()
    await talk.say(job)
    if await talk.is_answered("answers-once", job):
        await talk.answered(await talk.assign())


async def _cancel(talk: NodeTalk) -> None:
    await talk.say(JobCancel(job_id="job-conformance-unknown", reason="CANCELLED"))
    job = await talk.assign()
    await talk.say(JobCancel(job_id=job.job_id, reason="CANCELLED"))
    await talk.is_answered("cancel", await talk.assign())


async def _slots(talk: NodeTalk) -> None:
    slots = talk.record.slots
    if not slots:
        for name in ("slots-used", "slots-limit"):
            talk.book.does_not_apply(name, "the node declares no max_concurrent_jobs")
        return
    count = min(slots, MOST_AT_ONCE)
    # Again, because a job that was cancelled before may still run the first time.
    refused = await _refused_of(talk, count) and await _refused_of(talk, count)
    if refused is not None:
        talk.book.judge("slots-used", not refused, f"{count} jobs at once", f"{refused} refused with NODE_OVERLOADED")
    if slots > MOST_AT_ONCE:
        talk.book.does_not_apply("slots-limit", f"more than {MOST_AT_ONCE} jobs at once are not tried")


async def _refused_of(talk: NodeTalk, count: int) -> int | None:
    """How many of so many jobs at once the node has no slot for; None if it does not answer all of them."""
    jobs = [await talk.assign() for _ in range(count)]
    if not await talk.is_answered("slots-used", *jobs, within_s=count * talk.play.patience_s):
        return None
    results = [talk.record.results[job.job_id][0] for job in jobs]
    return sum(one.error is not None and one.error.code == "NODE_OVERLOADED" for one in results)


async def _one_too_many(talk: NodeTalk) -> None:
    jobs = [await talk.assign() for _ in range((talk.record.slots or 0) + 1)]
    await talk.is_answered("slots-limit", *jobs, within_s=len(jobs) * talk.play.patience_s)


async def _large_audio(talk: NodeTalk) -> None:
    wanted = LARGE_AUDIO_S * SAMPLE_RATE * 2
    audio = (talk.play.audio * (wanted // len(talk.play.audio) + 1))[:wanted]
    await talk.is_answered("large-audio", await talk.assign(talk.job(audio)), within_s=3 * talk.play.patience_s)


async def _bad_audio(talk: NodeTalk) -> None:
    bad = [talk.job(b""), talk.job(talk.play.audio[:3201])]
    if talk.play.profile is PeerProfile.STANDARD:
        bad.append(talk.job(b"\xff\xff no packet of Opus", "opus"))
    for job in bad:
        if not await talk.is_answered("bad-audio", await talk.assign(job)):
            return


async def _binary_audio(talk: NodeTalk) -> None:
    if "binary_audio" not in talk.record.features:
        talk.book.does_not_apply("binary-audio", "the node does not list binary_audio")
        return
    assert talk.line is not None
    job = await talk.assign(talk.job(b""))
    await talk.line.send_binary(talk.play.audio)
    await talk.is_answered("binary-audio", job)


async def _text_input(talk: NodeTalk) -> None:
    if "text_input" not in talk.record.features:
        talk.book.does_not_apply("text-input", "the node does not list text_input")
        return
    pipeline = JobPipeline(use_asr=False, use_nmt=True, use_tts=False, use_semantic=False, use_tone=False)
    job = replace(talk.job(b""), text_input="Good morning.", pipeline=pipeline)
    if await talk.is_answered("text-input", await talk.assign(job)):
        result = talk.record.results[job.job_id][0]
        came = "text_translated is absent" if result.success else f"error {result.error and result.error.code}"
        talk.book.judge("text-input", bool(result.text_translated), "text_translated", came)


async def _drain(talk: NodeTalk) -> None:
    if "drain" not in talk.record.features:
        talk.book.does_not_apply("drain", "the node does not list drain")
        return
    for command, accepts in (("drain", False), ("resume", True)):
        await talk.say(NodeControl(command=command))
        is_met = await talk.until(lambda wanted=accepts: _accepts(talk) is wanted)  # type: ignore[misc]
        expected = f"node_register with accept_public_jobs: {str(accepts).lower()} after {command}"
        if not talk.book.judge("drain", is_met, expected, f"accept_public_jobs: {str(_accepts(talk)).lower()}"):
            return


def _accepts(talk: NodeTalk) -> bool:
    return talk.record.registration is not None and talk.record.registration.accept_public_jobs


async def _ping(talk: NodeTalk) -> None:
    assert talk.line is not None
    job = await talk.assign()
    is_met = await talk.line.ping(talk.play.patience_s)
    talk.book.judge("ping", is_met, f"a pong within {talk.play.patience_s:g} s", "none")
    await talk.answered(job)


async def _interval(talk: NodeTalk) -> None:
    before = talk.record.heartbeats
    limit_s = talk.record.silence_limit_s
    is_met = await talk.until(lambda: talk.record.heartbeats > before, limit_s)
    talk.book.judge("heartbeat-interval", is_met, f"a heartbeat within {limit_s:.1f} s", "none")


async def _cut(talk: NodeTalk) -> None:
    """Without a close frame, and with a result that was not acknowledged."""
    assert talk.line is not None
    talk.confirms = not talk.record.asks_first
    job = await talk.assign()
    await talk.answered(job)
    talk.line.cut()
    talk.confirms = True
    if not await _comes_back(talk, "after a cut"):
        return
    if talk.record.asks_first:
        is_met = await talk.until(lambda: len(talk.record.results[job.job_id]) > 1)
        talk.book.judge("keeps-results", is_met, f"the result of {job.job_id} again", "nothing")
    await talk.line.close(1012, "conformance: restart")
    if await _comes_back(talk, "after close code 1012"):
        talk.book.passed("reconnects")


async def _comes_back(talk: NodeTalk, when: str) -> bool:
    node_id, within_s = talk.record.node_id, talk.play.reconnect_within_s
    if not await talk.meet(within_s):
        talk.book.failed("reconnects", f"a connection within {within_s:g} s {when}", "none")
        raise PeerGone("the node did not come back")
    came = talk.record.registration.node_id if talk.record.registration else None
    talk.book.judge("keeps-id", came == node_id, f"node_id {node_id} {when}", f"node_id {came}")
    return True


async def _refused(talk: NodeTalk) -> None:
    await refuse(talk)


# In this order; each is played while its check is open.
SCENES: tuple[tuple[str, Scene], ...] = (
    ("result", _result),
    ("heartbeat-fields", _heartbeat),
    ("job-ack", _job_ack),
    ("waits-for-grant", _stale),
    ("unknown-fields", _unknown_fields),
    ("unknown-types", _unknown_types),
    ("errors-survived", _errors),
    ("answers-once", _twice),
    ("cancel", _cancel),
    ("slots-used", _slots),
    ("slots-limit", _one_too_many),
    ("large-audio", _large_audio),
    ("bad-audio", _bad_audio),
    ("binary-audio", _binary_audio),
    ("text-input", _text_input),
    ("drain", _drain),
    ("ping", _ping),
    ("heartbeat-interval", _interval),
    ("reconnects", _cut),
    ("backs-off", _refused),
)
