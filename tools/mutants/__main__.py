"""`make mutants`: breaks the source in small ways, one at a time, and says which faults no test notices.

python -m tools.mutants --seed 1 --sample 100 --only services
"""

import json
import random
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import monotonic

import click

from tools.mutants import report
from tools.mutants.choosing import SOURCE, Reach, chosen
from tools.mutants.faults import Fault, is_fault, python_faults
from tools.mutants.lua_faults import lua_faults
from tools.mutants.running import Copy, Judged, Verdict

ROOT = Path(__file__).parents[2]
TRACES = ROOT / ".mutants"
LAYERS = ("domain", "protocol", "store", "services", "gateway", "lua")
# What is recorded, each by itself. Tests that start processes of their own or last long are no help here.
TRACED = {
    "core": ("tests/domain", "tests/protocol", "tests/store"),
    "services": ("tests/services", "tests/gateway"),
    "edges": ("tests/console",),
    "e2e": tuple(
        f"tests/e2e/test_{name}.py"
        for name in (
            *("first_path", "jobs", "sessions", "node_failures", "requests", "resume", "lost_sessions", "moving"),
            *("bad_input", "bad_nodes", "carrying_on", "lost_data", "rebuilt_ledger", "refused_writes", "hard_days"),
            *("wide_nodes", "watching", "existing_nodes", "wire", "clock_jumps", "metrics", "traces"),
            *("rooms", "room_guests", "room_messages", "room_speech"),
        )
    ),
}
# A busy machine is this much slower than when the tests were recorded, and starting takes its time.
PATIENCE, START_S = 4.0, 60.0


def all_faults(layers: tuple[str, ...]) -> Iterator[Fault]:
    for path in sorted((ROOT / SOURCE).rglob("*")):
        if path.suffix not in (".py", ".lua"):
            continue
        name, source = str(path.relative_to(ROOT)), path.read_text("utf-8")
        found = python_faults(name, source) if path.suffix == ".py" else lua_faults(name, source)
        yield from (fault for fault in found if report.layer(fault) in layers)


@click.command()
@click.option("--seed", type=int, help="Draws the sample; the same seed and source give the same. Default: random.")
@click.option("--sample", default=100, show_default=True, help="Faults to try.")
@click.option("--only", multiple=True, type=click.Choice(LAYERS), help="Faults in this layer alone.")
@click.option("--file", "files", multiple=True, help="Faults in files whose path contains this.")
@click.option("--minutes", type=float, help="Stop after this time with what was tried.")
@click.option("--trace", multiple=True, type=click.Choice(sorted(TRACED)), help="First record which test reaches what.")
@click.option("--again", type=click.Path(exists=True, path_type=Path), help="What this report (--json) has as missed.")
@click.option("--through", default="nice -n 10", show_default=True, help="Command in front of each run of pytest.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON; progress goes to standard error.")
def main(
    seed: int | None,
    sample: int,
    only: tuple[str, ...],
    files: tuple[str, ...],
    minutes: float | None,
    trace: tuple[str, ...],
    again: Path | None,
    through: str,
    as_json: bool,
) -> None:
    """Exit codes: 0 done, 2 bad options. What is missed is for people to judge."""
    seed = random.randrange(1_000_000) if seed is None else seed
    found = [fault for fault in all_faults(only or LAYERS) if not files or any(part in fault.path for part in files)]
    if again is not None:
        report_before = json.loads(again.read_text("utf-8"))
        seed = report_before["seed"]
        wanted = {one["name"] for one in report_before["faults"] if one["verdict"] != Verdict.NOTICED}
        drawn = [fault for fault in found if fault.name in wanted]
        click.echo(f"{len(wanted) - len(drawn)} of {len(wanted)} are gone: the source changed", err=True)
    else:
        random.Random(seed).shuffle(found)
        drawn = list(islice(filter(_is_fault, found), sample))
    click.echo(f"seed {seed}: {len(drawn)} of {len(found)} faults", err=True)
    stop_at_s = monotonic() + (minutes or float("inf")) * 60
    with tempfile.TemporaryDirectory(prefix="lingua-mutants-") as temporary:
        copy = Copy(ROOT, Path(temporary), through)
        TRACES.mkdir(exist_ok=True)
        for name in trace:
            click.echo(f"recording {name}: {copy.trace(TRACED[name], TRACES / f'{name}.json')}", err=True)
        reach = Reach.read(TRACES)
        if not reach:
            click.echo("nothing is recorded (--trace services --trace e2e …): tests are chosen by name", err=True)
        try:
            judged = list(_try(drawn, copy, reach, stop_at_s))
        finally:
            copy.close()
        if as_json:
            click.echo(json.dumps(report.as_json(seed, judged, ROOT), indent=1))
        else:
            for line in (*report.missed(judged, ROOT), "", f"seed {seed}", *report.table(judged)):
                click.echo(line)


def _is_fault(fault: Fault) -> bool:
    return fault.path.endswith(".lua") or is_fault(fault, (ROOT / fault.path).read_text("utf-8"))


def _try(faults: list[Fault], copy: Copy, reach: Reach, stop_at_s: float) -> Iterator[Judged]:
    known = copy.known_tests()
    for number, fault in enumerate(faults, 1):
        if monotonic() > stop_at_s:
            return
        tests = [test for test in chosen(fault, copy.root, reach, known) if "::" not in test or test in known]
        judged = copy.judge(fault, tests, START_S + PATIENCE * sum(map(reach.seconds, tests)))
        click.echo(report.progress(number, len(faults), judged), err=True)
        yield judged


if __name__ == "__main__":
    main()
