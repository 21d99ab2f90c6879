"""Encryption of letters and parked outcomes: the cluster key file, and whether all live instances can decrypt."""

import os
import tempfile
from base64 import b64decode, b64encode
from contextlib import suppress
from pathlib import Path

from lingua_scheduler.domain.cluster.instances import PARKED, key_ids
from lingua_scheduler.domain.guards.private_files import is_exposed
from lingua_scheduler.protocol.sealing import (
    BrokenSeal,
    Keyring,
    OtherKey,
    TokenSeal,
    is_sealed,
    new_key_text,
    read_keys,
)
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.setting_sections.instances import SealLetters
from lingua_scheduler.store.cluster.inbox import InboxEntry
from lingua_scheduler.telemetry import logs

_log = logs.get()

_FILE_HEAD = (
    "# The cluster key of Lingua Scheduler: every instance on the same Redis needs the same file.\n"
    "# One key per line. The first key encrypts, all of them decrypt: to rotate, add a second one everywhere, then "
    "swap them, then remove\n"
    "# the older. Anyone with this file can read the messages between instances.\n"
)


# Stands before sealed text, where JSON is expected otherwise.
SEALED = "sealed:"
_NAMES = b"lingua names of sessions at nodes"


class KeyFileError(Exception):
    """The key file cannot be used. The message tells the operator what to do."""


def load_or_make(path: Path) -> Keyring:
    """The keys in the file, which is created at the first start. Processes that start together get the same keys."""
    try:
        if not path.exists():
            _make(path)
        text = path.read_text("ascii")
        about = path.stat()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise KeyFileError(f"the cluster key in {path} cannot be read or created: {reason}") from None
    if is_exposed(about.st_mode, about.st_uid, os.geteuid()):
        _log.warning("cluster_key.exposed", path=str(path), note="other users can read it; run chmod 600")
    try:
        return read_keys(text)
    except ValueError as error:
        raise KeyFileError(f"the cluster key in {path} cannot be used: {error}") from None


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Whole and private before it has its name; of several who make one, the first wins.
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=".cluster-key-")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{_FILE_HEAD}{new_key_text()}\n")
        with suppress(FileExistsError):
            os.link(draft, path)
            _log.info("cluster_key.made", path=str(path))
    finally:
        Path(draft).unlink()


def names_key(keyring: Keyring | None) -> bytes:
    """What the names of sessions at nodes are made with, the same at every instance; empty without a cluster key."""
    return keyring.derive(_NAMES)[0] if keyring is not None else b""


def announced(keyring: Keyring | None) -> str:
    """What an instance tells the others of what it can open."""
    return " ".join((PARKED, *(keyring.ids if keyring is not None else ())))


class Seals:
    def __init__(self, presence: Presence, keyring: Keyring | None = None, mode: SealLetters = "auto") -> None:
        self._presence = presence
        self._keyring = keyring
        self._mode = mode

    def tell_who_cannot_open(self) -> None:
        """At the start, in the log; from then on it is an alarm."""
        mine = self._keyring.ids[0] if self._keyring is not None else ""
        others = [found for found in self._presence.living if mine not in found.seals.split()]
        if mine and others:
            names = sorted(found.instance_id for found in others)
            keys = sorted({key for found in others for key in key_ids(found.seals)})
            _log.warning("cluster_key.differs", key=mine, instances=names, their_keys=keys, sealing=self._mode)

    def letter(self, to: str, letter: InboxEntry) -> InboxEntry:
        """Encrypted, unless a live instance could not decrypt it: any of them may adopt the letter."""
        if self._keyring is None or not self._may_seal(self._keyring):
            return letter
        return letter._replace(body=self._keyring.seal(letter.body, _about(to, letter)))

    def open(self, inbox: str, letter: InboxEntry) -> bytes:
        """The decrypted letter; one in the clear is returned unchanged, or refused. Raises OtherKey, BrokenSeal."""
        if not is_sealed(letter.body):
            self._check_clear()
            return letter.body
        if self._keyring is None:
            raise OtherKey
        return self._keyring.open(letter.body, _about(inbox, letter))

    def signal(self, to: str, text: str) -> str:
        """The text of a signal to one instance, sealed on the same terms as a letter."""
        if self._keyring is None or not self._may_seal(self._keyring):
            return text
        return SEALED + b64encode(self._keyring.seal(text.encode(), _about_signal(to))).decode()

    def open_signal(self, text: str) -> str:
        """What a signal to us says. Raises OtherKey, BrokenSeal."""
        if not text.startswith(SEALED):
            self._check_clear()
            return text
        if self._keyring is None:
            raise OtherKey
        try:
            sealed = b64decode(text[len(SEALED) :], validate=True)
        except ValueError:
            raise BrokenSeal from None
        return self._keyring.open(sealed, _about_signal(self._presence.instance)).decode()

    def session(self, session_id: str, token: str) -> TokenSeal | None:
        """None while an instance is alive to which the client may come and that could not open it."""
        return TokenSeal(session_id, token) if self._presence.all_can(PARKED) else None

    def _check_clear(self) -> None:
        """Where everything is sealed, what is not was written by one without the key. Raises BrokenSeal."""
        if self._mode == "always" and self._keyring is not None:
            raise BrokenSeal

    def _may_seal(self, keyring: Keyring) -> bool:
        return self._mode == "always" or (self._mode == "auto" and self._presence.all_can(keyring.ids[0]))


def _about(inbox: str, letter: InboxEntry) -> bytes:
    """Neither may a letter be put into another inbox, nor under another name."""
    return "\0".join(("letter", inbox, letter.kind, letter.sender, letter.uid)).encode("utf-8", "surrogateescape")


def _about_signal(to: str) -> bytes:
    return f"signal\0{to}".encode()
