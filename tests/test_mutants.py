"""`make mutants`: which faults it finds, what it passes over, and that a fault is noticed or missed."""

import json
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

from tools.mutants.choosing import Reach, chosen, digest, mirror
from tools.mutants.faults import Fault, is_fault, python_faults
from tools.mutants.lua_faults import lua_faults
from tools.mutants.patching import patch
from tools.mutants.report import layer, table
from tools.mutants.running import Copy, Judged, Verdict

PYTHON = '''
"""Says nothing."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import os
class Thing:
    __slots__ = ("a", "b")
    async def act(self, one: int, two: int) -> int:
        """If one and not two."""
        _log.info("it.acted", one=1)
        metrics.ACTS.inc()
        _ACTS["well"].inc(2)
        if one is two:
            _log.info("it.acted", one=2)
        if one < two and not self.a:
            self.b = 7
            self.go(one, fast=True)
        if one % two == 3:
            await asyncio.sleep(0)
        pairs = zip(one, two, strict=True)
        return one
'''
LUA = """-- thing: 1 + 1 == 2
local key = KEYS[1]
if not key and 1 < 2 then
  redis.call('SET', key, 'a == b')
end
return {'done'}
"""


def test_every_kind_of_fault_is_found_and_what_is_only_told_is_passed_over() -> None:
    found = [fault for fault in python_faults("x.py", PYTHON) if is_fault(fault, PYTHON)]
    lines = PYTHON.splitlines()
    told = {(fault.kind, lines[fault.line - 1].strip()) for fault in found}
    condition = "if one < two and not self.a:"
    assert told == {
        ("negate", condition),
        ("compare", condition),
        ("and to or", condition),
        ("remove not", condition),
        ("drop statement", "self.b = 7"),
        ("constant", "self.b = 7"),
        ("drop statement", "self.go(one, fast=True)"),
        ("drop keyword", "self.go(one, fast=True)"),
        ("constant", "self.go(one, fast=True)"),
        ("return None", "return one"),
        ("return early", '_log.info("it.acted", one=1)'),
    }


def test_a_number_that_somebody_chose_is_doubled_and_a_small_one_is_off_by_one() -> None:
    source = "a = 1000\nb = 3\nc = 0.5\nd = 0.0\n"
    found = [fault.put_into(source).splitlines()[fault.line - 1] for fault in python_faults("x.py", source)]
    assert found == ["a = (1000 * 2)", "b = (3 + 1)", "c = (0.5 * 2)", "d = (0.0 + 1)"]


def test_a_fault_in_lua_leaves_comments_strings_and_the_signature_alone() -> None:
    broken = {fault.put_into(LUA) for fault in lua_faults("x.lua", LUA)}
    assert LUA.replace("1 < 2", "1 <= 2") in broken
    assert LUA.replace("key and", "key or") in broken
    assert LUA.replace("  redis.call('SET', key, 'a == b')", "  ") in broken
    assert all(one.startswith("-- thing: 1 + 1 == 2\nlocal key = KEYS[1]\n") for one in broken)
    assert not any("'a ~= b'" in one for one in broken)


def test_the_tests_of_the_module_come_first() -> None:
    path = "src/lingua_scheduler/services/dispatch/placing.py"
    assert mirror(path) == Path("tests/services/dispatch/test_placing.py")
    tests = chosen(Fault(path, 100, "negate", 0, 0, ""), Path(), Reach())
    assert tests[:2] == ["tests/services/dispatch/test_placing.py", "tests/services/dispatch"]


def test_a_fault_is_put_into_a_copy_noticed_or_missed_and_taken_out_again(tmp_path: Path) -> None:
    tree, into = tmp_path / "tree", tmp_path / "copy"
    source = "def double(one):\n    return one + one\n\n\ndef idle():\n    return 1\n"
    for name, text in {
        "src/lingua_scheduler/__init__.py": "",
        "src/lingua_scheduler/domain/__init__.py": "",
        "src/lingua_scheduler/domain/sums.py": source,
        "test_sums.py": "from lingua_scheduler.domain.sums import double\ndef test_it():\n    assert double(2) == 4\n",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    path = "src/lingua_scheduler/domain/sums.py"
    with closing(Copy(tree, into, "")) as copy:
        verdicts = {
            fault.line: copy.judge(fault, ["test_sums.py"], 60.0)
            for fault in python_faults(path, source)
            if fault.kind == "return None"
        }
    assert {line: judged.verdict for line, judged in verdicts.items()} == {2: Verdict.NOTICED, 6: Verdict.MISSED}
    assert verdicts[2].by == "test_sums.py::test_it"
    assert (into / path).read_text() == (tree / path).read_text() == source


def test_the_table_counts_each_layer_and_all_of_them() -> None:
    faults = [Fault(f"src/lingua_scheduler/{name}", 1, "negate", 0, 0, "") for name in ("services/a.py", "store/b.py")]
    judged = [Judged(faults[0], Verdict.NOTICED, "", 1, 0.0), Judged(faults[1], Verdict.MISSED, "", 1, 0.0)]
    assert [layer(fault) for fault in faults] == ["services", "store"]
    rows = [line.split() for line in table(judged)][1:]
    expected = [["services", "1", "1", "0", "0", "100%"], ["store", "1", "0", "1", "0", "0%"]]
    assert rows == [*expected, ["all", "2", "1", "1", "0", "50%"]]


def test_a_fault_is_put_into_functions_in_memory_and_not_into_what_runs_at_import() -> None:
    before = "LIMIT = 1\nclass Thing:\n    def act(self, far=2):\n        return [far + one for one in (3,)]\n"
    space: dict[str, Any] = {}
    exec(compile(before, "x.py", "exec"), space)
    act = space["Thing"].act
    assert patch(before, before.replace("3", "5"), "x.py", [act])
    assert space["Thing"]().act() == [7]
    assert not patch(before, before.replace("= 1", "= 9"), "x.py", [act])
    assert not patch(before, before.replace("=2", "=9"), "x.py", [act])


def test_of_the_modules_own_tests_those_that_reach_the_line_run_and_those_that_are_new(tmp_path: Path) -> None:
    path, own = "src/lingua_scheduler/domain/sums.py", "tests/domain/test_sums.py"
    for name in (path, own):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one\ntwo\n")
    recorded = [(f"{own}::test_slow", 2.0), (f"{own}::test_quick", 0.1), (f"{own}::test_elsewhere", 0.1)]
    lines = {path: {"1": [2], "2": [0, 1]}}
    (tmp_path / "core.json").write_text(
        json.dumps({"tests": recorded, "lines": lines, "hashes": {path: digest("one\ntwo\n")}})
    )
    known = {*(name for name, _ in recorded), f"{own}::test_new", "tests/domain/test_other.py::test_new"}
    tests = chosen(Fault(path, 2, "negate", 0, 0, ""), tmp_path, Reach.read(tmp_path), known)
    assert tests == [f"{own}::test_quick", f"{own}::test_slow", f"{own}::test_new"]
