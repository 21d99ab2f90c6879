"""Keys and issuers from a TOML file, for those who keep configuration in a repository. It has digests, no secrets."""

import os
import tomllib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from lingua_scheduler.domain.access.credential_sets import CredentialSet
from lingua_scheduler.domain.access.credentials import MAX_CREDENTIALS, Credential
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.domain.guards.private_files import is_exposed
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.decoding import DECODE_ERRORS
from lingua_sdk.domain.key_texts import KeyKind

_log = logs.get()

T = TypeVar("T", Credential, Issuer)

MAX_BYTES = 64 * 1_048_576
# Of an issuer; the id of a key is shorter, and a whole key is longer.
MAX_ID_CHARS = 64
_KINDS = {kind.name.lower(): kind.value for kind in KeyKind}
# What the scheduler notes itself.
_OURS = frozenset({"in_file"})
_TABLES = ("keys", "issuers")


class KeysFileError(Exception):
    """The keys file cannot be used. The message tells the operator what to do."""


class KeysFile:
    """Its entries are valid while they are in the file: one that is removed ends at the next look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] = ()
        self._told = ""
        self.known = CredentialSet()

    def read(self) -> None:
        """Raises KeysFileError: no instance starts with half of the keys."""
        self.known, self._seen = _read(self._path)

    def look(self) -> bool:
        """Read it again if it has changed; whether the entries did. A broken or missing file leaves all as it was."""
        try:
            if _signature(self._path.stat()) == self._seen and not self._told:
                return False
            known, self._seen = _read(self._path)
        except (OSError, KeysFileError) as error:
            reason = str(error)
            if reason != self._told:
                _log.warning("keys_file.unread", path=str(self._path), error=reason)
            self._told = reason
            return False
        self._told = ""
        has_changed, self.known = known != self.known, known
        if has_changed:
            _log.info("keys_file.changed", keys=len(known.credentials), issuers=len(known.issuers))
        return has_changed


def _signature(about: os.stat_result) -> tuple[int, ...]:
    return about.st_dev, about.st_ino, about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _read(path: Path) -> tuple[CredentialSet, tuple[int, ...]]:
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            body = file.read(MAX_BYTES)
    except OSError as error:
        raise KeysFileError(f"the keys file {path} cannot be read: {error.strerror}") from None
    if is_exposed(about.st_mode, about.st_uid, os.geteuid()):
        raise KeysFileError(f"other users can read or write the keys file {path}; run chmod 600 {path}")
    try:
        return parse(tomllib.loads(body.decode())), _signature(about)
    except DECODE_ERRORS as error:
        raise KeysFileError(f"the keys file {path} cannot be used: {error}") from None


def parse(tables: Mapping[str, Any]) -> CredentialSet:
    """Raises ValueError, which names the entry. An unknown field may be a misspelled limit, so it is refused."""
    if strange := sorted(set(tables) - set(_TABLES)):
        raise ValueError(f"it has {', '.join(strange)}; only [[keys]] and [[issuers]] are known")
    return CredentialSet(
        _entries("keys", tables.get("keys", []), Credential), _entries("issuers", tables.get("issuers", []), Issuer)
    )


def _entries(table: str, rows: object, kind: type[T]) -> dict[str, T]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"write [[{table}]] above each entry")
    if len(rows) > MAX_CREDENTIALS:
        raise ValueError(f"it has {len(rows)} entries in [[{table}]]; at most {MAX_CREDENTIALS} are possible")
    found: dict[str, T] = {}
    for number, row in enumerate(rows, 1):
        try:
            entry = _entry(row, kind)
            if entry.id in found:
                raise ValueError("its id is there twice")
        except DECODE_ERRORS as error:
            raise ValueError(f"[[{table}]] number {number} ({_shown(row.get('id'))}): {error}") from None
        found[entry.id] = entry
    return found


def _entry(row: dict[str, Any], kind: type[T]) -> T:
    fields = dict(row)
    if "expires" in fields:
        fields["expires_ms"] = _ms(fields.pop("expires"))
    if strange := sorted(set(fields) - (set(kind.__struct_fields__) - _OURS)):
        raise ValueError(f"unknown field {', '.join(strange)}")
    if kind is Credential and "kind" in fields:
        fields["kind"] = _KINDS.get(str(fields["kind"]), fields["kind"])
    return msgspec.convert(fields, kind)


def _shown(entry_id: object) -> str:
    """What stands there may be a whole key, with its secret."""
    if entry_id is None:
        return "without id"
    return entry_id if isinstance(entry_id, str) and len(entry_id) <= MAX_ID_CHARS else "with a wrong id"


def _ms(moment: object) -> int:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ValueError("expires must be a time with its zone, such as 2030-01-31T00:00:00Z")
    return int(moment.timestamp() * 1000)
