"""Starts coverage if COVERAGE=yes. pytest loads this file before tests/conftest.py, which imports the source."""

import os

pytest_plugins = ["tools.coverage_gate.plugin"] if os.environ.get("COVERAGE") == "yes" else []
