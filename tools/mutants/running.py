"""Puts one fault at a time into a private copy of the tree, and runs tests there until one fails."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from tools.mutants.faults import Fault
from tools.mutants.forking import CANNOT_PATCH, NOTHING_TO_RUN

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Verdict(StrEnum):
    NOTICED = "noticed"
    MISSED = "missed"
    # Missed, and of a kind that often changes nothing anybody could observe.
    DOUBTFUL = "doubtful"


class Judged(NamedTuple):
    fault: Fault
    verdict: Verdict
    # The first test that failed, or what else happened.
    by: str
    tests: int
    took_s: float


class Copy:
    """A copy of what git knows of, with the changes that are not committed yet."""

    def __init__(self, root: Path, into: Path, through: str) -> None:
        self.root = into
        self._through = shlex.split(through)
        self._forkers: dict[str, subprocess.Popen[str]] = {}
        self._known: set[str] | None = None
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, capture_output=True, check=True
        )
        for name in listed.stdout.decode().split("\0"):
            if name and (root / name).is_file():
                (into / name).parent.mkdir(parents=True, exist_ok=True)
                (into / name).write_bytes((root / name).read_bytes())

    def known_tests(self) -> set[str]:
        """Tests that are still there; a recording may be older."""
        if self._known is None:
            self._known = set(self._answer(self._forker("tests"))["tests"])
        return self._known

    def trace(self, arguments: Sequence[str], into: Path) -> str:
        """Run tests with every line recorded; returns the summary."""
        traced = ("-q", "-p", "tools.mutants.tracing", *arguments)
        told = self._pytest(*traced, timeout_s=3600, MUTANTS_TRACE=str(into))[1]
        return told.strip().rpartition("\n")[2]

    def judge(self, fault: Fault, tests: Sequence[str], timeout_s: float) -> Judged:
        path = self.root / fault.path
        source = path.read_text("utf-8")
        # Imports the source before it is broken.
        self.known_tests()
        before_s = monotonic()
        try:
            # Into the file as well, for processes that tests start.
            self._write(path, fault.put_into(source))
            status, told = self._run(fault, source, tests, timeout_s) if tests else (NOTHING_TO_RUN, "")
        finally:
            self._write(path, source)
        took_s = monotonic() - before_s
        if status in (0, NOTHING_TO_RUN):
            verdict = Verdict.DOUBTFUL if fault.is_doubtful else Verdict.MISSED
            return Judged(fault, verdict, "no test reaches it" if not tests else "", len(tests), took_s)
        named = _FAILED.search(told)
        by = named[1] if named else told.strip().rpartition("\n")[2]
        by = f"time ran out: {by}" if status is None else by
        return Judged(fault, Verdict.NOTICED, by, len(tests), took_s)

    def _run(self, fault: Fault, source: str, tests: Sequence[str], timeout_s: float) -> tuple[int | None, str]:
        if fault.path.endswith(".py"):
            after = fault.put_into(source)
            command = {"path": fault.path, "before": source, "after": after, "tests": tests, "timeout_s": timeout_s}
            status, told = self._ask("tests", command)
            if status != CANNOT_PATCH:
                return status, told
        arguments = ("-p", "no:cacheprovider", "-x", "-q", "--timeout=60", *tests)
        return self._ask("libraries", {"arguments": arguments, "timeout_s": timeout_s})

    def _write(self, path: Path, source: str) -> None:
        path.write_text(source, "utf-8")
        # Python knows compiled files by second and size, which two faults may share.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def close(self) -> None:
        for forker in self._forkers.values():
            assert forker.stdin is not None
            assert forker.stdout is not None
            forker.stdin.close()
            forker.wait()
            forker.stdout.close()

    def _forker(self, imported: str) -> subprocess.Popen[str]:
        """A process of `forking.py` that has imported the libraries, or the tests as well."""
        if imported not in self._forkers:
            command = [*self._through, sys.executable, "-m", "tools.mutants.forking"]
            self._forkers[imported] = subprocess.Popen(
                [*command, "."] if imported == "tests" else command,
                cwd=self.root,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return self._forkers[imported]

    def _ask(self, imported: str, command: dict[str, Any]) -> tuple[int | None, str]:
        forker = self._forker(imported)
        assert forker.stdin is not None
        print(json.dumps(command), file=forker.stdin, flush=True)
        answer = self._answer(forker)
        return answer["status"], answer["told"]

    def _answer(self, forker: subprocess.Popen[str]) -> dict[str, Any]:
        assert forker.stdout is not None
        answer: dict[str, Any] = json.loads(forker.stdout.readline())
        return answer

    @property
    def _environment(self) -> dict[str, str]:
        # Before the editable install, which leads to the working tree.
        # Last this tool, for a tree that has none.
        paths = (self.root / "src", self.root / "lingua-sdk" / "src", self.root, Path(__file__).parents[2])
        return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}

    def _pytest(self, *arguments: str, timeout_s: float, **variables: str) -> tuple[int | None, str]:
        command = [*self._through, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env=self._environment | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            told, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            told, _ = process.communicate()
            return None, told
        return process.returncode, told
