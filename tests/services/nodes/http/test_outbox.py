"""A mailbox: bounded, withdrawn from, emptied by one poll at a time, closed once."""

import asyncio

from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.nodes.http.outbox import Mailbox, weight
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.node import JobAssign, JobCancel, JobGrant, NodeControl, ResultAck
from lingua_sdk.protocol.shapes import ErrorMessage, JobPipeline


def order(job_id: str, audio: bytes = b"", audio_ref: str | None = None) -> JobAssign:
    pipeline = JobPipeline(use_asr=True, use_nmt=True, use_tts=True, use_semantic=True, use_tone=False)
    return JobAssign(
        job_id=job_id,
        attempt_id=1,
        session_id="s-1",
        utterance_index=0,
        src_lang="en",
        tgt_lang="zh",
        pipeline=pipeline,
        audio=audio,
        audio_format="pcm16",
        sample_rate=16_000,
        enable_streaming_asr=False,
        partial_update_interval_ms=0,
        trace_id="t",
        turn_id="u",
        audio_ref=audio_ref,
    )


async def test_mail_is_taken_in_order_and_once() -> None:
    box = Mailbox(1_000_000)
    mail = [order("job-0-1"), JobCancel(job_id="job-0-9"), NodeControl(command="reload"), order("job-0-2")]
    assert all(box.post(message) for message in mail)
    assert box.take() == mail
    assert box.take() == []


async def test_an_encoded_message_is_mail_like_any_other_and_what_cannot_be_read_is_none() -> None:
    """Orders from other instances come encoded."""
    box = Mailbox(1_000_000)
    assert box.post_frame(codec.encode(order("job-0-1")))
    assert [message.job_id for message in box.take() if isinstance(message, JobAssign)] == ["job-0-1"]
    assert not box.post_frame(b'{"type":"unheard of"}')
    assert len(box) == 0


async def test_what_the_request_itself_answers_takes_no_room() -> None:
    box = Mailbox(1_000_000)
    assert box.post(JobGrant(job_id="job-0-1", attempt_id=1, verdict="granted"))
    assert box.post(ResultAck(job_id="job-0-1", attempt_id=1))
    assert not box.post(ErrorMessage(code="X", message="nobody reads this"))
    assert len(box) == 0


async def test_a_full_box_refuses_until_it_is_emptied() -> None:
    large = order("job-0-1", b"x" * 30_000)
    box = Mailbox(2 * weight(large))
    assert box.post(large)
    assert box.post(order("job-0-2", b"x" * 30_000))
    assert not box.post(order("job-0-3"))
    box.take()
    assert box.post(order("job-0-3"))


async def test_what_is_being_carried_still_takes_its_room() -> None:
    large = order("job-0-1", b"x" * 30_000)
    box = Mailbox(weight(large))
    box.post(large)
    (taken,) = box.take()
    box.hold(taken)
    assert not box.post(order("job-0-2"))
    box.let_go(taken)
    assert box.post(order("job-0-2"))


async def test_a_cancel_withdraws_an_order_nobody_fetched_and_its_weight() -> None:
    large = order("job-0-1", b"x" * 30_000)
    box = Mailbox(weight(large))
    box.post(large)
    assert box.post(JobCancel(job_id="job-0-1"))
    assert len(box) == 0
    assert box.post(large)


async def test_waiting_ends_with_mail_with_time_and_with_the_box() -> None:
    box = Mailbox(1_000_000)
    async with asyncio.timeout(50):
        await box.wait(0.01)
        waiting = asyncio.create_task(box.wait(60))
        await asyncio.sleep(0)
        box.post(order("job-0-1"))
        await waiting
        await box.wait(60)
        box.take()
        waiting = asyncio.create_task(box.wait(60))
        await asyncio.sleep(0)
        box.close(CloseCode.COME_BACK, "")
        await waiting
        await box.wait(60)


async def test_a_closed_box_takes_nothing_and_says_so_once() -> None:
    box = Mailbox(1_000_000)
    closed: list[bool] = []
    box.closed = lambda: closed.append(True)
    box.interval_s = 60
    box.post(order("job-0-1"))
    assert await box.answers(0)
    box.close(CloseCode.SUPERSEDED, "")
    box.close(CloseCode.COME_BACK, "")
    assert box.close_code is CloseCode.SUPERSEDED
    assert closed == [True]
    assert not box.post(order("job-0-2"))
    assert not await box.answers(0)
    # For the connection that takes over.
    assert box.take() == [order("job-0-1")]


async def test_who_did_not_call_within_its_interval_does_not_answer() -> None:
    box = Mailbox(1_000_000)
    assert not await box.answers(0)
    box.interval_s = 60
    assert await box.answers(0)


async def test_what_a_node_says_by_itself_is_the_only_sign_of_it() -> None:
    assert not Mailbox(1_000_000).is_heard
