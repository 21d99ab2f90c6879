"""`lingua conformance`: what it prints and how it ends."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lingua_scheduler.cli.main import main
from lingua_scheduler.cli.options import Exit
from lingua_scheduler.cli.speech.conformance import CLIENT, NODE, PeerKind, outcome
from lingua_scheduler.conformance.book import Book
from lingua_scheduler.conformance.checks import PeerProfile


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["conformance", *words, "--port", "0"])


def ended(text: str) -> str:
    """A program that prints this and ends."""
    return shlex.join([sys.executable, "-c", f"print({text!r})"])


@pytest.mark.parametrize("kind", ["node", "client"])
def test_a_program_that_ends_without_connecting_is_not_waited_for(kind: str) -> None:
    shown = run(kind, "--wait", "3600", "--command", ended("my last words"))
    assert shown.exit_code == Exit.FOUND
    assert f"no {kind} connected" in shown.stdout
    assert re.search(r"^does not conform \(standard\): \d+ not reached$", shown.stdout, re.MULTILINE)
    assert "my last words" in shown.stderr


def test_as_json() -> None:
    shown = run("client", "--profile", "existing", "--json", "--command", ended(""))
    said = json.loads(shown.stdout)
    assert (said["profile"], said["conforms"]) == ("existing", False)
    assert [one["name"] for one in said["checks"]] == [one.name for one in CLIENT.checks]


def test_speech_that_is_no_sound_file(tmp_path: Path) -> None:
    (tmp_path / "speech.wav").write_text("no sound")
    shown = run("node", "--audio", str(tmp_path / "speech.wav"))
    assert shown.exit_code == Exit.SETTINGS


@pytest.mark.parametrize("kind", [NODE, CLIENT])
def test_what_was_not_tested_is_no_success(kind: PeerKind) -> None:
    book = Book(kind.checks, PeerProfile.STANDARD)
    for one in kind.checks[:-1]:
        book.passed(one.name)
    book.not_tested(kind.checks[-1].name)
    assert outcome(book) == "nothing failed, but not everything was tested: needs --command"
    passed = Book(kind.checks[:1], PeerProfile.STANDARD)
    passed.passed(kind.checks[0].name)
    assert outcome(passed) == "conforms"
    failed = Book(kind.checks[:1], PeerProfile.STANDARD)
    failed.failed(kind.checks[0].name, "this", "that")
    assert outcome(failed) == "does not conform"
