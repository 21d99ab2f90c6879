"""Where the time of an utterance went, as reported to the client."""

from lingua_scheduler.telemetry import metrics
from lingua_sdk.protocol.node import JobResult
from lingua_sdk.protocol.shapes import NetworkTimings, Number, ServiceTimings

_STAGES = {f"{stage}_ms": metrics.STAGE_SECONDS.labels(stage) for stage in ("asr", "nmt", "tts")}
# What a node says beyond this is not believed: one such number would spoil a sum for ever.
MAX_STAGE_MS = 600_000
_NO_TIMINGS = ServiceTimings()
_NUMBERS = int, float


def measure_stages(result: JobResult) -> None:
    """Observe the stage durations that the node reports, if any."""
    said = (result.extra or {}).get("service_timings")
    if isinstance(said, dict):
        for name, stage in _STAGES.items():
            took_ms = _number(said.get(name))
            if took_ms is not None and 0 <= took_ms <= MAX_STAGE_MS:
                stage.observe(took_ms / 1000)


def service_timings(result: JobResult) -> ServiceTimings | None:
    """Per stage as the node says, in `extra.service_timings`; the whole as it says beside it."""
    said = (result.extra or {}).get("service_timings")
    total_ms = result.processing_time_ms
    if not isinstance(said, dict):
        return None if total_ms is None else ServiceTimings(total_ms=total_ms)
    if total_ms is None:
        total_ms = _number(said.get("total_ms"))
    timings = ServiceTimings(
        asr_ms=_number(said.get("asr_ms")),
        nmt_ms=_number(said.get("nmt_ms")),
        tts_ms=_number(said.get("tts_ms")),
        total_ms=total_ms,
    )
    return None if timings == _NO_TIMINGS else timings


def network_timings(
    uplink_ms: int | None, away_ms: float, result: JobResult, wall_now_ms: float
) -> NetworkTimings | None:
    """What the node did not spend working was spent on the way. Its clock only says how that divides, if it can."""
    on_the_way_ms = to_node_ms = back_ms = None
    if result.processing_time_ms is not None:
        on_the_way_ms = max(0, int(away_ms - result.processing_time_ms))
        back_ms = on_the_way_ms // 2
        if result.node_completed_at_ms is not None:
            said_ms = int(wall_now_ms - result.node_completed_at_ms)
            back_ms = said_ms if 0 <= said_ms <= on_the_way_ms else back_ms
        to_node_ms = on_the_way_ms - back_ms
    if uplink_ms is None and on_the_way_ms is None:
        return None
    return NetworkTimings(web_to_scheduler_ms=uplink_ms, scheduler_to_node_ms=to_node_ms, node_to_scheduler_ms=back_ms)


def _number(value: object) -> Number | None:
    return value if isinstance(value, _NUMBERS) and not isinstance(value, bool) else None
