"""A copy of all credentials in a file, for a Redis that lost its data while no instance ran."""

import asyncio
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from lingua_scheduler.domain.access.credential_sets import CredentialSet
from lingua_scheduler.store.reading import credential_of, issuer_of, revocation_of, written_credential
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.decoding import DECODE_ERRORS
from lingua_sdk.private_files import write_private

_log = logs.get()

T = TypeVar("T")

MAX_BYTES = 256 * 1_048_576


class _File(msgspec.Struct):
    """Entries are read one by one: one that is broken takes no other with it."""

    credentials: dict[str, msgspec.Raw] = {}
    issuers: dict[str, msgspec.Raw] = {}
    revocations: dict[str, msgspec.Raw] = {}


class Backup:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_unwritten = False

    async def read(self) -> CredentialSet:
        """Empty if there is no copy, or one that cannot be trusted; then the log says why."""
        try:
            return await asyncio.to_thread(self._read)
        except FileNotFoundError:
            pass
        except (OSError, *DECODE_ERRORS) as error:
            _log.warning("credentials.backup_unread", path=str(self._path), error=str(error))
        return CredentialSet()

    async def write(self, known: CredentialSet) -> bool:
        """Whether it was written. A full disk is no reason to stop; the next refresh tries again."""
        try:
            await asyncio.to_thread(self._write, known)
        except OSError as error:
            if not self._is_unwritten:
                _log.warning("credentials.backup_unwritten", path=str(self._path), error=str(error))
            self._is_unwritten = True
            return False
        self._is_unwritten = False
        return True

    def _read(self) -> CredentialSet:
        with self._path.open("rb") as file:
            about = os.fstat(file.fileno())
            # A user who can write it could make keys.
            if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or about.st_uid not in (0, os.geteuid()):
                raise ValueError("other users can write it; check what is in it, then run chmod 600")
            body = file.read(MAX_BYTES)
        raw = msgspec.json.decode(body, type=_File)
        found = CredentialSet(
            _readable(raw.credentials, credential_of),
            _readable(raw.issuers, issuer_of),
            _readable(raw.revocations, revocation_of),
        )
        lost = len(raw.credentials) + len(raw.issuers) + len(raw.revocations) - sum(map(len, found))
        if lost:
            _log.warning("credentials.backup_damaged", path=str(self._path), skipped=lost)
        return found

    def _write(self, known: CredentialSet) -> None:
        credentials = {name: written_credential(one) for name, one in known.credentials.items()}
        write_private(self._path, msgspec.json.encode(known._replace(credentials=credentials)._asdict()))


def _readable(raw: Mapping[str, msgspec.Raw], parse: Callable[[str, bytes], T | None]) -> dict[str, T]:
    return {name: entry for name, text in raw.items() if (entry := parse(name, bytes(text))) is not None}
