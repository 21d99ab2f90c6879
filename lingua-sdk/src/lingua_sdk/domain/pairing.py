"""Pairing codes: the owner of a private node makes one, and one session may then use that node."""

import hashlib
import re
import secrets
from typing import NamedTuple

CODE_CHARS = 8
# A person reads it aloud or types it, so it need not live longer.
CODE_MS = 300_000
# Wrong codes per minute and address.
MISSES_PER_MIN = 5
NO_PAIRING_CODE = "{!r} is not a pairing code: eight letters and digits, as lingua pair prints it"
_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_CODE = re.compile(rf"[{_BASE32}]{{{CODE_CHARS}}}", re.ASCII)
_PAIRING = re.compile(r"([a-z0-9][a-z0-9-]{0,62}) (\S{1,64})", re.ASCII)


class Pairing(NamedTuple):
    """A private node, and the tenant to whom it is private."""

    tenant: str
    node_id: str

    def __str__(self) -> str:
        return f"{self.tenant} {self.node_id}"

    @classmethod
    def parse(cls, text: str) -> "Pairing | None":
        found = _PAIRING.fullmatch(text)
        return None if found is None else cls(found[1], found[2])


def fresh_code() -> str:
    return "".join(secrets.choice(_BASE32) for _ in range(CODE_CHARS))


def code_in(text: str | None) -> str:
    """The code that a client sent, in capitals; empty for any other text: existing apps let people type anything."""
    code = (text or "").strip().upper()
    return code if _CODE.fullmatch(code) else ""


def digest_of_code(code: str) -> str:
    """What is kept of it, for as long as it is valid."""
    return hashlib.sha256(code.encode()).hexdigest()
