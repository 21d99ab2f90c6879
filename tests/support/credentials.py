"""Credentials for tests."""

import hashlib
from pathlib import Path
from typing import Any

from lingua_scheduler.domain.access.credentials import Credential
from lingua_sdk.domain.key_texts import KeyKind


def key(name: str, **more: Any) -> Credential:
    """A service's key whose id and digest come from a name."""
    fields = {"kind": KeyKind.SERVICE, "digest": hashlib.sha256(name.encode()).hexdigest(), "name": name} | more
    return Credential(id=hashlib.sha256(name.encode()).hexdigest()[:12], **fields)


def keys_toml(folder: Path, *keys: Credential) -> Path:
    """A keys file that has these, as an editor writes it: whole, and in place of the one before."""
    path, draft = folder / "keys.toml", folder / "draft.toml"
    draft.write_text(
        "\n".join(
            f'[[keys]]\nid = "{one.id}"\nkind = "service"\ndigest = "{one.digest}"\nname = "{one.name}"' for one in keys
        )
    )
    draft.chmod(0o600)
    draft.replace(path)
    return path
