"""Measures branch coverage of the source in every pytest process, and judges the figures of all after a whole run.

Processes that tests start (schedulers, nodes, another pytest) are not measured.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import coverage
import pytest

from tools.coverage_gate.figures import by_package, judge, read_floors, table

_PARTS = "COVERAGE_PARTS"
# Each of them leaves tests out, so the figures say nothing about the suite.
_NARROWING = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "stepwise", "collectonly")


class Project(NamedTuple):
    """What is measured, where the data of all processes together is kept, and the file of the floors."""

    source: Path
    data: Path
    floors: Path
    # The source of the SDK, whose figures are those of a package `sdk`.
    sdk: Path | None = None

    def coverage(self, data: Path, *, suffix: bool | None = None) -> coverage.Coverage:
        # `__main__.py` runs only as a process of its own.
        found = coverage.Coverage(
            data_file=str(data),
            data_suffix=suffix,
            config_file=False,
            branch=True,
            source=[str(one) for one in (self.source, self.sdk) if one is not None],
            omit=[str(self.source / "__main__.py")],
            concurrency="thread",
        )
        # The process that hands the tests out to others may run none of the source.
        found.set_option("run:disable_warnings", ["no-data-collected"])
        return found


class Worker:
    """Measures one pytest process, from now to the end of its session."""

    def __init__(self, project: Project, parts: Path) -> None:
        self._coverage = project.coverage(parts / project.data.name, suffix=True)
        self._coverage.start()

    def pytest_sessionfinish(self) -> None:
        self.finish()

    def finish(self) -> None:
        self._coverage.stop()
        self._coverage.save()


class Controller:
    """Measures the pytest process that was called, and puts the figures of all processes together."""

    def __init__(self, project: Project, parts: Path) -> None:
        self._project = project
        self._parts = parts
        self._own = Worker(project, parts)

    def pytest_configure(self, config: pytest.Config) -> None:
        if not config.getoption("numprocesses", None):
            _hide_from_children()

    # The outermost wrapper: its table comes after everything that pytest says.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        yield
        self._own.finish()
        try:
            self._report(session)
        finally:
            shutil.rmtree(self._parts)

    def _report(self, session: pytest.Session) -> None:
        combined = self._project.coverage(self._project.data)
        combined.erase()
        combined.combine([str(self._parts)], strict=True)
        combined.save()
        report = self._parts / "report.json"
        combined.json_report(outfile=str(report))
        packages = by_package(json.loads(report.read_text("utf-8")), self._project.source, self._project.sdk)
        floors = read_floors(self._project.floors)
        is_judged = is_whole(session)
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        assert terminal is not None
        terminal.write_line("\n" + table(packages, floors, is_judged=is_judged))
        if not is_judged:
            terminal.write_line("Only a part of the suite was run, so no floor is judged.")
            return
        wrong = judge(packages, floors)
        for paragraph in wrong:
            terminal.write_line("\n" + paragraph, red=True)
        if wrong:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def is_whole(session: pytest.Session) -> bool:
    """Whether every test was to run, and the run came to its end."""
    config = session.config
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return False
    if any(config.getoption(option, None) for option in _NARROWING):
        return False
    return not (session.shouldstop or session.shouldfail) and session.exitstatus in (0, 1)


def start(project: Project) -> Worker | Controller:
    """Starts measuring at once; the result is a pytest plugin that has to be registered."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        parts = Path(os.environ[_PARTS])
        _hide_from_children()
        return Worker(project, parts)
    parts = Path(tempfile.mkdtemp(prefix="coverage-"))
    os.environ[_PARTS] = str(parts)
    return Controller(project, parts)


def _hide_from_children() -> None:
    """A pytest that a test starts is a run of its own."""
    del os.environ["COVERAGE"], os.environ[_PARTS]
