"""Bodies for monitoring: pictures, time series and events."""

from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.watching.handling import MAX_SILENCE_MS, AlarmAction
from lingua_scheduler.domain.watching.picture import Alarm, Event, Moment

HOUR_MS = 3_600_000
MAX_BY_CHARS = 64
MAX_PAIRS_CHARS = 600


class History(msgspec.Struct, frozen=True, kw_only=True):
    # Of the last half hour, oldest first.
    moments: list[Moment]


class Events(msgspec.Struct, frozen=True, kw_only=True):
    # The newest first.
    events: list[Event]


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class ScalingQuery(msgspec.Struct, frozen=True, kw_only=True):
    # src:tgt, several with commas between them; empty: all.
    pair: Annotated[str, Meta(max_length=MAX_PAIRS_CHARS, examples=["en:zh,zh:en"])] = ""


class AlarmList(msgspec.Struct, frozen=True, kw_only=True):
    # What hurts people most first; those that are silenced last, those that were forgotten not at all.
    alarms: list[Alarm]


class AlarmChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do about an alarm."""

    # `code`, or `code/subject`: pair.lost/en:ko. A code alone silences all its subjects.
    alarm: Annotated[str, Meta(min_length=1, max_length=300, examples=["pair.lost/en:ko"])]
    action: AlarmAction
    # How long it is silenced, with `silence` alone.
    for_ms: Annotated[int, Meta(ge=1_000, le=MAX_SILENCE_MS)] = HOUR_MS
    # Who does this, as others are shown it.
    by: Annotated[str, Meta(max_length=MAX_BY_CHARS)] = ""


class AlarmHandled(msgspec.Struct, frozen=True, kw_only=True):
    alarm: str
    action: AlarmAction
