"""The way into Redis: connected, checked, scripts loaded."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from redis.exceptions import AuthenticationError, AuthorizationError, RedisError, ResponseError

from lingua_scheduler.domain.maintenance.versions import refusal
from lingua_scheduler.store import rights
from lingua_scheduler.store import scripts as lua
from lingua_scheduler.store.cluster.inbox import Inboxes
from lingua_scheduler.store.cluster.instances import Instances
from lingua_scheduler.store.cluster.signals import Signals
from lingua_scheduler.store.connection import FIRST_RETRY_S, Line, RedisAway, ServerLine, WritesRefused
from lingua_scheduler.store.jobs.affinity import Affinity
from lingua_scheduler.store.jobs.jobs import Jobs
from lingua_scheduler.store.jobs.requests import Requests
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.mending import Mender
from lingua_scheduler.store.nodes.fleet_columns import Looks
from lingua_scheduler.store.nodes.nodes import Nodes
from lingua_scheduler.store.nodes.services import Services
from lingua_scheduler.store.pools.pools import Pools
from lingua_scheduler.store.pools.surveys import Surveys
from lingua_scheduler.store.servers.addresses import (
    CLUSTER,
    SENTINEL,
    read_cluster,
    read_sentinel,
    read_server,
    scheme_of,
)
from lingua_scheduler.store.servers.redis_cluster import ClusterLine
from lingua_scheduler.store.servers.sentinel import SentinelLine
from lingua_scheduler.store.sessions.sessions import Sessions
from lingua_scheduler.store.unreadable import Unreadable
from lingua_scheduler.store.versions import Versions

T = TypeVar("T")

OLDEST_REDIS = (6, 2)
# Between two tries of one who insists, while Redis is there.
LONGEST_PAUSE_S = 0.25
REPLICA = "it is a replica, and takes no writes"


class StoreError(Exception):
    """Redis answers, but we cannot work with it; the message says why and what to do."""


class Store:
    """One line, and the nouns that live behind it."""

    def __init__(
        self,
        url: str,
        *,
        key_prefix: str,
        timeout_ms: int = 2_000,
        max_pending: int = 20_000,
        allow_eviction: bool = False,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._library = lua.read_library()
        self._allow_eviction = allow_eviction
        self._key_prefix = key_prefix
        self._has_opened = False
        self._timeout_ms = timeout_ms
        self._max_pending = max_pending
        self._address = url
        keys = Keys(key_prefix)
        self.unreadable = unreadable = Unreadable()
        self._mend = Mender(keys, self._library["key_set_aside"].source, unreadable).mend
        try:
            self.line = self._line_to(url, self._prepare)
        except ValueError as error:
            raise StoreError(f"{shown(url)} is not a Redis address: {error}") from error
        self.url = shown(url)
        self.version = ""
        scripts = lua.Scripts(self.line, self._library, clock)
        self.keys = keys
        self.scripts = scripts
        self.nodes = Nodes(self.line, keys, scripts, unreadable)
        self.jobs = Jobs(self.line, keys, scripts, unreadable, max_pending)
        self.services = Services(keys, scripts)
        self.pools = Pools(self.line, keys, scripts, unreadable)
        self.affinity = Affinity(self.line, keys, unreadable)
        self.instances = Instances(self.line, keys, scripts, unreadable)
        self.inboxes = Inboxes(self.line, keys, scripts, max_pending)
        self.sessions = Sessions(self.line, keys, scripts)
        self.requests = Requests(keys, scripts)
        self.looks = Looks(self.line, keys, unreadable)
        self.surveys = Surveys(self.line, keys, scripts, unreadable)
        self.signals = Signals(self.line, keys.signals)
        self.versions = Versions(self.line, keys, scripts)

    async def open(self, *, wait: bool = False, on_wait: Callable[[str], None] | None = None) -> None:
        """Connect; with `wait` keep trying until Redis is there."""
        retry_s = 0.1
        while True:
            try:
                await self.line.open()
                self._has_opened = True
                return
            except RedisAway as error:
                if isinstance(error.__cause__, AuthenticationError | AuthorizationError | ResponseError):
                    reason = str(error).rstrip(".")
                    raise StoreError(
                        f"Redis at {self.url} refused us: {reason}; check user, password and database of --redis-url"
                    ) from error
                if not wait:
                    raise
                if on_wait is not None:
                    on_wait(str(error))
            except ResponseError as error:
                raise StoreError(f"Redis at {self.url} refused us: {error}") from error
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, 2.0)

    async def claim_data(self) -> None:
        """Before anything is written: refuse data of a release we know nothing of, and mark what has no mark yet."""
        claimed = await self.versions.claim()
        if reason := refusal(*claimed):
            raise StoreError(f"Redis at {self.url} cannot be used by this release: {reason}")

    async def close(self) -> None:
        await self.line.close()

    async def insist(self, call: Callable[[], Awaitable[T]], timeout_s: float, *, bears_refusal: bool = True) -> T:
        """Make a call that must not be lost, again when Redis is back. Only for scripts that are safe to repeat.

        A server that is there and refuses writes may do so for long: not everybody waits for that (`bears_refusal`).
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + timeout_s
        pause_s = FIRST_RETRY_S
        while True:
            try:
                return await call()
            except RedisAway as error:
                left_s = give_up_at - loop.time()
                if left_s <= 0 or (isinstance(error, WritesRefused) and not bears_refusal):
                    raise
            # A line may be up and refuse us all the same, because too much waits or a part of a Cluster is away.
            # Thousands may be refused, and ask again.
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
            try:
                async with asyncio.timeout(left_s):
                    await self.line.up.wait()
            except TimeoutError:
                raise RedisAway("Redis did not come back in time") from None

    @property
    def script_digests(self) -> list[str]:
        return [script.sha for script in self._library.values()]

    @property
    def is_ready(self) -> bool:
        return self.line.up.is_set()

    async def memory_used(self) -> float | None:
        """Of the memory a server may use, the fullest one's share; None where there is no limit."""
        replies = await asyncio.gather(*(line.call("INFO", "memory") for line in self.line.servers()))
        facts = [_info(reply) for reply in replies]
        shares = [
            int(fact.get("used_memory", 0)) / limit for fact in facts if (limit := int(fact.get("maxmemory", 0))) > 0
        ]
        return max(shares, default=None)

    @property
    def is_refused(self) -> bool:
        """A server is there, and takes no writes."""
        return any(line.refusal for line in self.line.servers())

    def watch_writes(self) -> None:
        """From now on a server that answers and takes no writes counts as away."""
        self.line.watch_writes(self._key_prefix)

    def another_line(self) -> Line:
        """A line of its own to the same Redis, for calls that block; it is not open yet, and its replies are bytes."""
        return self._line_to(self._address, _refuse_replicas, is_raw=True)

    @property
    def longest_block_ms(self) -> int:
        """How long a call on such a line may block and still be told from a server that hangs."""
        return max(1, min(1_000, self._timeout_ms // 2))

    def _line_to(self, url: str, prepare: Callable[[ServerLine], Awaitable[None]], *, is_raw: bool = False) -> Line:
        scheme = scheme_of(url)
        make: Callable[..., Line]
        if scheme in CLUSTER:
            make = partial(ClusterLine, read_cluster(url))
        elif scheme in SENTINEL:
            make = partial(SentinelLine, read_sentinel(url))
        else:
            make = partial(ServerLine, read_server(url))
        return make(
            timeout_ms=self._timeout_ms,
            max_pending=self._max_pending,
            prepare=prepare,
            mend=self._mend,
            is_raw=is_raw,
        )

    async def _prepare(self, line: ServerLine) -> None:
        """What must hold before anybody may use a new connection."""
        sections = ("server", "memory", "replication")
        replies = await asyncio.gather(*(line.prepare_call("INFO", section) for section in sections))
        server, memory, replication = map(_info, replies)
        self.version = _check_version(server)
        if "cluster" in (server.get("redis_mode"), server.get("server_mode")) and isinstance(self.line, ServerLine):
            raise StoreError(f"Redis at {self.url} is part of a Cluster: write its address as redis+cluster://…")
        if replication.get("role") == "slave":
            raise RedisAway(REPLICA)
        policy = memory.get("maxmemory_policy", "noeviction")
        if policy != "noeviction" and not self._allow_eviction:
            raise StoreError(
                f"Redis at {self.url} may evict keys (maxmemory-policy {policy}), which would lose leases; "
                "set it to noeviction, or redis.allow_eviction = true for development"
            )
        # Asked at the start alone: rights do not change with every connection that breaks.
        if not self._has_opened and (refused := await rights.missing(line, self._library, self._key_prefix)):
            raise StoreError(
                f"Redis at {self.url} does not let us work: {rights.sentence(refused, self._key_prefix)}; "
                "lingua redis acl prints the rights it needs"
            )
        try:
            await lua.load(line, self._library)
        except RedisError as error:
            raise StoreError(f"Redis at {self.url} does not take our scripts: {error}") from error


async def _refuse_replicas(line: ServerLine) -> None:
    if _info((await line.prepare_call("INFO", "replication")).decode()).get("role") == "slave":
        raise RedisAway(REPLICA)


def shown(url: str) -> str:
    """A Redis address fit for logs: without its password, even when that holds an @ or a / it should not."""
    return re.sub(r"(password=)[^&]*", r"\1***", re.sub(r"//(?!/).*@", "//***@", url))


def _info(text: str) -> dict[str, str]:
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def _check_version(server: dict[str, str]) -> str:
    if "valkey_version" in server:
        return f"Valkey {server['valkey_version']}"
    version = server.get("redis_version", "0")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_REDIS:
        oldest = ".".join(map(str, OLDEST_REDIS))
        raise StoreError(f"this is Redis {version}; Redis {oldest} or newer, or Valkey, is needed")
    return f"Redis {version}"
