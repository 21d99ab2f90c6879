"""The other end of a socket, as services see it: something that takes messages without making us wait."""

from enum import IntEnum
from typing import Protocol

from lingua_scheduler.protocol.shapes import Message


class CloseCode(IntEnum):
    """Why we close a socket; all of them mean that the peer may come back."""

    COME_BACK = 1012  # service restart
    TRY_LATER = 1013
    SUPERSEDED = 4001  # another connection took over
    TOO_SLOW = 4002


class Peer(Protocol):
    def post(self, message: Message) -> bool:
        """Hand a message to the socket; False when it is closed, or its reader is too slow."""

    def close(self, code: CloseCode, reason: str) -> None: ...

    async def answers(self, within_s: float) -> bool:
        """Whether there is still somebody at the other end of the socket."""


class NodePeer(Peer, Protocol):
    def post_frame(self, payload: bytes) -> bool:
        """As `post`, for a message that is encoded already."""
