"""What instances tell each other, there and back; and what is none of it."""

import base64
import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.rooms.feeds import RoomUtterance
from lingua_scheduler.domain.rooms.history import PastLine
from lingua_scheduler.protocol.bus import (
    KINDS,
    AnyMessage,
    Assign,
    AttemptLost,
    CancelAttempt,
    Finished,
    ForwardedAnswer,
    ForwardedRequest,
    RoomChanged,
    RoomFrame,
    RoomMissed,
    RoomPastAsked,
    RoomPastTold,
    RoomSaid,
    RoomSpoken,
    RoomWritten,
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
ROOM = "default:483920"
SPOKEN = RoomUtterance(7, "s-1", 3, "en", ("zh", "pt"))
ROOMS = [
    RoomChanged(ROOM),
    RoomFrame(ROOM, "s-1", "s-2", b"{}"),
    RoomSpoken(ROOM, "id", SPOKEN),
    RoomSaid(ROOM, "id", SPOKEN, "zh", b"{}", "s-2"),
    RoomMissed(ROOM, "id", 6, "s-2", "zh"),
    RoomWritten(ROOM, "7f3a", b"{}"),
    RoomPastAsked(ROOM, "7f3a"),
    RoomPastTold(
        ROOM, "7f3a", [PastLine(session_id="s-1", at_ms=1, text="a", lang="zh", seq=3, translations={"en": "b"})]
    ),
]
REQUESTS = [
    ForwardedRequest("r1", "i1", "POST /v1/job/done", {"job_id": "job-0-1"}, b"a=b", b"{}", "127.0.0.1"),
    ForwardedAnswer("r1", 200, b"{}", 3),
]


@pytest.mark.parametrize("message", [*MESSAGES, *ROOMS, *REQUESTS], ids=lambda message: message.kind)
def test_a_message_arrives_as_it_was_sent(message: AnyMessage) -> None:
    assert decode(encode(message)) == message
    assert message.kind in KINDS


def test_every_message_is_tried_here() -> None:
    assert {type(message) for message in (*MESSAGES, *ROOMS, *REQUESTS)} == set(get_args(AnyMessage))


def test_messages_of_one_job_share_a_lane() -> None:
    assert {message.lane for message in MESSAGES} == {"job-0-1"}
    assert {message.lane for message in REQUESTS} == {"r1"}
    assert {message.lane for message in ROOMS} == {ROOM}


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


# Two releases on one Redis

# As the release before rooms sent them.
OLDER = [
    base64.b64decode(json.loads(line)["body"])
    for line in (Path(__file__).parent / "frames" / "letters.older.jsonl").read_text().splitlines()
]


def has_all(newer: Any, older: Any) -> bool:
    """Whether a reader that knows only what is in `older` finds all of it, unchanged."""
    if isinstance(older, dict):
        return all(name in newer and has_all(newer[name], value) for name, value in older.items())
    return bool(newer == older)


@pytest.mark.parametrize("body", OLDER, ids=lambda body: decode(body).kind)
def test_letters_of_the_release_before_are_read_and_ours_have_all_that_it_reads(body: bytes) -> None:
    older, newer = msgspec.msgpack.decode(body), msgspec.msgpack.decode(encode(decode(body)))
    assert has_all(newer, older)
    assert decode(msgspec.msgpack.encode(older | {"of_a_later_release": [1]})) == decode(body)


def test_every_message_that_the_release_before_knew_was_recorded() -> None:
    rooms = {message.kind for message in ROOMS}
    assert {decode(body).kind for body in OLDER} == KINDS - rooms
