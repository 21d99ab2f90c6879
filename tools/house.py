"""Checks of structure that no linter has: `python -m tools.house`, part of `make check`.

Every exception stands in tools/house_exceptions.toml with its reason; one that is no longer needed is a fault too.
"""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import grimp

from tools import house_prose

ROOT = Path(__file__).parent.parent
PACKAGE = "lingua_scheduler"
SDK = "lingua_sdk"

MAX_PARAMETERS = 5
MAX_COMPLEXITY = 10
MAX_LINES = 300
MAX_LUA_LINES = 80
# What decides by the time takes it from the clock that is handed in.
TIMED = ("services", "store")
CLOCKS = frozenset(
    f"{name}{unit}"
    for name in ("monotonic", "perf_counter", "process_time", "thread_time", "time")
    for unit in ("", "_ns")
)
NO_REASON = re.compile(r"# noqa(: *[A-Z]+\d+(, *[A-Z]+\d+)*)? *$")
TASK_MAKERS = ("create_task", "ensure_future")
# Where tasks are made for others; and programs and libraries that end theirs in the function that started them.
PARENTS = ("telemetry/tasks.py", "cli/", "engines/", "sdk/")


class Fault(NamedTuple):
    """A rule that is broken somewhere; `place` is what an exception names."""

    rule: str
    place: str
    message: str


class Tree(NamedTuple):
    """The project as the checks see it; tests plant their violations in one of their own."""

    source: Path
    tests: Path
    package: str = PACKAGE
    docs: Path | None = None

    def shown(self, place: str) -> str:
        """How exceptions name it: what is in the SDK begins with `sdk/`."""
        is_path = "/" in place or ".py" in place
        return f"sdk/{place}" if self.package == SDK and is_path else place

    def modules(self) -> Iterator[tuple[str, Path]]:
        for path in sorted(self.source.rglob("*.py")):
            yield path.relative_to(self.source).as_posix(), path


def constructors(tree: Tree) -> Iterator[Fault]:
    """A constructor takes at most five parameters: more is two objects. The clock, which many take, does not count."""
    for place, path in tree.modules():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield from _constructor(place, node)


def _constructor(place: str, owner: ast.ClassDef) -> Iterator[Fault]:
    for node in owner.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            count = sum(one.arg != "clock" for one in given) - 1
            if count > MAX_PARAMETERS:
                message = f"{owner.name} takes {count} parameters, {MAX_PARAMETERS} are allowed: make it two objects"
                yield Fault("constructor", f"{place}:{owner.name}", message)


def class_names(*trees: Tree) -> Iterator[Fault]:
    """One name for one idea: a public class name occurs once in the source, that of the SDK included."""
    homes: dict[str, list[str]] = defaultdict(list)
    for tree in trees:
        for place, path in tree.modules():
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes[node.name].append(tree.shown(place))
    for name, places in sorted(homes.items()):
        if len(places) > 1:
            yield Fault("class_name", name, f"{name} is the name of {len(places)} classes: {', '.join(places)}")


def lengths(tree: Tree) -> Iterator[Fault]:
    """A file that grows owns too much."""
    for place, path in tree.modules():
        lines = len(path.read_text("utf-8").splitlines())
        if lines > MAX_LINES:
            yield Fault("length", place, f"{lines} lines, {MAX_LINES} are allowed")
    for path in sorted(tree.source.rglob("*.lua")):
        lines, place = len(path.read_text("utf-8").splitlines()), path.relative_to(tree.source).as_posix()
        if lines > MAX_LUA_LINES:
            yield Fault("length", place, f"{lines} lines, {MAX_LUA_LINES} are allowed for a script")


