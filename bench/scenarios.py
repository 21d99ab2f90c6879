"""All scenarios, and one run of them."""

import os
import platform
import sysconfig
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench import fleet, languages, life, limits, saturation, soak, speakers
from bench.figures import OTHERS_SHARE, Run, Samples
from bench.measure import machine_busy_s
from bench.plan import Plan
from bench.queues import scenario as peers
from lingua_scheduler.store.servers.embedded import find_allocator, find_binary, read_version

Tell = Callable[[str], None]

NOT_OPTIMISED = "not optimised"


class Scenario(NamedTuple):
    title: str
    about: str
    measure: Callable[[Plan, Samples, Path, Tell], Awaitable[None]]
    # Whether a run has it that asks for nothing in particular.
    is_usual: bool = True


SCENARIOS = {
    "life": Scenario(
        "The life of a job",
        "`utterance` in → `job_assign` → (`job_ack` → `job_grant`) → `job_result` → `translation_result` out. The"
        " result carries as much speech as came in. Small is 640 bytes.",
        life.measure,
    ),
    "speakers": Scenario(
        "Live speakers",
        "Sessions send 200 ms of Opus at a time (packets of 40 to 110 bytes), as JSON or binary frames: utterances of 1"
        " to 4 s that end with a final flag, pauses of 0.6 to 3 s. CPU of “JSON” and “binary” is all that was done, the"
        " jobs too; in “chunks alone” everybody speaks and nobody ends. Times are beyond the hangover, from the moment"
        " the final chunk left.",
        speakers.measure,
    ),
    "saturation": Scenario(
        "Saturation and recovery",
        "Nodes with 4 slots that take 100 ms (± 20 %) a job. Capacity is what they do with twice as many utterances"
        " under way as slots; then comes half of that, twice that, and half again, without a pause. Latency and"
        " refusals are of what was due in a phase. Normal again: from then on, for three seconds at least, p99 of every"
        " second was within 1.5 × of what it was in the middle one of the seconds before, and nothing was refused.",
        saturation.measure,
    ),
    "redis": Scenario(
        "Limit: bare Redis",
        "The same two scripts on the same fleet, 64 in a pipeline, called through the store with nothing above it.",
        limits.measure_redis,
    ),
    "echo": Scenario(
        "Limit: a bare echo server",
        "aiohttp sends back frames as long as the scheduler's. A job without acknowledgement is two frames in and two"
        " out: two echoes are the floor of its socket work.",
        limits.measure_echo,
    ),
    "fleet": Scenario(
        "Size of the fleet",
        "Nodes with four pairs each, written through the store. A miss asks for a pair nobody serves; a map read is"
        " what the scheduler does, at most every 100 ms, before it believes a miss.",
        fleet.measure,
    ),
    "languages": Scenario(
        "Very many languages",
        f"{languages.NODES} nodes with 2 languages and as many with 99, each kind with a scheduler and a Redis of its"
        " own, taking turns. Registration: from `node_register` to its acknowledgement. Every heartbeat names all"
        " languages again. Dispatch: from the frame that ends an utterance to `job_assign`, one job at a time."
        " Dashboard: the first message, and the one after it. Memory: by how much the nodes made each process larger.",
        languages.measure,
    ),
    "soak": Scenario(
        "Soak",
        "Small jobs at half of what the scheduler can do (or at `--rate`) for a long time (`--minutes`). Memory counts"
        " after three minutes, or a tenth of the time if that is more. Jobs can be looked up for a minute instead of an"
        " hour, so that Redis levels out too. At first and at last: the median of the first and of the last tenth of"
        " the time that counts. Utterances without a result are errors, and counted by what the client was told.",
        soak.measure,
        is_usual=False,
    ),
    "peers": Scenario(
        "Beside other job queues",
        "The whole life of a job that does nothing, until its caller knows. For each queue, CPU of its client, its"
        " worker and its Redis; for us, of the scheduler, of Redis, and of clients and nodes together (“load”). Our"
        " jobs carry 640 bytes of audio each way, theirs a number. Everybody has 512 under way; once more, for what it"
        " shows, we have one a session.",
        peers.measure,
        is_usual=False,
    ),
}
USUAL = tuple(name for name, scenario in SCENARIOS.items() if scenario.is_usual)


async def run(names: Sequence[str], plan: Plan, tell: Tell) -> Run:
    """Measure; every process and folder this needs is gone afterwards, however it ends."""
    samples = Samples()
    started_at = datetime.now(UTC)
    began_s, busy_s = time.monotonic(), machine_busy_s()
    own_s = _own_cpu_s()
    with tempfile.TemporaryDirectory(prefix="lingua-bench-") as folder:
        for name in names:
            (Path(folder) / name).mkdir()
            await SCENARIOS[name].measure(plan, samples, Path(folder) / name, tell)
    took_s = time.monotonic() - began_s
    if busy_s is not None:
        others = ((machine_busy_s() or busy_s) - busy_s - (_own_cpu_s() - own_s)) / took_s
        if others > OTHERS_SHARE:
            samples.note(
                f"Other programs used {others:.0%} of a core meanwhile: jobs/s and latency say little, and CPU is high."
            )
    machine = _machine()
    if machine["python_build"] == NOT_OPTIMISED:
        samples.note("This Python was built without PGO and LTO: CPU and latency are higher than on the usual builds.")
    return Run(
        started_at=started_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        took_s=round(took_s, 1),
        slowdown=round(samples.slowdown, 3),
        machine=machine,
        plan=msgspec.json.decode(msgspec.json.encode(plan)),
        figures=samples.figures(),
        notes=list(samples.notes),
    )


def _own_cpu_s() -> float:
    """Ours, our children's, and theirs: all have ended, and been waited for, when a run is over."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _machine() -> dict[str, object]:
    server = find_binary("")
    return {
        "version": version("lingua-scheduler"),
        "python": platform.python_version(),
        "python_build": build(sysconfig.get_config_vars()),
        "redis": read_version(server),
        "redis_allocator": Path(find_allocator(server)).name or "of the C library",
        "aiohttp": version("aiohttp"),
        "uvloop": version("uvloop"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def build(variables: Mapping[str, object]) -> str:
    """How the interpreter was compiled, by the variables of its build."""
    told = " ".join(
        str(variables.get(name, "")) for name in ("CONFIG_ARGS", "PY_CFLAGS", "PY_LDFLAGS", "PY_CORE_CFLAGS")
    )
    by_profile = "--enable-optimizations" in told or "-fprofile-use" in told or "-fprofile-instr-use" in told
    at_link = "--with-lto" in told or "-flto" in told
    if by_profile or at_link:
        return " and ".join([*(["PGO"] if by_profile else []), *(["LTO"] if at_link else [])])
    # Distributions that optimise in steps of their own remove such flags from the record.
    return NOT_OPTIMISED if variables.get("PGO_PROF_USE_FLAG") else "not told"


def _processor() -> str:
    """As its maker calls it, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
