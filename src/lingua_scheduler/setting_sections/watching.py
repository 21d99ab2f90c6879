"""Settings of what operators look at: snapshots, scaling and logs."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from lingua_scheduler.setting_sections.kinds import DAY_MS, Count, LookMs, PeriodMs, doc

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "json", "console"]
_WindowMs = Annotated[int, Meta(ge=1_000, le=DAY_MS)]
_Headroom = Annotated[float, Meta(ge=0, le=10)]
_WatchersMax = Annotated[int, Meta(ge=0, le=10_000)]
_PairsMax = Annotated[int, Meta(ge=0, le=10_000)]


class WatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    interval_ms: Annotated[LookMs, doc("Interval of the snapshot that dashboard, gauges and alarms are made of")] = 5000
    watched_interval_ms: Annotated[LookMs, doc("The same interval while a dashboard or terminal is open")] = 1000
    slow_ms: Annotated[
        PeriodMs, doc("A job that takes longer counts as slow; an alarm is raised when one in twenty does")
    ] = 5000
    max_watchers: Annotated[_WatchersMax, doc("Maximum open watch streams; further ones are refused")] = 200
    max_watchers_per_address: Annotated[
        Count, doc("Maximum open watch streams per address; `server.unmetered_addresses` are exempt")
    ] = 50
    max_pairs: Annotated[
        _PairsMax, doc("Maximum language pairs with gauges of their own; the rest are summed under `other`")
    ] = 200


class ScalingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How many slots GET /v1/scaling asks for."""

    window_ms: Annotated[_WindowMs, doc("Time over which arrivals and the time of jobs are averaged")] = 30_000
    hold_ms: Annotated[
        _WindowMs, doc("Time for which the highest load counts before fewer slots are wanted; more are at once")
    ] = 300_000
    headroom: Annotated[
        _Headroom, doc("Slots beyond the load, in square roots of the load: with 1.5 about one job in ten waits")
    ] = 1.5


class LogsSettings(msgspec.Struct, frozen=True, kw_only=True):
    level: Annotated[LogLevel, doc("Minimum severity of events that are logged")] = "info"
    format: Annotated[LogFormat, doc("Log format; auto = console on a terminal, else json")] = "auto"
    storm_lines: Annotated[
        Count, doc("Maximum log lines per event and 10 s; further ones are suppressed and counted")
    ] = 100
