"""The pytest plugin of `COVERAGE=yes make test`; conftest.py of the project's root loads it."""

from pathlib import Path

import pytest

from tools.coverage_gate.figures import FLOORS
from tools.coverage_gate.measuring import Project, start

_ROOT = Path(__file__).parent.parent.parent

# Not in pytest_configure: conftest.py of the tests imports the source before that.
# `.venv/bin/coverage html` shows the data line by line.
_started = start(
    Project(_ROOT / "src" / "lingua_scheduler", _ROOT / ".coverage", FLOORS, _ROOT / "lingua-sdk/src/lingua_sdk")
)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_started)
