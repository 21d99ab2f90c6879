"""The socket of a node at whose other end nobody reads."""

from lingua_scheduler.domain.access.principals import LOCAL, Principal
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_sdk.protocol.shapes import Message


class Wall:
    """It must not be closed."""

    is_heard = True
    principal: Principal = LOCAL
    is_open = True

    def post(self, _message: Message) -> bool:
        return True

    def post_frame(self, _payload: bytes) -> bool:
        return True

    def close(self, code: CloseCode, reason: str) -> None:
        raise AssertionError((code, reason))

    async def answers(self, _within_s: float) -> bool:
        return True
