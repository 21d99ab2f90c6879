"""Messages between instances (letters), one struct each, as tagged MessagePack."""

from typing import TypeAlias, get_args

import msgspec

from lingua_scheduler.domain.access.principals import Principal
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.rooms.feeds import RoomUtterance
from lingua_scheduler.domain.rooms.history import PastLine
from lingua_sdk.domain.decoding import DECODE_ERRORS


class BusMessage(msgspec.Struct, frozen=True, tag_field="kind"):
    """`lane` names what a message is about: messages of one lane are handled in the order they were sent."""

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)

    @property
    def lane(self) -> str:
        return ""

    @property
    def carries_speech(self) -> bool:
        """Whether it contains speech or text."""
        return False


class _AboutAttempt(BusMessage, frozen=True):
    attempt: Attempt

    @property
    def lane(self) -> str:
        return self.attempt.job_id


class Assign(_AboutAttempt, frozen=True, omit_defaults=True, tag="assign"):
    """To the node's owner: write this frame to the node's socket, if it is still the same connection."""

    link_id: str
    frame: bytes
    # Of the sender's span for this attempt, while the sender is traced.
    traceparent: str = ""

    @property
    def carries_speech(self) -> bool:
        return True


class AttemptLost(_AboutAttempt, frozen=True, tag="attempt_lost"):
    reason: str


class Finished(_AboutAttempt, frozen=True, tag="finished"):
    """To the job's owner: the node's result, as it came."""

    frame: bytes

    @property
    def carries_speech(self) -> bool:
        return True


class CancelAttempt(_AboutAttempt, frozen=True, tag="cancel_attempt"):
    reason: str


class ForwardedRequest(BusMessage, frozen=True, omit_defaults=True, tag="forwarded_request"):
    """To the instance that has what an HTTP request is about: answer it. Its sender has read and checked it."""

    request_id: str
    # The instance that has it; another one may adopt the letter, and has not.
    owner: str
    # As in the OpenAPI document: "POST /v1/job/done".
    operation: str
    path: dict[str, str] = {}
    query: bytes = b""
    body: bytes = b""
    # The caller's, as the sender saw it: a node may be known by it.
    address: str = ""
    # Who asks, as the sender found out by the credential; None from an instance of an older release.
    principal: Principal | None = None

    @property
    def lane(self) -> str:
        return self.request_id

    @property
    def carries_speech(self) -> bool:
        return True


class ForwardedAnswer(BusMessage, frozen=True, omit_defaults=True, tag="forwarded_answer"):
    """To the instance that forwarded a request. Status 0: this instance does not have what it is about."""

    request_id: str
    status: int
    body: bytes = b""
    retry_after_s: int = 0

    @property
    def lane(self) -> str:
        return self.request_id

    @property
    def carries_speech(self) -> bool:
        return True


class RoomChanged(BusMessage, frozen=True, tag="room_changed"):
    """To an instance that has members of a room: look at it. It says no more, so it may come late or twice."""

    room: str

    @property
    def lane(self) -> str:
        return self.room


class RoomFrame(BusMessage, frozen=True, tag="room_frame"):
    """To the instance that has a member's socket: a WebRTC frame from another member, encoded for the receiver.

    A lost one would leave two browsers without a connection, and it has their addresses in it: so it is a letter.
    """

    room: str
    sender: str
    receiver: str
    frame: bytes

    @property
    def lane(self) -> str:
        return self.room

    @property
    def carries_speech(self) -> bool:
        """Addresses are not kept with dead letters either."""
        return True


class _InRoom(BusMessage, frozen=True):
    """A code may be another room's by now, an id is not."""

    room: str
    room_id: str

    @property
    def lane(self) -> str:
        return self.room


class RoomSpoken(_InRoom, frozen=True, tag="room_spoken"):
    """To an instance of a room: a member has ended an utterance, and its outcomes follow."""

    utterance: RoomUtterance


class RoomSaid(_InRoom, frozen=True, omit_defaults=True, tag="room_said"):
    """To an instance that has listeners of a language: the outcome of an utterance, encoded for clients."""

    utterance: RoomUtterance
    language: str
    frame: bytes
    # For this listener alone, who missed it.
    listener: str = ""

    @property
    def carries_speech(self) -> bool:
        return True


class RoomMissed(_InRoom, frozen=True, tag="room_missed"):
    """To the instances of a room: a listener came back to the sender, and has everything up to `seq`."""

    seq: int
    listener: str
    language: str


class RoomWritten(_InRoom, frozen=True, tag="room_written"):
    """To an instance that has members or guests of a room: a text message, encoded for its readers."""

    frame: bytes

    @property
    def carries_speech(self) -> bool:
        return True


class RoomPastAsked(_InRoom, frozen=True, tag="room_past_asked"):
    """To an instance that has members of a room: what was said lately? The sender has its first one."""


class RoomPastTold(_InRoom, frozen=True, tag="room_past_told"):
    """The answer."""

    lines: list[PastLine]

    @property
    def carries_speech(self) -> bool:
        return True


AnyMessage: TypeAlias = (
    RoomSpoken
    | RoomSaid
    | RoomMissed
    | RoomChanged
    | RoomFrame
    | RoomWritten
    | RoomPastAsked
    | RoomPastTold
    | Assign
    | AttemptLost
    | Finished
    | CancelAttempt
    | ForwardedRequest
    | ForwardedAnswer
)
KINDS = frozenset(str(message.__struct_config__.tag) for message in get_args(AnyMessage))

encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(AnyMessage)


class UnreadableLetter(Exception):
    """A letter of a known kind whose body is not what it should be."""


def decode(body: bytes) -> AnyMessage:
    try:
        return _decoder.decode(body)
    except DECODE_ERRORS as error:
        raise UnreadableLetter(str(error)) from None
