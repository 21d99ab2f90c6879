"""Anchors are found in the lines of a log, in either format and behind what a collector puts before them."""

import json

import pytest

from lingua_scheduler.domain.access.audit import AuditHead
from lingua_scheduler.domain.access.audit_anchors import Anchor, read_anchors, statement

HEAD = AuditHead(12, "ab" * 32)
ANCHOR = Anchor(HEAD, "0a1b2c3d", "cd" * 64)
FIELDS = {"seq": 12, "hash": HEAD.hash, "key": ANCHOR.key_id, "signature": ANCHOR.signature, "event": "audit.anchor"}
JSON = json.dumps(FIELDS)
CONSOLE = (
    "\x1b[2m2026-11-18T05:53:09Z\x1b[0m [\x1b[32minfo\x1b[0m] \x1b[1maudit.anchor\x1b[0m "
    f"\x1b[36mhash\x1b[0m=\x1b[35m{HEAD.hash}\x1b[0m \x1b[36mkey\x1b[0m=\x1b[35m{ANCHOR.key_id}\x1b[0m "
    f"\x1b[36mseq\x1b[0m=\x1b[35m12\x1b[0m \x1b[36msignature\x1b[0m=\x1b[35m{ANCHOR.signature}\x1b[0m"
)


@pytest.mark.parametrize(
    "line",
    [JSON, f"Nov 18 05:53:09 box lingua[7]: {JSON}", json.dumps({"log": JSON + "\n", "stream": "stderr"}), CONSOLE],
    ids=["json", "journal", "docker", "console"],
)
def test_an_anchor_is_found_in_a_line(line: str) -> None:
    assert list(read_anchors(["first", line, "{}"])) == [ANCHOR]


@pytest.mark.parametrize("name", ["seq", "hash", "key", "signature"])
def test_a_line_that_lacks_a_field_is_no_anchor(name: str) -> None:
    assert list(read_anchors([json.dumps({one: value for one, value in FIELDS.items() if one != name})])) == []


def test_other_events_are_none() -> None:
    assert list(read_anchors([JSON.replace("audit.anchor", "audit.lost")])) == []


def test_what_is_signed_names_number_and_hash() -> None:
    said = {statement(HEAD), statement(HEAD._replace(seq=13)), statement(HEAD._replace(hash="ff" * 32))}
    assert len(said) == 3
