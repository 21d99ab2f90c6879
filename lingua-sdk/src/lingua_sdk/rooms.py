"""A client in a room: speaks, writes, and hears the others in its own language."""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from lingua_sdk.protocol.session import (
    MAX_ROOM_TEXT_CHARS,
    RoomClose,
    RoomLeave,
    RoomLock,
    RoomRemove,
    RoomSay,
    RoomUpdate,
)
from lingua_sdk.protocol.shapes import Message
from lingua_sdk.room_events import (
    Caption,
    Ended,
    MembersChanged,
    Rejected,
    RoomEvent,
    RoomPerson,
    RoomReading,
    Speaking,
    TextMessage,
)

# Unread events. When it is full, captions and who speaks are dropped, the latest list of members replaces the one
# before, and all others wait in the connection.
MAX_UNREAD = 1_000
# How long the answer to a verb is waited for.
ANSWER_S = 15.0


class RoomFailed(Exception):
    """It could not be done in the room; the message says why."""


class RoomRefused(RoomFailed):
    """The scheduler refused it. `code` is one of docs/rooms.md, such as ROOM_NOT_FOUND or PERMISSION_DENIED."""

    def __init__(self, code: str, told: str) -> None:
        super().__init__(f"{code}: {told}")
        self.code = code


class Speech(NamedTuple):
    """How the client of a room speaks."""

    utterance: Callable[[bytes, str], Awaitable[int]]
    send: Callable[[bytes], Awaitable[None]]
    final: Callable[[], Awaitable[None]]
    stream: Callable[[AsyncIterable[bytes]], Awaitable[None]]


