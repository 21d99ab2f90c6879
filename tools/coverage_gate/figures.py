"""Coverage per package: figures from coverage's JSON report, the table, and the judgement by floors."""

import math
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FLOORS = Path(__file__).parent / "floors.toml"
_LISTED_FILES = 10
_ROW = "{:<15}{:>9}{:>12}{:>14}   {}"


class Figure(NamedTuple):
    """How much was run, of a file or of a package."""

    lines: int
    lines_run: int
    branches: int
    branches_taken: int

    @property
    def lines_percent(self) -> float:
        return _percent(self.lines_run, self.lines)

    @property
    def branches_percent(self) -> float:
        return _percent(self.branches_taken, self.branches)

    @property
    def percent(self) -> float:
        return _percent(self.lines_run + self.branches_taken, self.lines + self.branches)


class Floor(NamedTuple):
    """The least percentages that a package may have."""

    lines: float
    branches: float


Files = Mapping[str, Figure]


def read_floors(path: Path = FLOORS) -> dict[str, Floor]:
    return {package: Floor(**floor) for package, floor in tomllib.loads(path.read_text("utf-8")).items()}


def by_package(report: Mapping[str, Any], source: Path, sdk: Path | None = None) -> dict[str, Files]:
    """The files of each package and module directly in `source`, and of all in `sdk`, from coverage's JSON report."""
    packages: dict[str, dict[str, Figure]] = defaultdict(dict)
    for path, file in report["files"].items():
        place = _place(Path(path).resolve(), source, sdk)
        summary = file["summary"]
        figure = Figure(
            summary["num_statements"], summary["covered_lines"], summary["num_branches"], summary["covered_branches"]
        )
        if figure.lines:  # an empty __init__.py has nothing to run
            packages[place.parts[0].removesuffix(".py")][place.as_posix()] = figure
    return dict(packages)


def _place(path: Path, source: Path, sdk: Path | None) -> Path:
    """Of a file, in its package."""
    if sdk is not None and path.is_relative_to(sdk):
        return Path("sdk") / path.relative_to(sdk)
    return path.relative_to(source)


def total(files: Files) -> Figure:
    return Figure(*(sum(column) for column in zip(*files.values(), strict=True)))


def table(packages: Mapping[str, Files], floors: Mapping[str, Floor], *, is_judged: bool) -> str:
    """One row per package, in the order of the floors."""
    rows = [_ROW.format("coverage", "lines %", "branches %", "floors", "verdict")]
    for package in [*filter(packages.__contains__, floors), *sorted(packages.keys() - floors)]:
        figure = total(packages[package])
        floor = floors.get(package)
        verdict = "not judged"
        if is_judged:
            verdict = "no floor" if floor is None else "below" if list(_below(figure, floor)) else "ok"
        limits = f"{floor.lines:g} / {floor.branches:g}" if floor else "-"
        rows.append(
            _ROW.format(package, _shown(figure.lines_percent), _shown(figure.branches_percent), limits, verdict)
        )
    return "\n".join(rows)


def judge(packages: Mapping[str, Files], floors: Mapping[str, Floor]) -> list[str]:
    """What is wrong, one paragraph each: a package below its floor, or one without a floor, or a floor without one."""
    wrong = []
    for package, files in packages.items():
        if package not in floors:
            wrong.append(f"Coverage of {package} has no floor: add one to tools/coverage_gate/{FLOORS.name}.")
            continue
        for kind, percent, floor in _below(total(files), floors[package]):
            wrong.append(
                f"Coverage of {package} is below its floor: {_shown(percent)} % of its {kind} were run, "
                f"the floor is {floor:g} %. Test what is missing; its least covered files:\n{_least_covered(files)}"
            )
    for package in sorted(floors.keys() - packages.keys()):
        wrong.append(f"There is no {package} to cover: remove its floor from tools/coverage_gate/{FLOORS.name}.")
    return wrong


def _below(figure: Figure, floor: Floor) -> Iterator[tuple[str, float, float]]:
    if figure.lines_percent < floor.lines:
        yield "lines", figure.lines_percent, floor.lines
    if figure.branches_percent < floor.branches:
        yield "branches", figure.branches_percent, floor.branches


def _least_covered(files: Files) -> str:
    worst = sorted(files, key=lambda place: (files[place].percent, place))[:_LISTED_FILES]
    return "\n".join(
        f"  {place}: {_shown(files[place].lines_percent)} % of {files[place].lines} lines, "
        f"{_shown(files[place].branches_percent)} % of {files[place].branches} branches"
        for place in worst
    )


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 100.0


def _shown(percent: float) -> str:
    """Rounded down, so that a figure below its floor never looks as if it had reached it."""
    return f"{math.floor(percent * 10) / 10:.1f}"
