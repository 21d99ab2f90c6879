"""`COVERAGE=yes make test`: the table, the judgement by floors, and what a run of pytest makes of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.coverage_gate.figures import Figure, Files, Floor, by_package, judge, read_floors, table

ROOT = Path(__file__).parent.parent
FLOORS = {"domain": Floor(lines=90, branches=80), "store": Floor(lines=90, branches=80)}
GOOD: dict[str, Files] = {
    "store": {"store/keys.py": Figure(lines=100, lines_run=90, branches=10, branches_taken=8)},
    "domain": {"domain/errors.py": Figure(lines=10, lines_run=10, branches=0, branches_taken=0)},
}


def test_figures_at_their_floor_are_good_enough() -> None:
    assert judge(GOOD, FLOORS) == []
    assert table(GOOD, FLOORS, is_judged=True).splitlines() == [
        "coverage         lines %  branches %        floors   verdict",
        "domain             100.0       100.0       90 / 80   ok",
        "store               90.0        80.0       90 / 80   ok",
    ]


def test_a_package_below_its_floor_is_named_with_its_figure_its_floor_and_its_least_covered_files() -> None:
    files = {
        f"store/file{n}.py": Figure(lines=100, lines_run=84 + n, branches=10, branches_taken=10) for n in range(11)
    }
    [wrong] = judge(GOOD | {"store": files}, FLOORS)
    first, *listed = wrong.splitlines()
    assert "Coverage of store is below its floor: 89.0 % of its lines were run, the floor is 90 %." in first
    assert listed[0] == "  store/file0.py: 84.0 % of 100 lines, 100.0 % of 10 branches"
    assert [line.split(":")[0].strip() for line in listed] == [f"store/file{n}.py" for n in range(10)]
    assert table({"store": files}, FLOORS, is_judged=True).endswith("90 / 80   below")


def test_branches_have_a_floor_of_their_own() -> None:
    [wrong] = judge(GOOD | {"store": {"store/keys.py": Figure(100, 100, 1000, 799)}}, FLOORS)
    assert "79.9 % of its branches were run, the floor is 80 %" in wrong


def test_a_figure_just_below_its_floor_does_not_look_as_if_it_had_reached_it() -> None:
    [wrong] = judge(GOOD | {"store": {"store/keys.py": Figure(100_000, 89_999, 0, 0)}}, FLOORS)
    assert "89.9 % of its lines" in wrong


def test_a_package_without_a_floor_and_a_floor_without_a_package_are_faults() -> None:
    wrong = judge({"domain": GOOD["domain"], "gateway": GOOD["domain"]}, FLOORS)
    assert [line.split(":")[0] for line in wrong] == ["Coverage of gateway has no floor", "There is no store to cover"]
    assert table({"gateway": GOOD["domain"]}, FLOORS, is_judged=True).endswith("no floor")


def test_a_part_of_the_suite_gets_no_verdict() -> None:
    bad: dict[str, Files] = {"store": {"store/keys.py": Figure(100, 1, 10, 1)}}
    assert table(bad, FLOORS, is_judged=False).endswith("90 / 80   not judged")


def test_figures_are_sorted_by_package_and_files_without_a_statement_are_left_out() -> None:
    def summary(lines: int) -> dict[str, dict[str, int]]:
        return {"summary": {"num_statements": lines, "covered_lines": 1, "num_branches": 4, "covered_branches": 3}}

    files = {"/src/store/jobs/jobs.py": summary(2), "/src/app.py": summary(3), "/src/store/__init__.py": summary(0)}
    assert by_package({"files": files}, Path("/src")) == {
        "store": {"store/jobs/jobs.py": Figure(2, 1, 4, 3)},
        "app": {"app.py": Figure(3, 1, 4, 3)},
    }


def test_every_package_of_the_source_has_a_floor_and_the_core_has_at_least_90_percent() -> None:
    floors = read_floors()
    found = {path.stem for path in (ROOT / "src" / "lingua_scheduler").iterdir() if path.suffix in ("", ".py")}
    assert floors.keys() == found - {"__init__", "__main__", "__pycache__"}
    assert all(floors[package].lines >= 90 for package in ("domain", "protocol", "store", "services"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with two tests, one for each branch of its only function; one test alone is below the floor."""
    files = {
        "pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["tests"]\n',
        "conftest.py": 'pytest_plugins = ["gate"]\n',
        "gate.py": "from pathlib import Path\n"
        "from tools.coverage_gate.measuring import Project, start\n"
        "here = Path(__file__).resolve().parent\n"
        "started = start(Project(here / 'toys', here / '.coverage', here / 'floors.toml'))\n"
        "def pytest_configure(config): config.pluginmanager.register(started)\n",
        "toys/__init__.py": "",
        "toys/store.py": "def sign(n):\n    if n < 0:\n        return -1\n    return 1\n",
        "tests/conftest.py": "import toys.store\n",
        "tests/test_one.py": "import os, toys.store\n"
        "def test_one():\n    assert toys.store.sign(-5) == -1\n    assert 'COVERAGE' not in os.environ\n",
        "tests/test_two.py": "import toys.store\ndef test_two(): assert toys.store.sign(5) == 1\n",
        "floors.toml": "store = { lines = 100, branches = 100 }\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return tmp_path


def run(project: Path, *arguments: str) -> tuple[int, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COVERAGE"))}
    environment = kept | {
        "COVERAGE": "yes",
        "PYTHONPATH": f"{project}{os.pathsep}{ROOT}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout


def test_the_figures_of_all_processes_of_a_run_are_judged_together(project: Path) -> None:
    code, output = run(project, "-n", "2")
    assert "store              100.0       100.0     100 / 100   ok" in output
    assert code == 0, output


def test_a_whole_run_below_a_floor_fails_although_its_tests_pass(project: Path) -> None:
    (project / "tests" / "test_two.py").unlink()
    code, output = run(project)
    assert "1 passed" in output
    assert "Coverage of store is below its floor: 75.0 % of its lines were run, the floor is 100 %." in output
    assert "  store.py: 75.0 % of 4 lines, 50.0 % of 2 branches" in output
    assert code == 1


@pytest.mark.parametrize("arguments", [["tests/test_one.py"], ["-k", "one"]])
def test_a_run_of_a_part_below_a_floor_is_not_judged(project: Path, arguments: list[str]) -> None:
    code, output = run(project, *arguments)
    assert "not judged" in output
    assert "below its floor" not in output
    assert code == 0, output