class Room:
    """`async for event in room:`, until the room ends or it is left. Verbs raise RoomRefused and RoomFailed.

    When the connection breaks, the client comes back into the room by itself, and each utterance is told once. All
    outcomes come from the room while the client is in it; `client.results()` has none of them.
    """

    def __init__(
        self,
        code: str,
        room_id: str,
        reading: RoomReading,
        speech: Speech | None,
        post: Callable[[Message], Awaitable[None]],
    ) -> None:
        self.code = code
        self.room_id = room_id
        self.is_over = False
        self.reading = reading
        # None: a guest.
        self._speech = speech
        self._post = post
        self._unread: deque[RoomEvent] = deque()
        self._news = asyncio.Condition()
        self._failure: Exception | None = None
        # Refusals name no request, so one is made at a time.
        self._turn = asyncio.Lock()
        self._asked: tuple[Callable[[RoomEvent], bool], asyncio.Future[None]] | None = None

    @property
    def members(self) -> tuple[RoomPerson, ...]:
        """Everyone who is here now, in the order they joined."""
        return self.reading.members

    def __aiter__(self) -> AsyncIterator[RoomEvent]:
        return self

    async def __anext__(self) -> RoomEvent:
        async with self._news:
            await self._news.wait_for(lambda: self._unread or self.is_over)
            if self._unread:
                event = self._unread.popleft()
                self._news.notify_all()
                return event
        if self._failure is not None:
            raise self._failure
        raise StopAsyncIteration

    # Speaking

    async def say(self, audio: bytes, *, audio_format: str = "pcm16") -> int:
        """A whole utterance at once; its number is returned. Waits while too many others have no outcome yet."""
        return await self._speaker().utterance(audio, audio_format)

    async def send(self, audio: bytes) -> None:
        """A stretch of audio, as `client.send`."""
        await self._speaker().send(audio)

    async def final(self) -> None:
        """The sentence has ended."""
        await self._speaker().final()

    async def stream(self, chunks: AsyncIterable[bytes]) -> None:
        """Send chunks as they come, such as those of a microphone; an empty one says that a sentence has ended."""
        await self._speaker().stream(chunks)

    # Verbs

    async def write(self, text: str) -> None:
        """A text message to everyone in the room."""
        if not text.strip() or len(text) > MAX_ROOM_TEXT_CHARS:
            raise RoomFailed(f"a message has 1 to {MAX_ROOM_TEXT_CHARS} characters, not {len(text.strip())}")
        own = self.reading.own
        await self._ask(
            RoomSay(room_code=self.code, text=text),
            lambda event: isinstance(event, TextMessage) and event.speaker == own,
        )

    async def update(
        self,
        *,
        language: str | None = None,
        name: str | None = None,
        src_lang: str | None = None,
        speech: bool | None = None,
    ) -> None:
        """Change in which language you read and hear the others, your name, which language you speak, and whether you
        want translations as speech; what is not named stays."""
        message = RoomUpdate(
            room_code=self.code, display_name=name, preferred_lang=language, src_lang=src_lang, speech=speech
        )
        if self._speech is None:
            # Guests are not listed, so there is nothing to wait for; a refusal is an event.
            await self._post(message)
        else:
            await self._ask(message, lambda event: isinstance(event, MembersChanged))

    async def lock(self, *, locked: bool = True) -> None:
        """Of the host: let no one else join, or let them again."""
        await self._ask(
            RoomLock(room_code=self.code, locked=locked),
            lambda event: isinstance(event, MembersChanged) and event.is_locked == locked,
        )

    async def remove(self, session_id: str) -> None:
        """Of the host: send a member away."""
        await self._ask(
            RoomRemove(room_code=self.code, target_session_id=session_id),
            lambda event: (
                isinstance(event, MembersChanged) and session_id not in {one.session_id for one in event.members}
            ),
        )

    async def close(self) -> None:
        """Of the host: end the room for all."""
        await self._ask(RoomClose(room_code=self.code), lambda event: isinstance(event, Ended))

    async def leave(self) -> None:
        """What is not read yet can still be read; the session goes on outside of the room."""
        if not self.is_over:
            await self._post(RoomLeave(room_code=self.code))
            await self.end()

    # For the client

    async def hear(self, event: RoomEvent) -> None:
        if self._asked is not None and self._asked[0](event) and not self._asked[1].done():
            self._asked[1].set_result(None)
        async with self._news:
            if not await self._has_place(event):
                return
            self._unread.append(event)
            self._news.notify_all()
        if isinstance(event, Ended):
            await self.end()

    async def refuse(self, code: str, told: str) -> None:
        if self._asked is not None and not self._asked[1].done():
            self._asked[1].set_exception(RoomRefused(code, told))
        else:
            await self.hear(Rejected(code, told))

    async def end(self, failure: Exception | None = None) -> None:
        async with self._news:
            self._failure = self._failure or failure
            self.is_over = True
            self._news.notify_all()
        if self._asked is not None and not self._asked[1].done():
            self._asked[1].set_exception(failure or RoomFailed("the room has ended; create or join another one"))

    async def _has_place(self, event: RoomEvent) -> bool:
        """Whether it is to be appended."""
        if len(self._unread) < MAX_UNREAD:
            return True
        if isinstance(event, Caption | Speaking):
            return False
        if isinstance(event, MembersChanged):
            for place in range(len(self._unread) - 1, -1, -1):
                if isinstance(self._unread[place], MembersChanged):
                    self._unread[place] = event
                    return False
        await self._news.wait_for(lambda: len(self._unread) < MAX_UNREAD or self.is_over)
        return not self.is_over

    def _speaker(self) -> Speech:
        self._must_be_open()
        if self._speech is None:
            raise RoomFailed("a guest listens only; join without listen_only to speak")
        return self._speech

    def _must_be_open(self) -> None:
        if self.is_over:
            raise self._failure or RoomFailed("the room has ended; create or join another one")

    async def _ask(self, message: Message, is_done: Callable[[RoomEvent], bool]) -> None:
        async with self._turn:
            self._must_be_open()
            answer = asyncio.get_running_loop().create_future()
            self._asked = (is_done, answer)
            try:
                await self._post(message)
                async with asyncio.timeout(ANSWER_S):
                    await answer
            except TimeoutError:
                raise RoomFailed(f"the scheduler did not answer within {ANSWER_S:.0f} s; try again") from None
            finally:
                self._asked = None
