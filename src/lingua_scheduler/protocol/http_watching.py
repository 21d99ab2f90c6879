"""What HTTP tells those who watch: pictures, curves, events, and the figures that older pages poll."""

from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.watching.picture import Event, Moment


class History(msgspec.Struct, frozen=True, kw_only=True):
    # Of the last half hour, oldest first.
    moments: list[Moment]


class Events(msgspec.Struct, frozen=True, kw_only=True):
    # The newest first.
    events: list[Event]


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
