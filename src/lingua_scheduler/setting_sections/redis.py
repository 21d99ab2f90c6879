"""Settings of the Redis server, or of the embedded one."""

from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.setting_sections.kinds import Count, PeriodMs, doc

_Megabytes = Annotated[int, Meta(ge=0, le=1_000_000)]
# Braces would choose a Redis Cluster slot, and glob characters would widen a key scan.
_KeyPrefix = Annotated[
    str, Meta(pattern=r"\A[A-Za-z0-9:_-]+\Z", extra={"expected": 'only letters, digits, ":", "_" and "-"'})
]


class RedisSettings(msgspec.Struct, frozen=True, kw_only=True):
    url: Annotated[str, doc("URL of Redis or Valkey; empty = start an embedded server")] = ""
    password_file: Annotated[
        str, doc("File with the password for `redis.url`, where that has none; an empty file holds no password")
    ] = ""
    data_dir: Annotated[str, doc("Data directory of the embedded server; empty = the per-user default")] = ""
    server_binary: Annotated[
        str, doc("Path of the redis-server or valkey-server to embed; empty = the bundled one")
    ] = ""
    max_memory_mb: Annotated[_Megabytes, doc("Memory limit of the embedded server; 0 = no limit")] = 1024
    wait: Annotated[bool, doc("Keep retrying if Redis is unreachable at startup, instead of exiting")] = False
    key_prefix: Annotated[_KeyPrefix, doc("Prefix of every Redis key")] = "lingua:v1"
    timeout_ms: Annotated[PeriodMs, doc("Maximum time to wait for a reply before Redis counts as unavailable")] = 2000
    max_pending: Annotated[
        Count,
        doc("Maximum unanswered commands, and maximum script calls waiting in batches; further ones fail immediately"),
    ] = 20_000
    allow_eviction: Annotated[bool, doc("Accept a Redis whose maxmemory policy may evict keys")] = False
