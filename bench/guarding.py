"""Keys for a scheduler at which everybody needs one, so that a benchmark can measure what checking them costs."""

import time
from pathlib import Path
from typing import NamedTuple

from lingua_sdk.domain.key_texts import KeyKind, KeyText, fresh_key


class Guard(NamedTuple):
    """Variables of the scheduler's environment, and the keys of its peers."""

    variables: dict[str, str]
    node_key: str = ""
    talker_key: str = ""


UNGUARDED = Guard({})


def guard(folder: Path) -> Guard:
    path = folder / "keys.toml"
    node, talker = fresh_key(KeyKind.NODE), fresh_key(KeyKind.CLIENT)
    path.write_text("\n".join(map(_entry, (node, talker))))
    path.chmod(0o600)
    return Guard({"LINGUA_AUTH_MODE": "required", "LINGUA_AUTH_KEYS_FILE": str(path)}, str(node), str(talker))


def _entry(key: KeyText) -> str:
    created_ms = int(time.time() * 1000)
    return f'[[keys]]\nid = "{key.id}"\nkind = "{key.kind}"\ndigest = "{key.digest}"\ncreated_ms = {created_ms}\n'
