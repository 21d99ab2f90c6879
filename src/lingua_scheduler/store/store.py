"""The store: one connection to Redis, checked, and what is kept behind it."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from redis.exceptions import AuthenticationError, AuthorizationError, RedisError, ResponseError

from lingua_scheduler.clock import LEAST_WAIT_S, SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.maintenance.versions import refusal, unreadable
from lingua_scheduler.store import rights
from lingua_scheduler.store import scripts as lua
from lingua_scheduler.store.access.audit import AuditStore
from lingua_scheduler.store.access.credentials import CredentialStore
from lingua_scheduler.store.access.logins import LoginStore
from lingua_scheduler.store.access.pairings import PairingStore
from lingua_scheduler.store.cluster.inbox import BATCHED as INBOX_BATCHES
from lingua_scheduler.store.cluster.inbox import Inboxes
from lingua_scheduler.store.cluster.instances import Instances
from lingua_scheduler.store.cluster.signals import Signals
from lingua_scheduler.store.connection import RedisAway, RedisLine, ServerLine, WritesRefused
from lingua_scheduler.store.jobs.affinity import Affinity
from lingua_scheduler.store.jobs.jobs import BATCHED as JOB_BATCHES
from lingua_scheduler.store.jobs.jobs import Jobs
from lingua_scheduler.store.jobs.requests import Requests
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.mending import Mender
from lingua_scheduler.store.nodes.claims import NodeClaims
from lingua_scheduler.store.nodes.fleet_columns import Looks
from lingua_scheduler.store.nodes.ledger import Ledger
from lingua_scheduler.store.nodes.node_views import NodeViews
from lingua_scheduler.store.nodes.nodes import Nodes
from lingua_scheduler.store.nodes.owners import Owners
from lingua_scheduler.store.nodes.pasts import Pasts
from lingua_scheduler.store.nodes.placements import Placements
from lingua_scheduler.store.nodes.services import Services
from lingua_scheduler.store.nodes.tallies import Tallies
from lingua_scheduler.store.pools.demand import DemandRecord
from lingua_scheduler.store.pools.pools import Pools
from lingua_scheduler.store.pools.surveys import Surveys
from lingua_scheduler.store.rooms.guesses import RoomGuesses
from lingua_scheduler.store.rooms.live_rooms import LiveRooms
from lingua_scheduler.store.rooms.rooms import RoomStore
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
from lingua_scheduler.store.sessions.sessions import SessionStore
from lingua_scheduler.store.unreadable import UnreadableKeys
from lingua_scheduler.store.versions import Versions
from lingua_scheduler.store.watching.chronicle import ChronicleStore
from lingua_scheduler.store.watching.failures import FailureHistory
from lingua_scheduler.store.watching.known_alarms import KnownAlarms
from lingua_sdk.domain.backoff import Backoff

T = TypeVar("T")

OLDEST_REDIS = (6, 2)
# Between two tries to connect at the start, and between two tries of `insist` while Redis is reachable.
CONNECTS = Backoff(0.1, 2.0)
TRIES = Backoff(0.02, 0.25)
REPLICA = "it is a replica and accepts no writes"


class StoreError(Exception):
    """Redis answers, but we cannot work with it; the message says why and what to do."""


class Store:
    """One line, and the nouns that live behind it. `clock` stands for Redis's own in scripts: only tests give one."""

    def __init__(
        self,
        url: str,
        *,
        key_prefix: str,
        timeout_ms: int = 2_000,
        max_pending: int = 20_000,
        allow_eviction: bool = False,
        clock: Callable[[], int] | None = None,
        local_clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._local_clock = local_clock
        self._library = lua.read_library()
        self._allow_eviction = allow_eviction
        self._key_prefix = key_prefix
        self._has_opened = False
        self._timeout_ms = timeout_ms
        self._max_pending = max_pending
        self._address = url
        keys = Keys(key_prefix)
        self.unreadable = unreadable = UnreadableKeys(local_clock)
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
        self.placements = Placements(self.line, keys, scripts, unreadable)
        self.nodes = Nodes(keys, scripts, self.placements, Pasts(self.line, keys, unreadable), unreadable)
        self.claims = NodeClaims(keys, scripts)
        self.owners = Owners(self.line, keys, self.placements, unreadable)
        self.node_views = NodeViews(self.line, keys, self.placements, unreadable)
        self.ledger = Ledger(self.line, keys, scripts, unreadable)
        self.jobs = Jobs(self.line, keys, scripts, unreadable, max_pending)
        self.services = Services(keys, scripts)
        self.pools = Pools(self.line, keys, scripts, unreadable)
        self.demand = DemandRecord(self.line, keys, scripts, unreadable)
        self.alarms = KnownAlarms(keys, scripts, unreadable)
        self.affinity = Affinity(self.line, keys, unreadable)
        self.instances = Instances(self.line, keys, scripts, unreadable)
        self.inboxes = Inboxes(self.line, keys, scripts, max_pending)
        self.sessions = SessionStore(self.line, keys, scripts)
        self.rooms = RoomStore(self.line, keys, scripts, unreadable)
        self.live_rooms = LiveRooms(self.line, keys, scripts, unreadable)
        self.guesses = RoomGuesses(keys, scripts)
        self.requests = Requests(keys, scripts)
        self.tallies = Tallies(self.line, keys, scripts, unreadable)
        self.looks = Looks(self.line, keys, unreadable)
        self.surveys = Surveys(self.line, keys, scripts, unreadable)
        self.signals = Signals(self.line, keys.signals)
        self.chronicle = ChronicleStore(self.line, keys, scripts, unreadable)
        self.failures = FailureHistory(self.line, keys, scripts, unreadable)
        self.audit = AuditStore(self.line, keys, scripts, unreadable)
        self.credentials = CredentialStore(self.line, keys, scripts, unreadable)
        self.logins = LoginStore(self.line, keys, scripts, unreadable)
        self.pairings = PairingStore(self.line, keys, scripts, unreadable)
        self.versions = Versions(self.line, keys, scripts)

    async def open(self, *, wait: bool = False, on_wait: Callable[[str], None] | None = None) -> None:
        """Connect; with `wait` keep trying until Redis is there."""
        failures = 0
        while True:
            try:
                await self.line.open()
                self._has_opened = True
                return
            except RedisAway as error:
                if _is_final(error):
                    reason = str(error).rstrip(".")
                    raise StoreError(
                        f"Redis at {self.url} refused the connection: {reason}; check user, password and database in "
                        "--redis-url"
                    ) from error
                if not wait:
                    raise
                if on_wait is not None:
                    on_wait(str(error))
            except ResponseError as error:
                raise StoreError(f"Redis at {self.url} refused the connection: {error}") from error
            failures += 1
            await asyncio.sleep(CONNECTS.pause_s(failures))

    async def claim_data(self) -> None:
        """Before anything is written: refuse data of a release we know nothing of, and mark what has no mark yet."""
        self._refuse(refusal(*await self.versions.claim()))

    async def check_data(self) -> None:
        """Before anything is read by one who does not write: refuse data of a release we know nothing of."""
        self._refuse(unreadable(await self.versions.read()))

    def _refuse(self, reason: str | None) -> None:
        if reason is not None:
            raise StoreError(f"Redis at {self.url} cannot be used by this release: {reason}")

    async def close(self) -> None:
        await self.line.close()

    async def insist(self, call: Callable[[], Awaitable[T]], timeout_s: float, *, bears_refusal: bool = True) -> T:
        """Make a call that must not be lost; retried when Redis is back. Only for idempotent scripts.

        A server that answers but refuses writes may do so for long: not every caller waits for that (`bears_refusal`).
        """
        give_up_at = self._local_clock() + timeout_s
        failures = 0
        while True:
            try:
                return await call()
            except RedisAway as error:
                left_s = give_up_at - self._local_clock()
                if left_s < LEAST_WAIT_S or (isinstance(error, WritesRefused) and not bears_refusal):
                    raise
            # A line may be up and refuse us all the same, because too much waits or a part of a Cluster is away.
            # Thousands may be refused, and ask again.
            failures += 1
            await asyncio.sleep(min(TRIES.pause_s(failures), left_s))
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

    def another_line(self) -> RedisLine:
        """A line of its own to the same Redis, for calls that block; it is not open yet, and its replies are bytes."""
        return self._line_to(self._address, _refuse_replicas, is_raw=True)

    @property
    def longest_block_ms(self) -> int:
        """Maximum time a blocking call on such a line may take before the server counts as hanging."""
        return max(1, min(1_000, self._timeout_ms // 2))

    def _line_to(
        self, url: str, prepare: Callable[[ServerLine], Awaitable[None]], *, is_raw: bool = False
    ) -> RedisLine:
        scheme = scheme_of(url)
        make: Callable[..., RedisLine]
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
            clock=self._local_clock,
        )

    async def _prepare(self, line: ServerLine) -> None:
        """Checks of a new connection before callers may use it."""
        sections = ("server", "memory", "replication")
        replies = await asyncio.gather(*(line.prepare_call("INFO", section) for section in sections))
        server, memory, replication = map(_info, replies)
        self.version = _check_version(server)
        if "cluster" in (server.get("redis_mode"), server.get("server_mode")) and isinstance(self.line, ServerLine):
            raise StoreError(f"Redis at {self.url} is part of a Cluster; use an address of the form redis+cluster://…")
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
                f"Redis at {self.url} denies permissions: {rights.sentence(refused, self._key_prefix)}; "
                "lingua redis acl prints the required permissions"
            )
        try:
            # All others are loaded when they are first called. What batches send together has to keep its order.
            await lua.load(line, [self._library[name] for name in JOB_BATCHES + INBOX_BATCHES])
        except RedisError as error:
            raise StoreError(f"Redis at {self.url} rejected the scripts: {error}") from error


async def _refuse_replicas(line: ServerLine) -> None:
    if _info((await line.prepare_call("INFO", "replication")).decode()).get("role") == "slave":
        raise RedisAway(REPLICA)


def _is_final(error: RedisAway) -> bool:
    """Redis answered and let us not in: waiting would change nothing. redis-py packs a missing password once more."""
    cause = error.__cause__
    inner = cause.__cause__ if cause is not None else None
    return isinstance(cause, AuthenticationError | AuthorizationError | ResponseError) or isinstance(
        inner, AuthenticationError
    )


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
        raise StoreError(f"this is Redis {version}; Redis {oldest} or newer, or Valkey, is required")
    return f"Redis {version}"
