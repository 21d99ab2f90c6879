"""Which tests would notice a fault: those of its own module first, then those that reach its line, cheapest first."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from hashlib import sha256
from pathlib import Path

from tools.mutants.faults import Fault

SOURCE = Path("src/lingua_scheduler")
SCRIPTS = SOURCE / "store" / "lua"
# Seconds of tests, as they took when nothing was broken, that one fault is worth.
ENOUGH_S = 25.0
QUICK_S = 6.0
# Without a trace: what a change of anything would be tried with.
QUICK_PATHS = ("tests/e2e/test_first_path.py", "tests/e2e/test_jobs.py", "tests/e2e/test_requests.py")


class Reach:
    """The tests that reach each line, as `--trace` recorded them."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._reach: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._hashes: dict[str, str] = {}

    @classmethod
    def read(cls, folder: Path) -> "Reach":
        reach = cls()
        for path in sorted(folder.glob("*.json")):
            reach._add(json.loads(path.read_text("utf-8")))
        return reach

    def _add(self, recorded: dict[str, object]) -> None:
        tests: list[tuple[str, float]] = recorded["tests"]  # type: ignore[assignment]
        lines: dict[str, dict[str, list[int]]] = recorded["lines"]  # type: ignore[assignment]
        hashes: dict[str, str] = recorded["hashes"]  # type: ignore[assignment]
        self._hashes |= hashes
        self._seconds.update(tests)
        for path, reached in lines.items():
            for line, numbers in reached.items():
                self._reach[path][int(line)] |= {tests[number][0] for number in numbers}

    def __bool__(self) -> bool:
        return bool(self._seconds)

    def knows(self, path: str) -> bool:
        return path in self._reach

    def has(self, test: str) -> bool:
        return test in self._seconds

    def seconds(self, test: str) -> float:
        return self._seconds.get(test, 1.0)

    def reaching(self, path: str, line: int, source: str) -> set[str]:
        """A file that changed since has other line numbers: then all tests that reach any of it."""
        reached = self._reach.get(path, {})
        if self._hashes.get(path) != digest(source):
            return set().union(*reached.values())
        # Only some lines of a statement count as reached, usually its first.
        before = max((one for one in reached if one <= line), default=0)
        # What runs when a module is imported was run before the first test.
        return reached[before] if before else set().union(*reached.values())


def digest(source: str) -> str:
    return sha256(source.encode()).hexdigest()[:16]


def mirror(path: str) -> Path:
    """src/lingua_scheduler/services/dispatch/placing.py -> tests/services/dispatch/test_placing.py"""
    inside = Path(path).relative_to(SOURCE)
    return Path("tests") / inside.parent / f"test_{inside.stem}.py"


def chosen(fault: Fault, root: Path, reach: Reach, known: Collection[str] = ()) -> list[str]:
    """Arguments for pytest, in the order in which they are to run; `known` are the tests that there are."""
    source = (root / fault.path).read_text("utf-8")
    if fault.path.endswith(".lua"):
        own = _tests_naming(_scripts_with(Path(fault.path), root), root)
        reaching = {test for path, line in _callers(fault, root) for test in _reaching(reach, path, line, root)}
    else:
        own = [mirror(fault.path)] if (root / mirror(fault.path)).exists() else []
        reaching = reach.reaching(fault.path, fault.line, source)
    if not reach.knows(fault.path) and not reaching:
        folder = mirror(fault.path).parent if fault.path.endswith(".py") else Path("tests/store")
        return [*map(str, own), *([str(folder)] if (root / folder).exists() else []), *QUICK_PATHS]
    return [*_own(own, reaching, reach, known), *_worth(reaching, own, fault.path, reach)]


def _own(files: list[Path], reaching: set[str], reach: Reach, known: Collection[str]) -> list[str]:
    """The module's own tests: those that reach the line, cheapest first, and those that were not recorded."""
    names = tuple(f"{path}::" for path in files)
    recorded = sorted((test for test in reaching if test.startswith(names)), key=reach.seconds)
    return [*recorded, *(test for test in sorted(known) if test.startswith(names) and not reach.has(test))]


def _worth(reaching: Iterable[str], own: list[Path], path: str, reach: Reach) -> list[str]:
    files = {str(one) for one in own}
    folder = "tests/" + Path(path).relative_to(SOURCE).parts[0]
    others = (test for test in reaching if test.partition("::")[0] not in files)
    ranked = sorted(others, key=lambda test: (not test.startswith(folder), reach.seconds(test), test))
    taken, spent = [], 0.0
    for test in ranked:
        cost = reach.seconds(test)
        if cost <= QUICK_S and spent + cost <= ENOUGH_S:
            taken.append(test)
            spent += cost
    return taken


def _scripts_with(path: Path, root: Path) -> list[str]:
    """The script itself, or the scripts that include it."""
    if path.parent.name != "lib":
        return [path.stem]
    include = re.compile(rf"^-- include:.*\b{path.stem}\b", re.MULTILINE)
    including = [one for one in (root / SCRIPTS).rglob("*.lua") if include.search(one.read_text("utf-8"))]
    return sorted(name for one in including for name in _scripts_with(one.relative_to(root), root))


def _tests_naming(scripts: list[str], root: Path) -> list[Path]:
    words = re.compile("|".join(rf'"{name}"' for name in scripts) or r"(?!)")
    paths = sorted((root / "tests" / "store").rglob("test_*.py"))
    return [path.relative_to(root) for path in paths if words.search(path.read_text("utf-8"))]


def _callers(fault: Fault, root: Path) -> list[tuple[str, int]]:
    """Lines of the store that run the script."""
    words = re.compile("|".join(rf'"{name}"' for name in _scripts_with(Path(fault.path), root)) or r"(?!)")
    return [
        (str(path.relative_to(root)), number)
        for path in sorted((root / SOURCE / "store").rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if words.search(line)
    ]


def _reaching(reach: Reach, path: str, line: int, root: Path) -> set[str]:
    return reach.reaching(path, line, (root / path).read_text("utf-8"))
