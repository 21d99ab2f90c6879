"""The JavaScript client meets every requirement that the conformance kit has for clients."""

import shlex
from pathlib import Path

import pytest

from lingua_scheduler.conformance.book import CheckVerdict
from lingua_scheduler.conformance.checks import PeerProfile
from lingua_scheduler.conformance.listening import listening
from tests.e2e.test_conformance import client_book, running, told
from tests.support.js_client import TOOLS, node

TALKER = Path(__file__).parent / "talker.mjs"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["chunks", "whole"])
async def test_the_javascript_client_conforms(built: Path, tmp_path: Path, kind: str) -> None:
    command = shlex.join([node(), str(TALKER), str(built), str(TOOLS), kind])
    async with listening("127.0.0.1", 0, "/ws/session") as door:
        async with running(door, "/ws/session", command, tmp_path) as program:
            book = await client_book(door, PeerProfile.STANDARD, program)
    assert told(book) == [], program.output()
    assert "shows-once" in book.of(CheckVerdict.PASSED)
