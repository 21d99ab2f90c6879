"""Scenario speakers: people who speak at real pace; what a chunk costs, and how soon a node has what they said."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench import children
from bench.children import LoadChild, SchedulerChild
from bench.figures import Samples
from bench.life import MAX_SLOTS, SATURATED
from bench.measure import CpuMeter, Waits, Yardstick, keep_apart, percentile, resident_mb, starved_s, within
from bench.orders import Cast, Speech, Spoken
from bench.plan import Plan
from lingua_scheduler.settings import Settings

# Speech without an end is cut after ten seconds by default, and a cut is a job.
MAX_ENDLESS_S = 8.0
WARM_UP_S = 1.0
LEAD_IN_S = 0.5
# A load process that is later than this with its own chunks is late with what it hears, too.
LATE_MS = 5.0
# The machine is judged in spans of this length: a job takes a few milliseconds.
SPAN_S = 0.1
# Fewer jobs in quiet moments have no 99th percentile.
FEWEST_QUIET = 200
# A scheduler that waits for a core for more than this share of the time shows it in its latency.
STARVED = 0.1
END_ALL = Speech()


class Variant(NamedTuple):
    name: str
    is_binary: bool
    has_ends: bool


VARIANTS = (
    Variant("JSON", is_binary=False, has_ends=True),
    Variant("binary", is_binary=True, has_ends=True),
    Variant("JSON, chunks alone", is_binary=False, has_ends=False),
    Variant("binary, chunks alone", is_binary=True, has_ends=False),
)


async def measure(plan: Plan, samples: Samples, folder: Path, tell: Callable[[str], None]) -> None:
    """Variants take turns, so that a slow moment of the machine hits all of them."""
    yardstick = Yardstick()
    async with (
        children.scheduler(folder, LINGUA_SESSIONS_USE_BINARY_FRAME="true") as scheduler,
        children.speakers(
            Cast(port=scheduler.port, talkers=plan.speakers, nodes=plan.nodes, slots=MAX_SLOTS)
        ) as speakers,
        yardstick.ticking(),
    ):
        keep_apart(scheduler.pids, (scheduler.redis_pid, speakers.pid))
        # Those who end do everything that the others do.
        for variant in (variant for variant in VARIANTS if variant.has_ends):
            await speakers.carry_out(speech_of(variant, min(WARM_UP_S, plan.phase_s / 2)))
            await speakers.carry_out(END_ALL)
        for _ in range(plan.repeats):
            for variant in VARIANTS:
                await _sample(variant, plan, samples, scheduler, speakers, yardstick)
                tell(f"speakers: {variant.name}")


def speech_of(variant: Variant, seconds: float) -> Speech:
    return Speech(
        seconds=seconds if variant.has_ends else min(seconds, MAX_ENDLESS_S),
        is_binary=variant.is_binary,
        has_ends=variant.has_ends,
    )


async def _sample(
    variant: Variant,
    plan: Plan,
    samples: Samples,
    scheduler: SchedulerChild,
    speakers: LoadChild[Spoken],
    yardstick: Yardstick,
) -> None:
    """From the midst of it: what everybody begins and ends with is left out."""
    await speakers.carry_out(speech_of(variant, min(LEAD_IN_S, plan.phase_s / 4)))
    yardstick.slowdown()
    starved_before = starved_s(scheduler.pids[0])
    meter = CpuMeter({"scheduler": scheduler.pids[0], "redis": scheduler.redis_pid})
    async with Waits(scheduler.pids, SPAN_S).running() as waits:
        spoken = await speakers.carry_out(speech_of(variant, plan.phase_s))
    spent_s, slowdown = meter.spent_s(), yardstick.slowdown()
    starved_after = starved_s(scheduler.pids[0])
    rest = await speakers.carry_out(END_ALL)
    name = f"speakers/{variant.name}/"
    for who, cpu_s in (*spent_s.items(), ("load", spoken.cpu_s)):
        samples.add_cpu(f"{name}{who} CPU", "µs/chunk", cpu_s / spoken.chunks * 1e6, slowdown)
    busy = spent_s["scheduler"] / spoken.took_s
    samples.add(f"{name}of a core", "%", busy * 100)
    if starved_before is not None and starved_after is not None:
        starved = (starved_after - starved_before) / spoken.took_s
        samples.add(f"{name}without a core", "%", starved * 100)
        if starved > STARVED:
            samples.note("The scheduler was ready to run and got no core for part of “speakers”: latency says little.")
    if busy > SATURATED:
        samples.note(f"The scheduler was at its limit in “{variant.name}”: fewer speakers would wait less.")
    samples.add(f"{name}scheduler memory", "MB", resident_mb(scheduler.pids[0]))
    samples.add(f"{name}redis memory", "MB", resident_mb(scheduler.redis_pid))
    _report(name, spoken, samples)
    _report_quiet(name, spoken, waits, samples)
    for part in (spoken, rest):
        _judge(variant.name, part, samples)


def _report(name: str, spoken: Spoken, samples: Samples) -> None:
    samples.add(f"{name}chunks", "1/s", spoken.chunks / spoken.took_s)
    # A final flag is a manual cut.
    hangover_ms = Settings().sessions.hangover_manual_ms
    for what, times_ms in (("job_assign", spoken.assigned_ms), ("result", spoken.answered_ms)):
        for share, time_ms in zip(("p50", "p99"), times_ms or (), strict=False):
            samples.add(f"{name}final to {what} {share}", "ms", time_ms - hangover_ms)
    if spoken.utterances:
        samples.add(f"{name}utterance", "chunks", spoken.chunks / spoken.utterances)
        samples.add(f"{name}refused", "%", spoken.refused / spoken.utterances * 100)
    samples.add(f"{name}load late p99", "ms", spoken.late_ms)


def _report_quiet(name: str, spoken: Spoken, waits: Waits, samples: Samples) -> None:
    """What the scheduler itself takes, whatever else runs on this machine."""
    if not spoken.assignments:
        return
    times_ms = sorted(within(waits.quiet(), spoken.assignments))
    samples.add(f"{name}jobs in quiet moments", "%", len(times_ms) / len(spoken.assignments) * 100)
    if len(times_ms) >= FEWEST_QUIET:
        beyond_ms = percentile(times_ms, 0.99) - Settings().sessions.hangover_manual_ms
        samples.add(f"{name}final to job_assign p99 quiet", "ms", beyond_ms)


def _judge(name: str, spoken: Spoken, samples: Samples) -> None:
    if spoken.late_ms > LATE_MS or spoken.cpu_s / spoken.took_s > SATURATED:
        samples.note(
            f"The load process of “{name}” was more than {LATE_MS:g} ms late itself (p99): latency there says little."
        )
    if spoken.again:
        samples.note(f"{spoken.again} jobs of “{name}” went to a second node: an attempt was lost.")
    if spoken.refused:
        samples.note(f"{spoken.refused} utterances of “{name}” got no result; the first: {spoken.complaint}")
