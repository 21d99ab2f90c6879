"""Deletes all keys of one kind, as `store/keys.py` lists them."""

import re
from typing import Any

from lingua_scheduler.store.keys import KeyDoc
from lingua_scheduler.store.store import Store


def pattern_of(doc: KeyDoc) -> re.Pattern[str]:
    """`…:{s7}:node:<id>` stands for the nodes of every shard."""
    named = re.sub(r"<[^>]*>|\*:", "\0", doc.pattern.replace("…", "lingua:v1").replace("{s7}", "{s\0}"))
    return re.compile(re.escape(named).replace("\0", "[^}]+").replace("\\\x00", "[^}]+"))


async def all_keys(store: Store) -> dict[str, Any]:
    """Each key, and the server that has it."""
    found: dict[str, Any] = {}
    for line in store.line.servers():
        cursor = "0"
        while True:
            cursor, keys = await line.call("SCAN", cursor, "COUNT", 1_000)
            found |= dict.fromkeys(keys, line)
            if cursor == "0":
                break
    return found


async def delete(store: Store, doc: KeyDoc) -> list[str]:
    lost = [key for key in await all_keys(store) if pattern_of(doc).fullmatch(key)]
    for key in lost:
        await store.line.call("DEL", key)
    return lost


async def is_any(store: Store, doc: KeyDoc) -> bool:
    return any(pattern_of(doc).fullmatch(key) for key in await all_keys(store))


async def are_back(store: Store, lost: list[str]) -> bool:
    return set(lost) <= set(await all_keys(store))
