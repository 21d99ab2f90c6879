"""What a Redis server is and what it promises, for the person who runs it."""

import asyncio
import statistics
import time
from typing import NamedTuple

from redis.exceptions import ResponseError

from lingua_scheduler.store.connection import ServerLine
from lingua_scheduler.store.store import Store

PINGS = 20
UNKNOWN = "unknown"
# What each way of keeping data promises after a power cut. A killed process loses nothing with any append-only file.
PROMISES = {
    "always": "an acknowledged write survives a power cut",
    "everysec": "a power cut loses about the last second",
    "no": "a power cut loses what the operating system had not written yet, perhaps half a minute",
    UNKNOWN: "how much a power cut loses depends on appendfsync, which this user is not allowed to read",
    "snapshots": "a restart loses everything since the last snapshot",
    "nothing": "a restart loses everything; instances register their nodes again and retry running jobs",
}


class ServerFacts(NamedTuple):
    version: str
    topology: str
    # 0: a Unix socket.
    port: int
    maxmemory_policy: str
    persistence: str
    replicas: int
    memory: str
    memory_limit: str
    scripts: int
    scripts_loaded: int
    round_trip_ms: float

    @property
    def promise(self) -> str:
        return PROMISES[self.persistence.removeprefix("append-only file, fsync ")]


async def facts_of(store: Store) -> list[ServerFacts]:
    """Of each server that holds a part of the data."""
    return list(await asyncio.gather(*(_facts(store, line) for line in store.line.servers())))


async def _facts(store: Store, line: ServerLine) -> ServerFacts:
    about: dict[str, str] = {}
    for section in ("server", "memory", "persistence", "replication"):
        text = await line.call("INFO", section)
        about |= dict(row.split(":", 1) for row in text.splitlines() if ":" in row)
    loaded = await line.call("SCRIPT", "EXISTS", *store.script_digests)
    trips_ms = []
    for _ in range(PINGS):
        began_s = time.perf_counter()
        await line.call("PING")
        trips_ms.append((time.perf_counter() - began_s) * 1000)
    name = "Valkey" if "valkey_version" in about else "Redis"
    return ServerFacts(
        version=f"{name} {about.get('valkey_version') or about.get('redis_version', UNKNOWN)}",
        topology=about.get("redis_mode") or about.get("server_mode", UNKNOWN),
        port=int(about.get("tcp_port", 0)),
        maxmemory_policy=about.get("maxmemory_policy", UNKNOWN),
        persistence=await _persistence(line, about),
        replicas=int(about.get("connected_slaves", 0)),
        memory=about.get("used_memory_human", UNKNOWN),
        memory_limit=about.get("maxmemory_human", UNKNOWN) if about.get("maxmemory", "0") != "0" else "none",
        scripts=len(loaded),
        scripts_loaded=sum(loaded),
        round_trip_ms=statistics.median(trips_ms),
    )


async def _persistence(line: ServerLine, about: dict[str, str]) -> str:
    try:
        flat = [*await line.call("CONFIG", "GET", "appendfsync"), *await line.call("CONFIG", "GET", "save")]
        config = dict(zip(flat[::2], flat[1::2], strict=True))
    except ResponseError:
        # The user we ask for needs no such right.
        config = {}
    if about.get("aof_enabled") == "1":
        return f"append-only file, fsync {config.get('appendfsync', UNKNOWN)}"
    # Without the right to ask, a snapshot that was made is the only hint.
    is_saved = config.get("save", "1" if about.get("rdb_saves", "0") != "0" else "")
    return "snapshots" if is_saved else "nothing"
