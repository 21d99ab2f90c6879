"""The audit log from commands: its keys as this machine has them, and notes of what commands change in Redis."""

import getpass
import os
import socket
from pathlib import Path

import click

from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.configuration.data_dirs import audit_key_path, cluster_key_path
from lingua_scheduler.domain.access.audit import AuditActor, AuditNote, AuditOutcome, clean, read_entry
from lingua_scheduler.domain.access.audit_keys import AuditKeys
from lingua_scheduler.protocol.sealing import Keyring, read_keys
from lingua_scheduler.services.access.audit_key_files import AuditKeyError, audit_keys
from lingua_scheduler.services.access.auditing import Auditor
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.store import Store

NO_KEY = "the key of the audit log is not on this machine"


def keys_here(settings: Settings) -> AuditKeys:
    """Unkeyed where neither the file of the audit log nor that of the cluster key exists."""
    try:
        path = audit_key_path(settings)
        keyring = None if path is not None else _keyring(cluster_key_path(settings))
        return audit_keys(path, keyring) if path is not None or keyring is not None else AuditKeys()
    except AuditKeyError as error:
        fail(str(error), Exit.SETTINGS)


def _keyring(path: Path | None) -> Keyring | None:
    try:
        return read_keys(path.read_text("ascii")) if path is not None else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds no key"
        raise AuditKeyError(f"the cluster key in {path} cannot be used: {reason}") from None


def this_command() -> AuditActor:
    """`redis:<user>@<host>`: it needs no credential but that of Redis, so it is known by where it runs."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return AuditActor(kind="redis", key_id=clean(user), address=clean(socket.gethostname()))


async def note_command(store: Store, settings: Settings, action: str, thing: str) -> None:
    """Before a command changes something. Raises RedisAway.

    Without the key that the log is written with, an entry would look forged: then the command says that it is not
    noted. It may go on: one who has Redis could change anything without it.
    """
    keys = keys_here(settings)
    texts, _ = await store.audit.page_back(most=1)
    last = read_entry(texts[0]) if texts else None
    if last is None:
        # Every scheduler notes its start: none keeps a log here, or those that know where it ended will begin it anew.
        return
    if last.key not in keys.ids:
        click.secho(f"lingua: hint: {NO_KEY}, so this is not noted in it; see audit.key_file", fg="yellow", err=True)
        return
    note = AuditNote(actor=this_command(), action=action, object=thing, outcome=AuditOutcome.REQUESTED)
    await Auditor(store.audit, keys, f"command-{os.getpid()}", settings.audit).write(note)
