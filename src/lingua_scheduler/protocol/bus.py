"""What instances tell each other: one struct a message, as MessagePack with a tag."""

from typing import TypeAlias

import msgspec

from lingua_scheduler.domain.jobs.attempts import Attempt


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
        """Whether somebody's speech or words are in it."""
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


AnyMessage: TypeAlias = Assign | AttemptLost | Finished | CancelAttempt
KINDS = frozenset(str(message.__struct_config__.tag) for message in (Assign, AttemptLost, Finished, CancelAttempt))

encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(AnyMessage)


class Unreadable(Exception):
    """A letter of a known kind whose body is not what it should be."""


def decode(body: bytes) -> AnyMessage:
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise Unreadable(str(error)) from None