def complexity(tree: Tree) -> Iterator[Fault]:
    """As ruff counts it (C901), whatever is ignored elsewhere."""
    command = [
        *(sys.executable, "-m", "ruff", "check", "--isolated", "--ignore-noqa", "--no-cache", "--select", "C901"),
        *("--config", f"lint.mccabe.max-complexity={MAX_COMPLEXITY}", "--output-format", "json", str(tree.source)),
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    for one in json.loads(found.stdout):
        place = Path(one["filename"]).resolve().relative_to(tree.source.resolve()).as_posix()
        name = one["message"].split("`")[1]
        yield Fault("complexity", f"{place}:{name}", one["message"])


def cycles(tree: Tree) -> Iterator[Fault]:
    """No module imports itself by way of others, not even for types alone."""
    graph = grimp.build_graph(tree.package, cache_dir=None)
    order = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    for ring in _rings(order):
        names = sorted(name.removeprefix(f"{tree.package}.") for name in ring)
        yield Fault("cycle", names[0], f"these import each other: {', '.join(names)}")


def _rings(imports: Mapping[str, set[str]]) -> list[set[str]]:
    """Groups of more than one module that reach each other (Tarjan's algorithm, without recursion)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    on_stack: dict[str, None] = {}
    found: list[set[str]] = []
    for root in sorted(imports):
        if root in index:
            continue
        work = [(root, iter(sorted(imports[root])))]
        index[root] = lowest[root] = len(index)
        on_stack[root] = None
        while work:
            module, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[module])
                if lowest[module] == index[module]:
                    ring = set()
                    while module not in ring:
                        ring.add(on_stack.popitem()[0])
                    if len(ring) > 1:
                        found.append(ring)
            elif following not in index:
                index[following] = lowest[following] = len(index)
                on_stack[following] = None
                work.append((following, iter(sorted(imports[following]))))
            elif following in on_stack:
                lowest[module] = min(lowest[module], index[following])
    return found


def mirror(tree: Tree) -> Iterator[Fault]:
    """Every module has its own test, where the tree says: src/…/a/b.py ↔ tests/a/test_b.py."""
    for place, path in tree.modules():
        if path.name.startswith("__") or not _has_logic(path):
            continue
        mirrored = tree.tests / Path(place).parent / f"test_{path.name}"
        if not mirrored.exists():
            yield Fault("mirror", place, f"no {mirrored.relative_to(tree.tests.parent).as_posix()}")


def _has_logic(path: Path) -> bool:
    """Whether there is anything to test: declarations alone are tested by those who use them."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return any(isinstance(node, functions) and not _is_declaration(node) for node in nodes)


def _is_declaration(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A method of a protocol: a docstring, `...`, or both."""
    return all(isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) for line in function.body)


def prose(tree: Tree) -> Iterator[Fault]:
    """Plain technical English: no words that hide who does what."""
    found = list(house_prose.phrases(tree.source, house_prose.SOURCE))
    if tree.docs is not None:
        found += house_prose.phrases(tree.docs, house_prose.PAGES)
        for page in sorted(tree.docs.parent.glob("*.md")):
            found += [(page.name, phrase) for phrase in house_prose.markdown(page.read_text("utf-8"))]
    for place, phrase in found:
        message = f'line {phrase.line}: "{phrase.words}"; name who or what is meant: a node, the caller, no instance'
        yield Fault("prose", place, message)


def clocks(tree: Tree) -> Iterator[Fault]:
    """Services and the store read the clock that is handed in, and no other: a test can move that one."""
    for place, path in tree.modules():
        read = sorted(set(_clocks_read(path))) if place.startswith(tuple(f"{name}/" for name in TIMED)) else []
        if read:
            yield Fault("clock", place, f"reads {', '.join(read)}: take a Clock (clock.py) in the constructor")


def _clocks_read(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.ImportFrom(module="time", names=names):
                yield from (f"time.{one.name}" for one in names if one.name in CLOCKS)
            case ast.Attribute(attr=name, value=of) if name in CLOCKS or (name in ("now", "utcnow") and _is_date(of)):
                yield f"{ast.unparse(of)}.{name}"
            case ast.Call(func=ast.Name(id="SYSTEM_CLOCK")):
                yield "SYSTEM_CLOCK"


def _is_date(node: ast.expr) -> bool:
    return ast.unparse(node).endswith("datetime")


def tasks(tree: Tree) -> Iterator[Fault]:
    """Every task has a parent that notices its failure and ends it; a bare one dies unheard."""
    for place, path in tree.modules():
        if not tree.shown(place).startswith(PARENTS):
            for owner in sorted(set(_owners_of_tasks(ast.parse(path.read_text("utf-8")), ""))):
                yield Fault("task", f"{place}:{owner}", "starts a bare task: use a Nursery or a SingleFlight")


def _owners_of_tasks(node: ast.AST, owner: str) -> Iterator[str]:
    """The innermost function of each call that makes a task; an empty name for the module itself."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield from _owners_of_tasks(child, name)
            case _:
                if isinstance(child, ast.Call) and ast.unparse(child.func).split(".")[-1] in TASK_MAKERS:
                    yield owner
                yield from _owners_of_tasks(child, owner)


def reasons(tree: Tree) -> Iterator[Fault]:
    """A comment that silences the linter says why."""
    for place, path in tree.modules():
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if NO_REASON.search(line):
                yield Fault("reason", place, f"line {number}: write the reason behind it: `# noqa: E501 - the reason`")


CHECKS = (constructors, lengths, complexity, cycles, mirror, prose, clocks, tasks, reasons)


def read_exceptions(path: Path) -> dict[tuple[str, str], str]:
    """Of each rule: place = "reason"."""
    listed = tomllib.loads(path.read_text("utf-8"))
    return {(rule, place): reason for rule, places in listed.items() for place, reason in places.items()}


def judge(faults: list[Fault], exceptions: Mapping[tuple[str, str], str]) -> list[str]:
    """What is wrong, one line each: faults that are not excepted, exceptions that are not needed or say no reason."""
    found = {(fault.rule, fault.place) for fault in faults}
    wrong = [f"{fault.rule}: {fault.place}: {fault.message}" for fault in faults if fault[:2] not in exceptions]
    for (rule, place), reason in exceptions.items():
        if (rule, place) not in found:
            wrong.append(f"{rule}: {place}: this exception is not needed any more; remove it")
        elif len(reason.split()) < 3:
            wrong.append(f"{rule}: {place}: an exception needs its reason")
    return wrong


def main() -> int:
    trees = (
        Tree(ROOT / "src" / PACKAGE, ROOT / "tests", docs=ROOT / "docs"),
        Tree(ROOT / "lingua-sdk" / "src" / SDK, ROOT / "tests" / "sdk", package=SDK),
    )
    faults = [
        fault._replace(place=tree.shown(fault.place)) for tree in trees for check in CHECKS for fault in check(tree)
    ]
    faults += class_names(*trees)
    exceptions = read_exceptions(ROOT / "tools" / "house_exceptions.toml")
    wrong = judge(faults, exceptions)
    for line in wrong:
        print(line)
    if not wrong:
        print(f"The house is in order: {len(CHECKS) + 1} rules, {len(exceptions)} exceptions with their reasons.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
