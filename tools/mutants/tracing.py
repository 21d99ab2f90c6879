"""A pytest plugin that records which test reaches which line of the source, and how long each test takes.

`-p tools.mutants.tracing` with MUTANTS_TRACE=FILE in the environment.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

from tools.mutants.choosing import SOURCE, digest


class _Tracing:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._coverage = coverage.Coverage(data_file=None, config_file=False, source=[str(SOURCE)])
        self._seconds: dict[str, float] = defaultdict(float)
        self._failed: set[str] = set()
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        result = yield
        self._coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        if not report.passed:
            # A test that does not pass in the unbroken tree says nothing about a broken one.
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        names = sorted(self._seconds.keys() - self._failed)
        numbers = {name: number for number, name in enumerate(names)}
        lines = {
            str(Path(path).relative_to(Path.cwd())): {
                line: sorted(numbers[test] for test in tests if test in numbers)
                for line, tests in data.contexts_by_lineno(path).items()
            }
            for path in data.measured_files()
        }
        tests = [(name, round(self._seconds[name], 3)) for name in names]
        hashes = {path: digest(Path(path).read_text("utf-8")) for path in lines}
        self._path.write_text(json.dumps({"tests": tests, "lines": lines, "hashes": hashes}), "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Tracing(Path(os.environ["MUTANTS_TRACE"])))
