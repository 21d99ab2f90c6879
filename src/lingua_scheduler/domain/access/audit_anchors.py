"""Anchors of the audit log: its head, signed, in the ordinary log, which leaves the machine.

Who rewrites or cuts the log in Redis, even with its key, cannot rewrite them."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lingua_scheduler.domain.access.audit import AuditHead

EVENT = "audit.anchor"
# A field of a line in either format of the log: "seq": 7 or seq=7.
_FIELD = re.compile(r"""["']?\b(seq|hash|key|signature)\b["']?\s*[=:]\s*["']?([0-9a-z]+)""", re.ASCII)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_WANTED = ("seq", "hash", "key", "signature")


class Anchor(NamedTuple):
    head: AuditHead
    key_id: str
    signature: str


def statement(head: AuditHead) -> bytes:
    """What is signed."""
    return f"lingua audit anchor\0{head}".encode()


def written(anchor: Anchor) -> str:
    """As in a log; `read_anchors` reads it."""
    head = anchor.head
    return f"{EVENT} seq={head.seq} hash={head.hash} key={anchor.key_id} signature={anchor.signature}"


def read_anchors(lines: Iterable[str]) -> Iterator[Anchor]:
    """Those in the lines of a log, as JSON or as on a terminal, also behind what a log collector puts before them."""
    for line in lines:
        if EVENT not in line:
            continue
        # A collector may have put the line into JSON once more.
        found = dict(_FIELD.findall(_COLOUR.sub("", line).replace("\\", "")))
        head = AuditHead.parse(f"{found.get('seq', '')} {found.get('hash', '')}")
        if head is not None and all(name in found for name in _WANTED):
            yield Anchor(head, found["key"], found["signature"])
