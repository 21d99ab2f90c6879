"""The figures of a sample: noticed, missed and doubtful in each layer, and the missed faults as diffs."""

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.mutants.choosing import SOURCE
from tools.mutants.faults import Fault
from tools.mutants.running import Judged, Verdict


def layer(fault: Fault) -> str:
    inside = Path(fault.path).relative_to(SOURCE)
    return "lua" if inside.suffix == ".lua" else inside.parts[0]


def diff(fault: Fault, root: Path) -> str:
    source = (root / fault.path).read_text("utf-8")
    lines = difflib.unified_diff(source.splitlines(), fault.put_into(source).splitlines(), n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def progress(number: int, count: int, judged: Judged) -> str:
    where = str(Path(judged.fault.path).relative_to(SOURCE))
    told = f"[{number}/{count}] {judged.verdict:8} {where}:{judged.fault.line} {judged.fault.kind}"
    return f"{told}  {judged.by or f'{judged.tests} tests'}  ({judged.took_s:.0f} s)"


def table(judged: Sequence[Judged]) -> Iterator[str]:
    counts = Counter((layer(one.fault), one.verdict) for one in judged)
    yield f"{'layer':10} {'faults':>7} {'noticed':>8} {'missed':>7} {'doubtful':>9} {'noticed of all':>15}"
    names = sorted({name for name, _ in counts})
    for name in (*names, *(["all"] if len(names) > 1 else [])):
        noticed, missed, doubtful = (
            sum(count for (found, one), count in counts.items() if one is verdict and name in (found, "all"))
            for verdict in (Verdict.NOTICED, Verdict.MISSED, Verdict.DOUBTFUL)
        )
        count = noticed + missed + doubtful
        yield f"{name:10} {count:7} {noticed:8} {missed:7} {doubtful:9} {noticed / count:15.0%}"


def missed(judged: Sequence[Judged], root: Path) -> Iterator[str]:
    for one in judged:
        if one.verdict is not Verdict.NOTICED:
            tried = one.by or f"{one.tests} tests"
            yield f"\n{one.verdict}: {one.fault.path}:{one.fault.line} {one.fault.kind} ({tried})"
            yield diff(one.fault, root)


def as_json(seed: int, judged: Sequence[Judged], root: Path) -> dict[str, Any]:
    return {
        "seed": seed,
        "faults": [
            {
                "name": one.fault.name,
                "layer": layer(one.fault),
                "verdict": one.verdict,
                "by": one.by,
                "tests": one.tests,
                "took_s": round(one.took_s, 1),
                "diff": diff(one.fault, root),
            }
            for one in judged
        ],
    }
