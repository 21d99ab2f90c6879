"""The checks of structure: each rule notices a planted violation, exceptions are kept true, and the project passes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools import house
from tools.house import CHECKS, Fault, Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "src", tmp_path / "tests")


def plant(root: Path, place: str, text: str = "") -> None:
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def places(faults: Iterator[Fault]) -> list[tuple[str, str]]:
    return [(fault.rule, fault.place) for fault in faults]


@pytest.mark.parametrize(
    ("parameters", "is_fault"),
    [
        ("self, a, b, c, d, e", False),
        ("self, a, b, c, d, e, f", True),
        ("self, a, b, /, c, *, d, e=1, f=2", True),
        ("self, a, b, c, d, e, clock", False),
        ("self, a, b, c, d, e, f, clock", True),
    ],
)
def test_a_constructor_takes_five_parameters(tree: Tree, parameters: str, is_fault: bool) -> None:
    plant(tree.source, "a/b.py", f"class One:\n    def __init__({parameters}): ...\n")
    assert places(house.constructors(tree)) == ([("constructor", "a/b.py:One")] if is_fault else [])


def test_a_class_inside_another_has_a_constructor_too(tree: Tree) -> None:
    plant(tree.source, "a.py", "class One:\n    class Two:\n        def __init__(self, a, b, c, d, e, f): ...\n")
    assert places(house.constructors(tree)) == [("constructor", "a.py:Two")]


def test_a_public_class_name_occurs_once(tree: Tree) -> None:
    plant(tree.source, "a.py", "class One: ...\nclass _Own: ...\n")
    plant(tree.source, "b/c.py", "class _Own: ...\nclass Other: ...\n")
    assert places(house.class_names(tree)) == []
    plant(tree.source, "b/d.py", "class One: ...\n")
    (fault,) = house.class_names(tree)
    assert fault == Fault("class_name", "One", "One is the name of 2 classes: a.py, b/d.py")


def test_a_file_and_a_script_have_a_length(tree: Tree) -> None:
    plant(tree.source, "fits.py", "\n" * house.MAX_LINES)
    plant(tree.source, "lua/fits.lua", "\n" * house.MAX_LUA_LINES)
    assert places(house.lengths(tree)) == []
    plant(tree.source, "long.py", "\n" * (house.MAX_LINES + 1))
    plant(tree.source, "lua/long.lua", "\n" * (house.MAX_LUA_LINES + 1))
    assert places(house.lengths(tree)) == [("length", "long.py"), ("length", "lua/long.lua")]


@pytest.mark.parametrize(("branches", "is_fault"), [(9, False), (10, True)])
def test_a_function_is_not_too_complex(tree: Tree, branches: int, is_fault: bool) -> None:
    body = "".join(f"    if x == {number}:\n        return\n" for number in range(branches))
    plant(tree.source, "a.py", f"def tangled(x):\n{body}")
    assert places(house.complexity(tree)) == ([("complexity", "a.py:tangled")] if is_fault else [])


def test_no_comment_hides_a_complex_function(tree: Tree) -> None:
    body = "".join(f"    if x == {number}:\n        return\n" for number in range(10))
    plant(tree.source, "a.py", f"def tangled(x):  # noqa: C901\n{body}")
    assert places(house.complexity(tree)) == [("complexity", "a.py:tangled")]


@pytest.mark.parametrize(
    ("imports", "ring"),
    [
        ({"a": "b", "b": "c", "c": ""}, []),
        ({"a": "b", "b": "c", "c": "a"}, ["a"]),
        ({"a": "", "b": "c", "c": "b"}, ["b"]),
    ],
    ids=["none", "three", "two"],
)
def test_modules_do_not_import_each_other_in_a_circle(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    imports: dict[str, str],
    ring: list[str],
) -> None:
    name = f"planted_{request.node.callspec.id}"
    for module, imported in imports.items():
        # For types alone counts too.
        text = (
            f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import {name}.{imported}\n" if imported else ""
        )
        plant(tmp_path / name, f"{module}.py", text)
    plant(tmp_path / name, "__init__.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = places(house.cycles(Tree(tmp_path / name, tmp_path / "tests", name)))
    assert found == [("cycle", place) for place in ring]


def test_every_module_has_its_test(tree: Tree) -> None:
    plant(tree.source, "a/b.py", "def decide(): return 1\n")
    assert list(house.mirror(tree)) == [Fault("mirror", "a/b.py", "no tests/a/test_b.py")]
    plant(tree.tests, "a/test_b.py")
    assert places(house.mirror(tree)) == []


@pytest.mark.parametrize(
    "text",
    [
        "LIMIT = 1\n",
        "class One:\n    size: int\n",
        'class One:\n    def size(self):\n        """Of it."""\n',
        "def size(): ...\n",
    ],
    ids=["constant", "fields", "protocol", "stub"],
)
def test_declarations_need_no_test(tree: Tree, text: str) -> None:
    plant(tree.source, "a.py", text)
    assert places(house.mirror(tree)) == []


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("from time import monotonic, sleep\n", "time.monotonic"),
        ("import time\nnow_ms = time.time() * 1000\n", "time.time"),
        ("import time as clocks\nsince = clocks.perf_counter\n", "clocks.perf_counter"),
        ("import asyncio\nnow_s = asyncio.get_running_loop().time()\n", "asyncio.get_running_loop().time"),
        ("from datetime import datetime\nnow = datetime.now()\n", "datetime.now"),
        ("from lingua_scheduler.clock import SYSTEM_CLOCK\nnow_s = SYSTEM_CLOCK()\n", "SYSTEM_CLOCK"),
    ],
)
def test_services_and_the_store_read_no_clock_of_their_own(tree: Tree, text: str, read: str) -> None:
    plant(tree.source, "gateway/a.py", text)
    assert places(house.clocks(tree)) == []
    plant(tree.source, "services/a/b.py", text)
    plant(tree.source, "store/c.py", text)
    found = list(house.clocks(tree))
    assert [(fault.rule, fault.place) for fault in found] == [("clock", "services/a/b.py"), ("clock", "store/c.py")]
    assert all(fault.message.startswith(f"reads {read}: ") for fault in found)


def test_a_clock_that_is_handed_in_may_be_read(tree: Tree) -> None:
    lines = [
        "from lingua_scheduler.clock import SYSTEM_CLOCK, Clock",
        "class One:",
        "    def __init__(self, clock: Clock = SYSTEM_CLOCK):",
        "        self.since_s = clock()",
    ]
    plant(tree.source, "services/a.py", "\n".join(lines))
    assert places(house.clocks(tree)) == []


@pytest.mark.parametrize(
    "call", ["asyncio.create_task(work())", "self._loop.create_task(work())", "asyncio.ensure_future(work())"]
)
def test_no_task_is_started_without_a_parent(tree: Tree, call: str) -> None:
    text = f"class One:\n    async def begin(self):\n        self._task = {call}\n"
    for place in ("cli/a.py", "sdk/a.py", "telemetry/tasks.py"):
        plant(tree.source, place, text)
    assert places(house.tasks(tree)) == []
    for place in ("app.py", "gateway/a.py", "services/a/b.py"):
        plant(tree.source, place, text)
    found = places(house.tasks(tree))
    assert found == [("task", "app.py:begin"), ("task", "gateway/a.py:begin"), ("task", "services/a/b.py:begin")]


@pytest.mark.parametrize(
    ("line", "is_fault"),
    [
        ("X = 1  # noqa", True),
        ("X = 1  # noqa: E501", True),
        ("X = 1  # noqa: E501, ARG002 ", True),
        ("X = 1  # noqa: E501 - a table reads better wide", False),
        ("X = 1  # noqa: E501 (a table)", False),
        ("X = 1  # a table", False),
    ],
)
def test_a_comment_that_silences_the_linter_says_why(tree: Tree, line: str, is_fault: bool) -> None:
    plant(tree.source, "a.py", f"{line}\n")
    assert places(house.reasons(tree)) == ([("reason", "a.py")] if is_fault else [])


FAULT = Fault("length", "a.py", "301 lines, 300 are allowed")


@pytest.mark.parametrize(
    ("place", "text", "lines"),
    [
        ("a.py", '"""Somebody waits."""\n\nX = 1  # set by whoever comes first\n', [1, 3]),
        ("a.py", '"""Two\nlines: everybody."""\n', [2]),
        ("a.py", "# So many are kept.\nX = 1\n", [1]),
        ("a.py", "# Kept: so many that few wait. `nobody`, NOBODY\nNOBODY = nobody = 'nobody'\n", []),
        ("a.lua", "local nobody = 1\n-- In vain.\n", [2]),
        ("a.js", 'say("pair.nobody"); // nobody\n/**\n * Whoever asks.\n */\n', [1, 3]),
        ("en.json", '{\n"pair.nobody": "no node",\n"b": "Nobody"\n}\n', [3]),
    ],
)
def test_prose_names_who_does_what(tree: Tree, place: str, text: str, lines: list[int]) -> None:
    plant(tree.source, place, text)
    found = list(house.prose(tree))
    assert places(iter(found)) == [("prose", place)] * len(lines)
    assert [fault.message.split(":")[0] for fault in found] == [f"line {line}" for line in lines]


def test_pages_are_read_too_unless_they_are_generated(tree: Tree, tmp_path: Path) -> None:
    plant(tmp_path, "docs/a/b.md", "# A page\n\nNobody knows `whoever`.\n")
    plant(tmp_path, "docs/c.md", "<!-- Generated by a tool. -->\n\nNobody.\n")
    plant(tmp_path, "README.md", "In vain.\n")
    faults = list(house.prose(tree._replace(docs=tmp_path / "docs")))
    found = [(fault.place, fault.message.split(";")[0]) for fault in faults]
    assert found == [("a/b.md", 'line 3: "Nobody"'), ("README.md", 'line 1: "In vain"')]


@pytest.mark.parametrize(
    ("exceptions", "wrong"),
    [
        ({}, ["length: a.py: 301 lines, 300 are allowed"]),
        ({("length", "a.py"): "one long table"}, []),
        ({("length", "a.py"): ""}, ["length: a.py: an exception needs its reason"]),
        ({("length", "a.py"): "too long"}, ["length: a.py: an exception needs its reason"]),
        (
            {("length", "a.py"): "one long table", ("mirror", "a.py"): "one long table"},
            ["mirror: a.py: this exception is not needed any more; remove it"],
        ),
    ],
    ids=["none", "good", "no reason", "short reason", "not needed"],
)
def test_an_exception_is_needed_and_has_its_reason(exceptions: dict[tuple[str, str], str], wrong: list[str]) -> None:
    assert house.judge([FAULT], exceptions) == wrong


def test_exceptions_are_read_by_rule_and_place(tmp_path: Path) -> None:
    path = tmp_path / "exceptions.toml"
    path.write_text('[length]\n"a/b.py" = "one long table"\n[class_name]\nOne = "a public name"\n')
    assert house.read_exceptions(path) == {
        ("length", "a/b.py"): "one long table",
        ("class_name", "One"): "a public name",
    }


@pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])
def test_an_empty_tree_breaks_no_rule(
    check: Callable[[Tree], Iterator[Fault]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path / "planted_empty", "__init__.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(check(Tree(tmp_path / "planted_empty", tmp_path / "tests", "planted_empty"))) == []


def test_the_project_is_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert house.main() == 0, capsys.readouterr().out
