"""Where the keys of the audit log come from: a file of their own, or the cluster key."""

from pathlib import Path

from lingua_scheduler.domain.access.audit_keys import AuditKeys
from lingua_scheduler.protocol.sealing import Keyring, read_key_lines
from lingua_scheduler.telemetry import logs

_log = logs.get()

_PURPOSE = b"lingua audit"


class AuditKeyError(Exception):
    """The file cannot be used. The message tells the operator what to do."""


def audit_keys(path: Path | None, keyring: Keyring | None) -> AuditKeys:
    """Raises AuditKeyError."""
    if path is None:
        if keyring is None:
            note = "the audit log finds accidents, but no forgery; set audit.key_file or privacy.cluster_key_file"
            _log.warning("audit.unkeyed", note=note)
        return AuditKeys(keyring.derive(_PURPOSE) if keyring is not None else ())
    try:
        return AuditKeys(read_key_lines(path.read_text("ascii")))
    except OSError as error:
        reason = f"{error.strerror}; make one with: openssl rand -hex 32"
    except UnicodeDecodeError:
        reason = "it is not text"
    except ValueError as error:
        reason = str(error)
    raise AuditKeyError(f"the audit keys in {path} cannot be used: {reason}")
