"""What came of a run: a table for people, JSON for machines."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.chaos.checker import PROBLEMS, excused_share
from tools.chaos.run import NODE_PROCESSES, Report

SHOWN_A_KIND = 8


def repeat(report: Report) -> str:
    order = report.order
    more = " --cluster" if order.is_cluster else ""
    more += f" --node-processes {order.node_processes}" if order.node_processes != NODE_PROCESSES else ""
    more += f" --pace {order.pace:g}" if order.pace != 1 else ""
    more += "".join(f" --only {what}" for what in order.only)
    more += "".join(f" --set {change}" for change in order.settings)
    return f'make chaos ARGS="--minutes {order.minutes:g} --seed {order.seed} --sessions {order.sessions}{more}"'


def show(report: Report, console: Console) -> None:
    verdict = report.verdict
    faults = Table("fault", "times", title="What went wrong on purpose", title_justify="left")
    for what, times in sorted(Counter(fault.what for fault in report.happened).items()):
        faults.add_row(what, str(times))
    console.print(faults)
    if not report.can_jump:
        console.print("No C compiler here: Redis's clock did not jump.")
    figures = Table("figure", "", title="What came of it", title_justify="left")
    for name, value in verdict.figures.items():
        figures.add_row(name, str(value))
    figures.add_row("time in which missing results are excused", f"{_excused(report):.0%}")
    figures.add_row("looks at the ledger", str(report.looks))
    figures.add_row("largest instance, MB", f"{max(report.largest_mb.values(), default=0):.0f}")
    figures.add_row("processors busy", f"{report.busy_share:.0%}")
    console.print(figures)
    problems = Table("", "meaning", "count", title="Verdict", title_justify="left")
    for kind, meaning in PROBLEMS.items():
        count = verdict.count(kind)
        problems.add_row(kind, meaning, str(count), style="red" if count else "green")
    console.print(problems)
    shown: Counter[str] = Counter()
    for problem in verdict.problems:
        shown[problem.kind] += 1
        if shown[problem.kind] <= SHOWN_A_KIND:
            at = f"{problem.at_s - report.began_s:.1f} s" if problem.at_s else "end"
            console.print(f"{problem.kind:12} {at:>9}  {problem.words}", markup=False, highlight=False, soft_wrap=True)
    word = "GOOD: every invariant held" if verdict.is_good else f"BAD: {len(verdict.problems)} problems"
    console.print(f"\n{word}. Seed {report.order.seed}; repeat with: {repeat(report)}", highlight=False, soft_wrap=True)


def _excused(report: Report) -> float:
    return excused_share(report.happened, report.began_s, report.began_s + report.order.minutes * 60)


def write(report: Report, path: Path) -> None:
    verdict = report.verdict
    told: dict[str, Any] = {
        "good": verdict.is_good,
        "repeat": repeat(report),
        "order": report.order._asdict(),
        "took_s": round(report.took_s, 1),
        "busy_share": round(report.busy_share, 3),
        "excused_share": round(_excused(report), 3),
        "clock_jumps": report.can_jump,
        "figures": verdict.figures,
        "counts": {kind: verdict.count(kind) for kind in PROBLEMS},
        "largest_mb": report.largest_mb,
        "plan": [fault._asdict() for fault in report.plan],
        "happened": [
            fault._asdict() | {"began_s": fault.began_s - report.began_s, "ended_s": fault.ended_s - report.began_s}
            for fault in report.happened
        ],
        "problems": [
            problem._asdict() | {"at_s": problem.at_s - report.began_s if problem.at_s else None}
            for problem in verdict.problems
        ],
    }
    path.write_text(json.dumps(told, indent=1))
