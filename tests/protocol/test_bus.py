"""What instances tell each other, there and back; and what is none of it."""

from typing import get_args

import msgspec
import pytest

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.protocol.bus import (
    KINDS,
    AnyMessage,
    Assign,
    AttemptLost,
    CancelAttempt,
    Finished,
    ForwardedAnswer,
    ForwardedRequest,
    UnreadableLetter,
    decode,
    encode,
)

ATTEMPT = Attempt("job-0-1", 2, "n1", 3)
MESSAGES = [
    Assign(ATTEMPT, "c1", b"\x00\xff{}"),
    AttemptLost(ATTEMPT, "node_gone"),
    Finished(ATTEMPT, b"\xff" * 10),
    CancelAttempt(ATTEMPT, "cancelled"),
]
REQUESTS = [
    ForwardedRequest("r1", "i1", "POST /v1/job/done", {"job_id": "job-0-1"}, b"a=b", b"{}", "127.0.0.1"),
    ForwardedAnswer("r1", 200, b"{}", 3),
]


@pytest.mark.parametrize("message", [*MESSAGES, *REQUESTS], ids=lambda message: message.kind)
def test_a_message_arrives_as_it_was_sent(message: AnyMessage) -> None:
    assert decode(encode(message)) == message
    assert message.kind in KINDS


def test_every_message_is_tried_here() -> None:
    assert {type(message) for message in (*MESSAGES, *REQUESTS)} == set(get_args(AnyMessage))


def test_messages_of_one_job_share_a_lane() -> None:
    assert {message.lane for message in MESSAGES} == {"job-0-1"}
    assert {message.lane for message in REQUESTS} == {"r1"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"\x80",
        msgspec.msgpack.encode({"kind": "attempt_lost"}),
        msgspec.msgpack.encode({"kind": "x"}),
        b"\x82\xa4kind\xacattempt_lost\xa5depth" + b"\x91" * 5_000 + b"\x01",
        encode(AttemptLost(ATTEMPT, "??")).replace(b"??", b"\xff\xfe"),
        encode(AttemptLost(ATTEMPT._replace(shard=10_000), "x")),
        encode(AttemptLost(ATTEMPT._replace(shard=-1), "x")),
    ],
)
def test_what_is_no_message_is_said_to_be_unreadable(body: bytes) -> None:
    with pytest.raises(UnreadableLetter):
        decode(body)


def test_a_field_that_a_newer_version_adds_is_ignored() -> None:
    newer = msgspec.msgpack.encode({"kind": "attempt_lost", "attempt": ATTEMPT, "reason": "x", "mood": "good"})
    assert decode(newer) == AttemptLost(ATTEMPT, "x")


def test_a_letter_of_an_older_version_is_traced_nowhere() -> None:
    older = msgspec.msgpack.encode({"kind": "assign", "attempt": ATTEMPT, "link_id": "c1", "frame": b"{}"})
    assert decode(older) == Assign(ATTEMPT, "c1", b"{}", traceparent="")


def test_a_letter_that_is_not_traced_is_as_short_as_before() -> None:
    untraced = Assign(ATTEMPT, "c1", b"{}")
    assert b"traceparent" not in encode(untraced)
    assert decode(encode(msgspec.structs.replace(untraced, traceparent="00-1-2-01"))).traceparent == "00-1-2-01"  # type: ignore[union-attr]
