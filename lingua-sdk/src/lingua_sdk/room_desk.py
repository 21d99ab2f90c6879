"""What a client has to do with rooms: it enters one, and what comes of it is taken out of the session's messages."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import get_args

from lingua_sdk.protocol.session import (
    AsrPartial,
    MissingResult,
    RoomCaption,
    RoomCreate,
    RoomCreateAck,
    RoomError,
    RoomExpired,
    RoomHistory,
    RoomJoin,
    RoomMembers,
    RoomMessage,
    RoomSpeaking,
    SessionOutgoing,
    TranslationResult,
    UiEvent,
    WebrtcFrame,
)
from lingua_sdk.protocol.shapes import ErrorMessage, Message
from lingua_sdk.room_events import Ended, RoomReading, in_english
from lingua_sdk.rooms import ANSWER_S, Room, RoomFailed, RoomRefused, Speech

# At the end of a client, for a connection that takes nothing any more.
LEAVE_S = 2.0
_OF_VOICES = get_args(WebrtcFrame)


class RoomDesk:
    """`is_news` of an own outcome: whether it has not come before."""

    def __init__(
        self, speech: Speech, post: Callable[[Message], Awaitable[None]], is_news: Callable[[int], bool]
    ) -> None:
        self._speech = speech
        self._post = post
        self._is_news = is_news
        self._room: Room | None = None
        self._entering: asyncio.Future[Room] | None = None
        self._is_guest = False
        # An ordinary error follows a refusal, for clients that show only that.
        self._echo: tuple[str, str] | None = None
        self.session_id = ""

    @property
    def last_seq(self) -> int | None:
        """For a resume: everything of the room up to this number has arrived."""
        return None if self._room is None else self._room.reading.seqs.last

    async def enter(self, message: RoomCreate | RoomJoin) -> Room:
        """Raises RoomRefused and RoomFailed."""
        if self._entering is not None:
            raise RoomFailed("another room is being entered; wait until that has ended")
        self._is_guest = isinstance(message, RoomJoin) and message.listen_only is True
        self._entering = asyncio.get_running_loop().create_future()
        try:
            await self._post(message)
            async with asyncio.timeout(ANSWER_S):
                return await self._entering
        except TimeoutError:
            raise RoomFailed(f"the scheduler did not answer within {ANSWER_S:.0f} s; try again") from None
        finally:
            self._entering = None

    async def take(self, message: SessionOutgoing) -> bool:
        """Whether it was about rooms; all others are the session's."""
        match message:
            case RoomCreateAck():
                await self._enter(message)
            case RoomError():
                await self._refuse(message)
            case ErrorMessage():
                is_echo, self._echo = (message.code, message.message) == self._echo, None
                return is_echo
            case TranslationResult() | MissingResult():
                return await self._take_outcome(message)
            case AsrPartial() | UiEvent():
                return await self._take_step(message)
            case _:
                return await self._take_event(message)
        return True

    async def leave(self) -> None:
        """The client ends: without this the others would see it in the room until its session expires."""
        if self._room is not None and not self._room.is_over:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await self._room.leave()

    async def over(self, failure: Exception | None) -> None:
        """The session has ended."""
        if self._room is not None:
            await self._room.end(failure)
        if self._entering is not None and not self._entering.done():
            self._entering.set_exception(failure or RoomFailed("the session ended before the room was entered"))

    async def _enter(self, ack: RoomCreateAck) -> None:
        if self._room is not None and self._room.room_id == ack.room_id and not self._room.is_over:
            # A guest that came back is told again that it is in its room.
            return
        if self._room is not None:
            await self._room.end()
        reading = RoomReading(self.session_id)
        if ack.room_seq is not None:
            reading.seqs.begin(ack.room_seq)
        speech = None if self._is_guest else self._speech
        self._room = Room(ack.room_code, ack.room_id, reading, speech, self._post)
        if self._entering is not None and not self._entering.done():
            self._entering.set_result(self._room)

    async def _refuse(self, message: RoomError) -> None:
        self._echo = (message.code, message.message)
        if self._entering is not None and not self._entering.done():
            self._entering.set_exception(RoomRefused(message.code, in_english(message.message)))
        elif self._room is not None and not self._room.is_over:
            await self._room.refuse(message.code, in_english(message.message))

    async def _take_outcome(self, message: TranslationResult | MissingResult) -> bool:
        is_own = message.session_id == self.session_id
        if self._room is None or self._room.is_over:
            # What others said while we left is not for us any more.
            return not is_own
        if is_own and not self._is_news(message.utterance_index):
            return True
        event = self._room.reading.read(message)
        if event is not None:
            await self._room.hear(event)
        return True

    async def _take_step(self, message: AsrPartial | UiEvent) -> bool:
        """How an own utterance gets on: the outcome says what is needed of it."""
        if self._room is None or self._room.is_over:
            return False
        if isinstance(message, AsrPartial):
            await self._room.hear(self._room.reading.partial(message))
        return True

    async def _take_event(self, message: SessionOutgoing) -> bool:
        match message:
            case RoomMembers() | RoomCaption() | RoomSpeaking() | RoomMessage() | RoomHistory() | RoomExpired():
                await self._tell(message)
            case _:
                return isinstance(message, _OF_VOICES)
        return True

    async def _tell(
        self, message: RoomMembers | RoomCaption | RoomSpeaking | RoomMessage | RoomHistory | RoomExpired
    ) -> None:
        if isinstance(message, RoomMembers) and self._entering is not None and not self._is_in(message.room_code):
            # The connection broke before the acknowledgement came, and the session was resumed in the room.
            await self._enter(RoomCreateAck(room_code=message.room_code, room_id=""))
        room = self._room
        if room is None or not self._is_in(message.room_code):
            return
        if isinstance(message, RoomExpired):
            await room.hear(Ended(in_english(message.message)))
        elif (event := room.reading.read(message)) is not None:
            await room.hear(event)

    def _is_in(self, code: str) -> bool:
        return self._room is not None and self._room.code == code and not self._room.is_over
