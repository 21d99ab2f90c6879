"""Pictures of the fleet as a scheduler streams them: what a message says, and following it for as long as one likes."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from lingua_scheduler.domain.watching.following import Change, OutOfStep, Seen, Whole
from lingua_scheduler.domain.watching.picture import Event
from lingua_sdk.access import Token
from lingua_sdk.http import Unreadable
from lingua_sdk.watching import BeginAgain, Connected, Interrupted, StreamMessage, messages


class SomeEvents(msgspec.Struct, frozen=True):
    """The message to a watcher of events only."""

    events: list[Event]


def understood(message: StreamMessage) -> Whole | Change | SomeEvents | None:
    """None: of a kind that a newer scheduler may send."""
    kinds: dict[str, type[Whole | Change | SomeEvents]] = {"picture": Whole, "change": Change, "events": SomeEvents}
    kind = kinds.get(message.event)
    try:
        return None if kind is None else msgspec.json.decode(message.body, type=kind)
    except msgspec.DecodeError as error:
        raise Unreadable(f"unreadable {message.event}: {error}") from None


async def watch(
    address: str, seen: Seen | None = None, *, only_events: bool = False, token: Token = None
) -> AsyncGenerator[Connected | StreamMessage | Interrupted, None]:
    """For ever, or until AccessDenied; `seen` is kept up to date."""

    def hear(message: StreamMessage) -> None:
        told = understood(message)
        if seen is not None and isinstance(told, Whole | Change):
            try:
                seen.hear(told)
            except OutOfStep as error:
                raise BeginAgain(str(error)) from None

    async with aclosing(messages(address, hear, only_events=only_events, token=token)) as stream:
        async for one in stream:
            yield one
