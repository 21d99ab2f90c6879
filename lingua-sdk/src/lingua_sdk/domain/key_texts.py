"""API keys as text: `lk_<kind>_<id>_<secret><checksum>`. The id is public, the checksum finds typing errors."""

import hashlib
import re
import secrets
import string
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple
from zlib import crc32

ID_CHARS = 12
# 43 of 62 characters are 256 bits.
SECRET_CHARS = 43
CHECKSUM_CHARS = 6
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SHAPE = re.compile(rf"lk_([a-z]{{2}})_([0-9A-Za-z]{{{ID_CHARS}}})_([0-9A-Za-z]{{{SECRET_CHARS + CHECKSUM_CHARS}}})")
# Existing nodes replace this word in their URL, wherever it stands.
_REPLACED = "localhost"


class KeyKind(StrEnum):
    CLIENT = "cl"
    SERVICE = "sv"
    NODE = "nd"
    ENROLMENT = "en"
    OPERATOR = "op"
    METRICS = "mt"


class BadKey(ValueError):
    """The text is not a key; the message says why, without the text."""


class KeyText(NamedTuple):
    kind: KeyKind
    id: str
    secret: str

    def __str__(self) -> str:
        body = f"lk_{self.kind.value}_{self.id}_{self.secret}"
        return body + _checksum(body)

    @property
    def digest(self) -> str:
        """What is kept of the secret. It has 256 random bits, so it needs no slow hash."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    @classmethod
    def parse(cls, text: str) -> "KeyText":
        """Raises BadKey."""
        found = _SHAPE.fullmatch(text)
        if found is None:
            raise BadKey("not a key of this scheduler; a key looks like lk_sv_…")
        kind, key_id, rest = found.groups()
        if kind not in set(KeyKind):
            raise BadKey(f"unknown kind of key: {kind}")
        if _checksum(text[:-CHECKSUM_CHARS]) != rest[SECRET_CHARS:]:
            raise BadKey("the key has a typing error (wrong checksum)")
        return cls(KeyKind(kind), key_id, rest[:SECRET_CHARS])


def looks_like_a_key(text: str) -> bool:
    return text.startswith("lk_")


def shown(kind: KeyKind, key_id: str) -> str:
    """How logs and lists name a key."""
    return f"lk_{kind.value}_{key_id}"


def fresh_key(kind: KeyKind, choose: Callable[[str], str] = secrets.choice) -> KeyText:
    while True:
        key = KeyText(kind, _word(ID_CHARS, choose), _word(SECRET_CHARS, choose))
        if _REPLACED not in str(key).lower():
            return key


def _word(length: int, choose: Callable[[str], str]) -> str:
    return "".join(choose(_ALPHABET) for _ in range(length))


def _checksum(body: str) -> str:
    number, found = crc32(body.encode()), ""
    for _ in range(CHECKSUM_CHARS):
        number, digit = divmod(number, len(_ALPHABET))
        found = _ALPHABET[digit] + found
    return found
