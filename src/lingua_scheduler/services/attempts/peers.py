"""Peers: the other end of a socket, as services see it. Posting a message never blocks."""

from enum import IntEnum
from typing import Protocol

from lingua_scheduler.domain.access.principals import Denied, Principal
from lingua_sdk.domain.errors import HttpCode
from lingua_sdk.protocol.shapes import Message


class CloseCode(IntEnum):
    """Close codes. After 4003, 4004 and 4007 the peer must not come back with the same credential."""

    MISBEHAVED = 1008  # policy violation
    COME_BACK = 1012  # service restart
    TRY_LATER = 1013
    SUPERSEDED = 4001  # another connection took over
    TOO_SLOW = 4002
    UNAUTHENTICATED = 4003  # a new token was not accepted
    REVOKED = 4004  # its credential was revoked
    EXPIRED = 4005  # its token has expired: fetch a new one, and resume
    GUESSING = 4007  # it named sessions that are not its own


def code_for(denied: Denied) -> CloseCode:
    """How a connection is closed whose credential has ended."""
    return CloseCode.EXPIRED if denied.code == HttpCode.TOKEN_EXPIRED.value else CloseCode.REVOKED


class Peer(Protocol):
    # Who it is, by its credential.
    principal: Principal

    @property
    def is_open(self) -> bool:
        """Whether its socket is, as far as we know."""

    def post(self, message: Message) -> bool:
        """Hand a message to the socket; False when it is closed, or its reader is too slow."""

    def close(self, code: CloseCode, reason: str) -> None: ...

    async def answers(self, within_s: float) -> bool:
        """Whether the peer still responds."""


class ClientPeer(Peer, Protocol):
    # Where it comes from, and what the limits of its address are counted under: empty when it has none.
    address: str
    meter: str

    def post_frame(self, payload: bytes) -> bool:
        """As `post`, for a message that is encoded already."""

    def post_encoded(self, message: Message, payload: bytes) -> bool:
        """As `post`, for a message that goes to many: `payload` is what it is encoded to."""

    def ping(self, is_on: bool) -> None:
        """Whether the peer is pinged. One that is not gets text frames alone; the system finds out if it is gone."""


class NodePeer(Peer, Protocol):
    @property
    def is_heard(self) -> bool:
        """Whether anything came from it lately, be it the answer to a ping."""

    def post_frame(self, payload: bytes) -> bool:
        """As `post`, for a message that is encoded already."""
